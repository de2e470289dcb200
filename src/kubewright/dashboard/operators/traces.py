"""`TraceStore`: what the connected operator did, bounded in memory.

A store receives spans and queue samples in the form of the HTTP interface, from a manager in this process
(`OperatorDashboard`) or from the trace endpoint of another one (`RemoteTraces`), and forwards them to the
open pages. Spans are stored per controller and per webhook, so that a busy one does not displace those of
the others; the last failure and the last success of each object are stored in addition (`ObjectEvidence`).
Responses say how far back they go: `since` is when recording began, `completeSince` the time after which
nothing was dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, Literal

from kubewright.api.encoding.codec import encode
from kubewright.api.values.times import wall_time

from .object_evidence import ObjectEvidence, ReconciledObject, is_failure

MAX_SPANS: Final = 500
"""Spans of one controller or one webhook path."""
MAX_OWNERS: Final = 200
"""Controllers and webhook paths."""
MAX_BYTES: Final = 16 << 20
"""Size of the stored reconciles, and of the stored webhook calls, as JSON."""
MAX_SAMPLES: Final = 300
SAMPLE_SECONDS: Final = 1.0

RecordType = Literal["reconcile", "webhook", "queue"]
TraceListener = Callable[[RecordType, dict[str, Any]], None]

_RATES: Final = (("rate", "reconciles"), ("errorRate", "errors"))
_MEANS: Final = (("latency", "busySeconds", "reconciles"), ("wait", "waitSeconds", "started"))


class TraceStore:
    """The latest spans and queue samples."""

    def __init__(self) -> None:
        self.available = False
        """Whether an operator is connected."""
        self.message = (
            "no operator is connected: run it with `kubewright run --dashboard`, or connect to its trace "
            "endpoint with `kubewright dashboard --operator URL`"
        )
        """Why no operator is connected."""
        self.operators: list[str] = []
        self.since: float | None = None
        """When recording began."""
        self.evidence = ObjectEvidence()
        self.revision = 0
        """Increased with each record."""
        self._reconciles = _SpanRings()
        self._webhooks = _SpanRings()
        self._queues: dict[str, _QueueSeries] = {}
        self._listeners: dict[TraceListener, None] = {}

    def add_listener(self, listener: TraceListener) -> None:
        """Call a function with every record from now on."""
        self._listeners[listener] = None

    def remove_listener(self, listener: TraceListener) -> None:
        """Stop calling a function."""
        self._listeners.pop(listener, None)

    def add(self, type_: RecordType, record: dict[str, Any]) -> None:
        """Store a record, and forward it."""
        self.revision += 1
        if self.since is None:
            self.since = wall_time() * 1000
        if type_ == "reconcile":
            encoded = encode(record)
            self._reconciles.add(record["controller"], record, len(encoded))
            self.evidence.add(record, encoded)
        elif type_ == "webhook":
            self._webhooks.add(record["path"], record, len(encode(record)))
        else:
            record = self._add_sample(record)
        for listener in list(self._listeners):
            listener(type_, record)

    def reconciles(
        self,
        *,
        controller: str = "",
        kind: str = "",
        namespace: str = "",
        name: str = "",
        errors: bool = False,
        limit: int = 200,
    ) -> dict[str, Any]:
        """Return the spans of reconciles that match, newest first, and what is known of their objects.

        The last failure and the last success of an object are part of the spans, however old they are.
        """
        wanted = {"controller": controller, "kind": kind, "namespace": namespace, "name": name}
        filters = [(field, value) for field, value in wanted.items() if value]

        def matches(key: ReconciledObject) -> bool:
            return all(getattr(key, field) == value for field, value in filters)

        found = {span["id"]: span for span in self.evidence.spans(matches, errors=errors)}
        for span in self._reconciles.newest(controller):
            if all(span[field] == value for field, value in filters) and (is_failure(span) or not errors):
                found[span["id"]] = span
        spans = sorted(found.values(), key=lambda span: float(span["started"]), reverse=True)
        return {
            "traces": self.available,
            "message": "" if self.available else self.message,
            "controllers": sorted({*self._reconciles.keys(), *self._queues}),
            "spans": _limit(spans, limit),
            "objects": self.evidence.summaries(matches, limit),
            "forgotten": self.evidence.forgotten,
            "since": self.since,
            "completeSince": self._reconciles.complete_since(controller) or self.since,
        }

    def webhooks(self, *, path: str = "", limit: int = 200) -> dict[str, Any]:
        """Return the spans of webhook calls, newest first."""
        return {
            "traces": self.available,
            "message": "" if self.available else self.message,
            "paths": sorted(self._webhooks.keys()),
            "spans": list(islice(self._webhooks.newest(path), limit)),
            "since": self.since,
            "completeSince": self._webhooks.complete_since(path) or self.since,
        }

    def recent_reconciles(self) -> list[dict[str, Any]]:
        """Return the stored spans of all controllers, newest first."""
        return self._reconciles.newest()

    def recent_webhooks(self) -> list[dict[str, Any]]:
        """Return the stored webhook calls, newest first."""
        return self._webhooks.newest()

    def failing_requests(self) -> dict[str, dict[str, str]]:
        """Return the requests that controllers report as failing, with their errors, by controller."""
        return {name: each.current.get("failing") or {} for name, each in self._queues.items()}

    def queues(self) -> dict[str, Any]:
        """Return the state and the series of every controller."""
        controllers = [
            {**series.current, "series": {name: list(values) for name, values in series.values.items()}}
            for series in self._queues.values()
        ]
        return {"traces": self.available, "interval": SAMPLE_SECONDS, "controllers": controllers}

    def _add_sample(self, sample: dict[str, Any]) -> dict[str, Any]:
        rows = []
        for each in sample["controllers"]:
            series = self._queues.get(each["name"])
            if series is None:
                if len(self._queues) >= MAX_OWNERS:
                    continue
                series = self._queues[each["name"]] = _QueueSeries()
            rows.append(series.add(sample["time"], each))
        return {"time": sample["time"], "controllers": rows}


class _QueueSeries:
    """The samples of one controller."""

    def __init__(self) -> None:
        names = ("time", "depth", "active", "rate", "errorRate", "latency", "wait")
        self.values: dict[str, deque[float | None]] = {name: deque(maxlen=MAX_SAMPLES) for name in names}
        self.current: dict[str, Any] = {}
        self._last: dict[str, Any] | None = None

    def add(self, time: float, sample: dict[str, Any]) -> dict[str, Any]:
        """Add a sample of cumulative values; return it with the values of its interval."""
        last = self._last
        row = {
            name: value
            for name, value in sample.items()
            if not name.endswith("Seconds") and name != "started"
        }
        if last is None or sample["reconciles"] < last["reconciles"]:
            row.update({"rate": 0.0, "errorRate": 0.0, "latency": None, "wait": None})
        else:
            seconds = max((time - last["time"]) / 1000, 1e-3)
            for name, field in _RATES:
                row[name] = (sample[field] - last[field]) / seconds
            for name, total, field in _MEANS:
                count = sample[field] - last[field]
                row[name] = (sample[total] - last[total]) / count if count > 0 else None
        self._last = {**sample, "time": time}
        self.current = row
        for name, values in self.values.items():
            values.append(time if name == "time" else row[name])
        return row


class _Ring:
    """The latest spans of one controller or webhook path, with their sizes."""

    def __init__(self) -> None:
        self.spans: deque[tuple[int, dict[str, Any]]] = deque()
        self.size = 0
        self.dropped_until: float | None = None
        """When the newest span that was dropped started."""

    def append(self, size: int, span: dict[str, Any]) -> None:
        self.spans.append((size, span))
        self.size += size

    def drop_oldest(self) -> int:
        size, span = self.spans.popleft()
        self.size -= size
        self.dropped_until = span["started"]
        return size


class _SpanRings:
    """Spans by controller or webhook path, limited in number per key and in total size."""

    def __init__(self) -> None:
        self._rings: dict[str, _Ring] = {}
        self._forgotten: tuple[float, ...] = ()
        """When the newest span of the rings that were dropped started."""
        self._size = 0

    def keys(self) -> list[str]:
        """Return the controllers or paths."""
        return list(self._rings)

    def complete_since(self, key: str = "") -> float | None:
        """Return when the newest span that was dropped started; `None` if nothing was dropped."""
        rings = self._rings.values() if not key else [self._rings[key]] if key in self._rings else []
        dropped = [each.dropped_until for each in rings if each.dropped_until is not None]
        return max((*dropped, *self._forgotten), default=None)

    def add(self, key: str, span: dict[str, Any], size: int) -> None:
        """Add a span; the oldest of the largest ring is dropped if there is no space."""
        ring = self._rings.get(key)
        if ring is None:
            while len(self._rings) >= MAX_OWNERS:
                dropped = self._rings.pop(next(iter(self._rings)))
                self._size -= dropped.size
                self._forgotten = tuple(span["started"] for _, span in [*dropped.spans][-1:])
            ring = self._rings[key] = _Ring()
        ring.append(size, span)
        self._size += size
        if len(ring.spans) > MAX_SPANS:
            self._size -= ring.drop_oldest()
        while self._size > MAX_BYTES:
            self._size -= max(self._rings.values(), key=lambda each: each.size).drop_oldest()

    def newest(self, key: str = "") -> list[dict[str, Any]]:
        """Return the spans of one key, or all of them, newest first."""
        rings = self._rings.values() if not key else [self._rings[key]] if key in self._rings else []
        spans = (span for ring in rings for _, span in ring.spans)
        return sorted(spans, key=lambda span: span["started"], reverse=True)


def _limit(spans: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return the newest spans, and of those that are left out the newest failure of each object."""
    chosen = spans[:limit]
    failing = {_object_of(span) for span in chosen if is_failure(span)}
    for span in spans[limit:]:
        if is_failure(span) and _object_of(span) not in failing and len(chosen) < 2 * limit:
            failing.add(_object_of(span))
            chosen.append(span)
    return chosen


def _object_of(span: dict[str, Any]) -> tuple[str, ...]:
    return span["controller"], span["kind"], span["namespace"], span["name"]
