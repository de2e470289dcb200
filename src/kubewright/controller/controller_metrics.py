"""What a controller reports, under controller-runtime's names; every series exists from the start."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


@lru_cache(maxsize=1)
def _families() -> dict[str, Any]:
    from prometheus_client import Counter, Gauge, Histogram

    prefix, label = "controller_runtime", ("controller",)
    return {
        "total": Counter(f"{prefix}_reconcile_total", "Reconciles", (*label, "result")),
        "errors": Counter(f"{prefix}_reconcile_errors_total", "Failed reconciles", label),
        "terminal": Counter(f"{prefix}_terminal_reconcile_errors_total", "Failures not tried again", label),
        "panics": Counter(f"{prefix}_reconcile_panics_total", "Unexpected exceptions", label),
        "timeouts": Counter(f"{prefix}_reconcile_timeouts_total", "Reconciles that took too long", label),
        "seconds": Histogram(
            f"{prefix}_reconcile_time_seconds", "Length of a reconcile", label, buckets=_BUCKETS
        ),
        "workers": Gauge(f"{prefix}_max_concurrent_reconciles", "Workers", label),
        "active": Gauge(f"{prefix}_active_workers", "Workers that are busy", label),
    }


class ControllerMetrics:
    """The metrics of one controller, bound once."""

    def __init__(self, name: str, workers: int) -> None:
        families = _families()
        self._totals = {
            result: families["total"].labels(name, result)
            for result in ("success", "error", "requeue", "requeue_after")
        }
        self._errors = families["errors"].labels(name)
        self._terminal = families["terminal"].labels(name)
        self._panics = families["panics"].labels(name)
        self._timeouts = families["timeouts"].labels(name)
        self._seconds = families["seconds"].labels(name)
        self._active = families["active"].labels(name)
        families["workers"].labels(name).set(workers)

    def active(self, change: int) -> None:
        """A worker became busy or idle."""
        self._active.inc(change)

    def observe(self, outcome: str, seconds: float) -> None:
        """One reconcile ended as `success`, `requeue_after`, `error`, `terminal` or `timeout`."""
        self._seconds.observe(seconds)
        if outcome in ("success", "requeue_after"):
            self._totals[outcome].inc()
            return
        self._totals["error"].inc()
        self._errors.inc()
        if outcome == "terminal":
            self._terminal.inc()
        elif outcome == "timeout":
            self._timeouts.inc()
