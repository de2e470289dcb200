"""`CacheReadPublisher`: adds the reads from a cache to the spans of reconciles."""

from __future__ import annotations

from kubewright.client.discovery.api_resource import APIResource
from kubewright.tracing.source import SpanSink
from kubewright.tracing.spans import CallSpan, current_span

from .cache import Cache


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
    reconcile = current_span.get()
    if reconcile is not None:
        span = CallSpan(verb, str(resource), namespace=namespace, name=name, cached=True, reconcile=reconcile)
        span.status = 200
        span.finish()
