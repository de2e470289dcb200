"""Trace contexts: the IDs of a span, and the `traceparent` header of W3C Trace Context."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class SpanContext(NamedTuple):
    """The identity of a span."""

    trace_id: bytes
    span_id: bytes
    sampled: bool

    @classmethod
    def parse(cls, header: str) -> SpanContext | None:
        """Return the context of a `traceparent` header, or `None` if it is not valid."""
        match = _TRACEPARENT.fullmatch(header.strip())
        if match is None or match[1] == "ff" or (match[5] and match[1] == "00"):
            return None
        trace_id, span_id = bytes.fromhex(match[2]), bytes.fromhex(match[3])
        if not any(trace_id) or not any(span_id):
            return None
        return cls(trace_id, span_id, bool(int(match[4], 16) & 1))

    @property
    def traceparent(self) -> str:
        """The value of the header."""
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{'01' if self.sampled else '00'}"


current: ContextVar[SpanContext | None] = ContextVar("kubewright_apiserver_span", default=None)
"""The span of the request that the current task processes."""


def current_traceparent() -> str:
    """Return the header for calls on behalf of the current request; empty if it is not traced."""
    context = current.get()
    return context.traceparent if context is not None else ""
