"""Measure CPU per operation.

A topic is a module in this folder with a function `benchmarks() -> list[Benchmark]`. Each benchmark is a
callable that does `operations` operations; it is repeated until a round is long enough for the clock's
resolution, and the best of several rounds counts, because other load on the machine only adds time. CPU time
is measured, not wall time, unless the name says so; the garbage collector is configured as in the entry
points of the process. A benchmark whose dependency is missing raises `Unavailable` and is reported as
skipped.

    python -m bench              every topic
    python -m bench api builtins these topics
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

ROUND_SECONDS = 0.05
ROUNDS = 5
SELF_TIMED_SECONDS = 4.0


class Unavailable(Exception):
    """A dependency of the benchmark is not installed or cannot run here; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One measurement.

    `run` may be a coroutine function. With `self_timed` it returns the CPU seconds to count, for work
    that happens in another process; with `target_mb` or `memory` it returns megabytes. Set one target, in
    the most readable unit.
    """

    name: str
    run: Callable[[], object] | Callable[[], Awaitable[object]]
    target_us: float | None = None
    target_ms: float | None = None
    target_mb: float | None = None
    operations: int = 1
    self_timed: bool = False
    memory: bool = False

    @property
    def reports(self) -> bool:
        """Whether `run` returns the measured value."""
        return self.self_timed or self.in_megabytes

    @property
    def in_megabytes(self) -> bool:
        """Whether memory is measured."""
        return self.memory or self.target_mb is not None

    @property
    def target(self) -> float | None:
        """The target in seconds per operation, or in megabytes."""
        if self.target_mb is not None:
            return self.target_mb
        if self.target_us is not None:
            return self.target_us / 1e6
        return None if self.target_ms is None else self.target_ms / 1e3


@dataclass(frozen=True, slots=True)
class Result:
    """Cost of a benchmark in CPU seconds per operation, or in megabytes."""

    benchmark: Benchmark
    cost: float

    @property
    def ratio(self) -> float | None:
        """Cost relative to the target; above 1 is a miss."""
        return self.cost / self.benchmark.target if self.benchmark.target else None


def measure(benchmark: Benchmark) -> Result:
    """Run one benchmark; the best round counts."""
    if inspect.iscoroutinefunction(benchmark.run):
        best = asyncio.run(_measure_async(benchmark, benchmark.run))
    else:
        best = _measure_sync(benchmark, benchmark.run)
    return Result(benchmark, best / benchmark.operations)


def _measure_sync(benchmark: Benchmark, run: Callable[[], object]) -> float:
    if benchmark.reports:
        begun = time.monotonic()
        first = _reported(run())
        return min([first, *(_reported(run()) for _ in range(_repeats(time.monotonic() - begun)))])

    def one_round(calls: int) -> float:
        gc.collect()
        start = time.process_time()
        for _ in range(calls):
            run()
        return time.process_time() - start

    calls = _calls_per_round(one_round(1))
    while (spent := one_round(calls)) < ROUND_SECONDS / 2:
        calls *= 4
    rounds = 2 if spent > 1 else ROUNDS
    return min([spent, *(one_round(calls) for _ in range(rounds - 1))]) / calls


async def _measure_async(benchmark: Benchmark, run: Callable[[], Awaitable[object]]) -> float:
    if benchmark.reports:
        begun = time.monotonic()
        first = _reported(await run())
        return min([first, *[_reported(await run()) for _ in range(_repeats(time.monotonic() - begun))]])

    async def one_round(calls: int) -> float:
        gc.collect()
        start = time.process_time()
        for _ in range(calls):
            await run()
        return time.process_time() - start

    calls = _calls_per_round(await one_round(1))
    while (spent := await one_round(calls)) < ROUND_SECONDS / 2:
        calls *= 4
    rounds = 2 if spent > 1 else ROUNDS
    return min([spent, *[await one_round(calls) for _ in range(rounds - 1)]]) / calls


def _repeats(seconds: float) -> int:
    """Number of rounds for a benchmark of this wall time."""
    return min(ROUNDS - 1, int(SELF_TIMED_SECONDS / max(seconds, 1e-6)))


def _reported(measured: object) -> float:
    if not isinstance(measured, float):
        raise TypeError("a benchmark that measures by itself returns a float")
    return measured


def _calls_per_round(one_call: float) -> int:
    return max(1, round(ROUND_SECONDS / one_call)) if one_call > 1e-6 else 1000


def raise_gc_thresholds() -> None:
    """Set the collector's thresholds as long-running processes do: collection would cost more than
    parsing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


__all__ = ["Benchmark", "Result", "Unavailable", "measure", "raise_gc_thresholds"]
