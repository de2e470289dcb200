"""Prometheus metrics of a cache.

    REGISTRY.register(CacheCollector(cache))

`kubewright_cache_objects`, `kubewright_cache_bytes`, `kubewright_cache_spilled_bytes` and
`kubewright_cache_synced`, each by group, version and kind. They are computed when they are scraped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .cache import Cache

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

_LABELS = ("group", "version", "kind")


class CacheCollector:
    """A collector for `registry.register`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current values."""
        from prometheus_client.core import GaugeMetricFamily

        objects = GaugeMetricFamily("kubewright_cache_objects", "Cached objects by kind.", labels=_LABELS)
        size = GaugeMetricFamily("kubewright_cache_bytes", "Bytes of cached objects by kind.", labels=_LABELS)
        spilled = GaugeMetricFamily(
            "kubewright_cache_spilled_bytes", "Size of the spill file by kind.", labels=_LABELS
        )
        synced = GaugeMetricFamily(
            "kubewright_cache_synced", "1 if the initial state has been received.", labels=_LABELS
        )
        for usage in self._cache.usage():
            labels = (usage.gvk.group, usage.gvk.version, usage.gvk.kind)
            objects.add_metric(labels, usage.objects)
            size.add_metric(labels, usage.bytes)
            spilled.add_metric(labels, usage.spilled_bytes)
            synced.add_metric(labels, float(usage.has_synced))
        yield from (objects, size, spilled, synced)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing, so that registration does not read the cache."""
        yield from ()
