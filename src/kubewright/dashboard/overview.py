"""The overview of a cluster: its kinds with the health of their objects, what needs attention, and warnings.

It is encoded once for all pages of a namespace, and at most once per interval, because changes are frequent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from kubewright.api.encoding.codec import encode
from kubewright.api.values.times import monotonic_time

from .attention import Attention
from .objects.object_index import ObjectIndex
from .operators.traces import TraceStore

MAX_WARNINGS: Final = 100
MAX_NAMESPACES: Final = 16
INTERVAL_SECONDS: Final = 1.0
"""Time after which findings that depend on the time are computed again."""


class Overview:
    """Encodes the overview of each namespace that pages show."""

    def __init__(
        self, index: ObjectIndex, traces: TraceStore, *, clock: Callable[[], float] = monotonic_time
    ) -> None:
        self._index = index
        self._traces = traces
        self._clock = clock
        self.attention = Attention(index, traces)
        self._bodies: OrderedDict[str, tuple[tuple[int, int, float], bytes]] = OrderedDict()

    def encode(self, namespace: str = "") -> bytes:
        """Return the current overview as JSON."""
        second = self._clock() // INTERVAL_SECONDS
        state = (self._index.revision, self._traces.revision, second)
        found = self._bodies.get(namespace)
        if found is None or found[0] != state:
            found = (state, encode(self._describe(namespace)))
            self._bodies[namespace] = found
            while len(self._bodies) > MAX_NAMESPACES:
                self._bodies.popitem(last=False)
        return found[1]

    def _describe(self, namespace: str) -> dict[str, Any]:
        index = self._index
        warnings = index.warnings
        return {
            "synced": index.synced,
            "truncated": index.truncated > 0,
            "namespace": namespace,
            "kinds": [each.summary(namespace) for each in index.kinds.values()],
            **self.attention.describe(namespace),
            "traces": self._traces.available,
            "warnings": warnings.latest(index, MAX_WARNINGS, namespace=namespace),
            "warningsError": warnings.error,
        }
