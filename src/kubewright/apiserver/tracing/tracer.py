"""Spans of requests.

A request is traced if its client has sent a sampled `traceparent` header and belongs to the group
`system:masters` or `system:monitoring`, or by the sampling rate. The header of other clients is not trusted:
it becomes a link of the span. Webhooks and aggregated API servers receive the context of the span in their
requests. The span of a watch ends when its response starts.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from kubewright.apiserver.authentication.user import MASTERS

from .configuration import TracingConfiguration
from .context import SpanContext, current
from .otlp import RequestSpan, SpanExporter

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
    from kubewright.apiserver.http.request_info import RequestInfo

logger = logging.getLogger("kubewright.apiserver.tracing")

_TRUSTED: Final = frozenset((MASTERS, "system:monitoring"))


class RequestTracer:
    """Creates spans of requests and exports them."""

    def __init__(self, configuration: TracingConfiguration) -> None:
        """Raises `ValueError` if the gRPC library is not installed."""
        self._limit = configuration.sampling_rate_per_million * (1 << 63) // 1_000_000
        self._exporter = SpanExporter(configuration.endpoint)

    async def start(self) -> None:
        """Start to export."""
        await self._exporter.start()

    async def stop(self) -> None:
        """Export the last spans."""
        await self._exporter.stop()

    def begin(self, request: HTTPRequest, info: RequestInfo) -> RequestSpan | None:
        """Start the span of an authenticated request; `None` if it is not traced."""
        remote = SpanContext.parse(request.headers.get("traceparent", ""))
        parent = current.get()
        if parent is None and remote is not None and not _TRUSTED.isdisjoint(request.user.groups):
            parent = remote
        trace_id = parent.trace_id if parent is not None else os.urandom(16)
        if not (parent.sampled if parent is not None else self._samples(trace_id)):
            return None
        query = f"?{request.query.raw}" if request.query.raw else ""
        span = RequestSpan(
            span_name(request, info),
            SpanContext(trace_id, os.urandom(8), True),
            parent_id=parent.span_id if parent is not None else b"",
            link=remote if parent is None else None,
            attributes={
                "http.request.method": request.method,
                "http.target": request.raw_path + query,
                "url.path": request.path,
                "url.scheme": "https",
                "user_agent.original": request.headers.get("User-Agent", ""),
                "audit-id": request.audit_id[:64],
            },
        )
        span.token = current.set(span.identity)
        return span

    def _samples(self, trace_id: bytes) -> bool:
        return self._limit > 0 and int.from_bytes(trace_id[8:]) >> 1 < self._limit

    def end(self, span: RequestSpan, response: HTTPResponse | None) -> None:
        """End a span; without a response, the client has disconnected."""
        if span.token is not None:
            current.reset(span.token)
            span.token = None
        span.finish()
        span.status = response.status if response is not None else 0
        self._exporter.add(span)


def span_name(request: HTTPRequest, info: RequestInfo) -> str:
    """Return the name of a span: the method, and the path of a resource without names."""
    if not info.resource:
        return request.method
    path = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    if info.namespace:
        path += "/namespaces/{:namespace}"
    path += f"/{info.resource}"
    if info.name:
        path += "/{:name}"
    if info.subresource:
        path += f"/{info.subresource}"
    return f"{request.method} {path}"
