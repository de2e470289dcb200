"""Spans of API calls: requests through a client and reads from a cache, with their reconcile."""

from __future__ import annotations

from kubewright.api.errors import APIError
from kubewright.cache import Cache
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.tracing.source import SpanSink, end_span, start_span
from kubewright.tracing.spans import CallSpan

from .controller import current_reconcile


class CallPublisher:
    """Interceptor of a client that publishes a span for each request."""

    def __init__(self) -> None:
        self.sinks: tuple[SpanSink, ...] = ()

    async def __call__(self, request: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        """Send a request."""
        sinks = self.sinks
        if not sinks:
            return await proceed(request)
        info = current_reconcile.get()
        span = CallSpan(
            request.verb,
            str(request.resource or ""),
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
            method=request.method,
            path=request.path,
            headers=request.headers,
            reconcile=info.span if info is not None else None,
        )
        start_span(sinks, span)
        error: BaseException | None = None
        try:
            response = await proceed(request)
            span.status = response.status
            return response
        except BaseException as failure:
            error = failure
            span.status = failure.status_code if isinstance(failure, APIError) else 0
            raise
        finally:
            span.finish(error)
            span.headers = None
            end_span(sinks, span)


class CacheReadPublisher:
    """Adds the reads from a cache to the spans of reconciles."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._sinks: tuple[SpanSink, ...] = ()

    @property
    def sinks(self) -> tuple[SpanSink, ...]:
        """The subscribers; without any, the cache does not report reads."""
        return self._sinks

    @sinks.setter
    def sinks(self, sinks: tuple[SpanSink, ...]) -> None:
        self._sinks = sinks
        self._cache.on_read = record_cached_read if sinks else None


def record_cached_read(verb: str, resource: APIResource, namespace: str, name: str) -> None:
    """Add a read from a cache to the span of the current reconcile."""
    info = current_reconcile.get()
    if info is not None and info.span is not None:
        span = CallSpan(verb, str(resource), namespace=namespace, name=name, cached=True, reconcile=info.span)
        span.status = 200
        span.finish()


__all__ = ["CacheReadPublisher", "CallPublisher", "record_cached_read"]
