"""`SpanRecorder`: converts finished spans of reconciles, webhook calls and policies to plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from .admission_spans import PolicySpan, WebhookSpan
from .spans import ReconcileSpan, Span

RecordCallback = Callable[[Literal["reconcile", "webhook"], dict[str, Any]], None]


class SpanRecorder:
    """Calls a function with each finished reconcile, webhook call and evaluation of a policy."""

    def __init__(self, callback: RecordCallback) -> None:
        self._callback = callback

    def start(self, span: Span) -> None:
        """Do nothing: only complete spans are recorded."""

    def end(self, span: Span) -> None:
        """Convert a span."""
        if isinstance(span, ReconcileSpan):
            self._callback("reconcile", span.to_dict())
        elif isinstance(span, WebhookSpan | PolicySpan):
            self._callback("webhook", span.to_dict())
