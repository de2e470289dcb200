"""`TraceFeed`: the spans of one or more managers, and every second the state of its queues, as plain data.

The dashboard reads it in the process of the operator, or over HTTP from `TraceServer`. Nothing is recorded
before it runs and after it stops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Literal, Protocol

from kubewright.controller.controller import Controller
from kubewright.controller.daemons import DaemonController
from kubewright.runnable import Runnable
from kubewright.tracing.recorder import SpanRecorder
from kubewright.tracing.source import SpanSource

SAMPLE_SECONDS: Final = 1.0
MAX_FAILING: Final = 20
"""Failing requests of a controller in one sample."""

RecordType = Literal["reconcile", "webhook", "queue"]
TraceCallback = Callable[[RecordType, dict[str, Any]], None]


class TraceSource(Protocol):
    """Components that publish spans: a manager, or the workload controllers of a control plane."""

    @property
    def spans(self) -> SpanSource:
        """The spans of the components."""

    @property
    def runnables(self) -> list[Runnable]:
        """All components."""


class TraceFeed:
    """Calls a function with each span, and with samples of the queues, while it runs."""

    def __init__(self, sources: Sequence[TraceSource], callback: TraceCallback) -> None:
        self._sources = tuple(sources)
        self._callback = callback

    async def run(self, stop: asyncio.Event) -> None:
        """Subscribe until `stop` is set."""
        recorder = SpanRecorder(self._callback)
        unsubscribe = [source.spans.subscribe(recorder) for source in self._sources]
        try:
            while not stop.is_set():
                self._callback("queue", sample_queues(self._sources))
                try:
                    async with asyncio.timeout(SAMPLE_SECONDS):
                        await stop.wait()
                except TimeoutError:
                    continue
        finally:
            for each in unsubscribe:
                each()


def controllers_of(runnables: Iterable[Runnable]) -> list[Controller[Any]]:
    """Return the controllers among the components of a manager, by name."""
    found = (each.controller if isinstance(each, DaemonController) else each for each in runnables)
    return sorted((each for each in found if isinstance(each, Controller)), key=lambda each: each.name)


def sample_queues(sources: Iterable[TraceSource]) -> dict[str, Any]:
    """Return the state of all controllers; counts and seconds are totals since the start."""
    return {
        "time": time.time() * 1000,
        "controllers": [
            _sample(controller) for source in sources for controller in controllers_of(source.runnables)
        ],
    }


def _sample(controller: Controller[Any]) -> dict[str, Any]:
    metrics, queue, failing = controller.metrics, controller.queue, controller.failing
    waited = queue.metrics.waited if queue is not None else None
    return {
        "name": controller.name,
        "workers": metrics.workers,
        "depth": len(queue) if queue is not None else 0,
        "waiting": queue.waiting if queue is not None else 0,
        "active": metrics.active,
        "reconciles": metrics.reconciles,
        "errors": metrics.errors,
        "retries": queue.metrics.retries if queue is not None else 0,
        "failingCount": len(failing),
        "failing": {str(key): text for key, text in islice(failing.items(), MAX_FAILING)},
        "busySeconds": metrics.seconds.sum,
        "waitSeconds": waited.sum if waited is not None else 0.0,
        "started": waited.count if waited is not None else 0,
    }
