"""Spans of the admission of a control plane: its calls of webhooks and its evaluations of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright.tracing.source import SpanSource

if TYPE_CHECKING:
    from kubewright.runnable import Runnable

    from .plane import ControlPlane


class AdmissionTraces:
    """A source of traces for the dashboard; see `kubewright.manager.observability.trace_feed.TraceSource`."""

    def __init__(self, plane: ControlPlane, *, webhooks: bool = True) -> None:
        """Without `webhooks`, only policies: an operator in the same process publishes its own calls."""
        self.spans = SpanSource()
        self.runnables: list[Runnable] = []
        """None: there are no controllers."""
        publishers: list[Any] = [
            *plane.server.admission.plugins,
            *([plane.webhook_client] if webhooks else []),
        ]
        for each in publishers:
            if hasattr(each, "sinks"):
                self.spans.add(each)
