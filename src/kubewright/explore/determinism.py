"""Replaces the clocks and the sources of randomness of this process during a run.

    with deterministic(loop, seed=7):
        loop.run_until_complete(...)

Inside the block these depend only on the virtual time of the loop and the seed:

- `time.time`, `time.monotonic`, `time.perf_counter` and their `_ns` forms, `time.clock_gettime`,
  `time.gmtime`, `time.localtime`, `datetime.now`, `datetime.utcnow`, `datetime.today`, `date.today`;
  `time.sleep` advances the clock of the loop
- `os.urandom`, and with it `secrets`, `uuid.uuid4` and `random.SystemRandom`; `uuid.uuid1`; the functions of
  `random`, and `random.Random()` without a seed
- `socket.gethostname`

The wall clock is 2030-01-01T00:00:00Z at virtual time 0, plus the skew of the running simulated process.
Methods of `datetime` are replaced in the class itself, because most modules import the class by name; this
requires CPython. References to functions (`from time import monotonic`, `def f(clock=time.monotonic)`) are
replaced by `captured_references`.

Randomness is drawn from one stream per simulated process, which is derived from the seed and the name of the
process. A fault of one process therefore does not change the values that another one draws.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import datetime
import functools
import gc
import hashlib
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from .captured_references import replace_references
from .loop import PROCESS, VirtualLoop
from .thread_calls import current_call

EPOCH = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC).timestamp()
"""Wall clock at virtual time 0, in seconds since the Unix epoch."""
HOST_NAME = "explore"


class Randomness:
    """Byte streams by name, from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """Return the generator of a simulated process."""
        found = self._streams.get(name)
        if found is None:
            digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
            start = int.from_bytes(digest, "big")
            found = self._streams[name] = random.Random(start)  # noqa: S311 - reproducible by design
        return found

    def read(self, size: int) -> bytes:
        """Return bytes of the stream of the running process."""
        process = PROCESS.get()
        return self.stream("" if process is None else process.name).randbytes(size)


class _Sources:
    """The clock and the randomness of the current run."""

    loop: VirtualLoop | None = None
    randomness: Randomness


_sources = _Sources()
_seed = random.Random.seed


@contextlib.contextmanager
def deterministic(loop: VirtualLoop, seed: int) -> Iterator[Randomness]:
    """Use the clock of a loop and a seed in the whole Python process until the block ends."""
    if sys.implementation.name != "cpython":
        raise RuntimeError("exploration requires CPython: it replaces the clock of datetime")
    replace_references({real: function for _, _, real, function in _REPLACEMENTS})
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, _sources, "loop", None)
        _sources.loop, _sources.randomness = loop, Randomness(seed)
        for module, name, real, function in _REPLACEMENTS:
            stack.callback(setattr, module, name, real)
            setattr(module, name, function)
        for cls, name, method in _date_methods(loop):
            stack.enter_context(_class_method(cls, name, method))
        state = random.getstate()
        stack.callback(random.setstate, state)
        random.seed(seed)
        yield _sources.randomness


def wall_clock(loop: VirtualLoop) -> float:
    """Return the seconds since the Unix epoch that the running simulated process sees."""
    process = PROCESS.get()
    return EPOCH + loop.now + (0.0 if process is None else process.skew)


def _replacement(
    module: Any, name: str, simulated: Callable[..., Any]
) -> tuple[Any, str, Callable[..., Any], Callable[..., Any]]:
    """Return a module, a name in it, its function, and one that calls `simulated` during runs.

    The function is the same for all runs: a module that is imported during a run may keep it, and the clock
    of an ended run would stand still.
    """
    real = getattr(module, name)

    @functools.wraps(real)
    def function(*args: Any, **options: Any) -> Any:
        loop = _sources.loop
        return real(*args, **options) if loop is None else simulated(loop, *args, **options)

    return module, name, real, function


def _sleep(loop: VirtualLoop, seconds: float) -> None:
    if current_call() is not None:
        loop.run_from_thread(asyncio.sleep(seconds))
    else:
        loop.now += seconds


def _clock_gettime(loop: VirtualLoop, clock: int) -> float:
    if clock == time.CLOCK_REALTIME:
        return wall_clock(loop)
    is_cpu = clock in (time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID)
    return _real_clock_gettime(clock) if is_cpu else loop.now


def _read_random(loop: VirtualLoop, size: int) -> bytes:
    return _sources.randomness.read(size)


def _seed_generator(loop: VirtualLoop, generator: random.Random, a: Any = None, version: int = 2) -> None:
    _seed(generator, int.from_bytes(_sources.randomness.read(16), "big") if a is None else a, version)


def _new_uuid(loop: VirtualLoop, *args: Any, **options: Any) -> uuid.UUID:
    return uuid.UUID(bytes=_sources.randomness.read(16), version=4)


_real_clock_gettime, _gmtime, _localtime = time.clock_gettime, time.gmtime, time.localtime
_REPLACEMENTS = [
    _replacement(time, "time", wall_clock),
    _replacement(time, "time_ns", lambda loop: int(wall_clock(loop) * 1e9)),
    _replacement(time, "monotonic", lambda loop: loop.now),
    _replacement(time, "monotonic_ns", lambda loop: int(loop.now * 1e9)),
    _replacement(time, "perf_counter", lambda loop: loop.now),
    _replacement(time, "perf_counter_ns", lambda loop: int(loop.now * 1e9)),
    _replacement(time, "clock_gettime", _clock_gettime),
    _replacement(
        time, "gmtime", lambda loop, seconds=None: _gmtime(wall_clock(loop) if seconds is None else seconds)
    ),
    _replacement(
        time,
        "localtime",
        lambda loop, seconds=None: _localtime(wall_clock(loop) if seconds is None else seconds),
    ),
    _replacement(time, "sleep", _sleep),
    _replacement(os, "urandom", _read_random),
    _replacement(random, "_urandom", _read_random),
    _replacement(random.Random, "seed", _seed_generator),
    _replacement(uuid, "uuid1", _new_uuid),
    _replacement(uuid, "uuid4", _new_uuid),
    _replacement(socket, "gethostname", lambda loop: HOST_NAME),
]
"""Module, name, function and its replacement; imported before anything can replace these functions."""


def _date_methods(loop: VirtualLoop) -> list[tuple[type, str, Callable[..., Any]]]:
    def now(cls: Any, tz: datetime.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(wall_clock(loop), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(wall_clock(loop), datetime.UTC).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(wall_clock(loop))

    return [
        (datetime.datetime, "now", now),
        (datetime.datetime, "utcnow", utcnow),
        (datetime.datetime, "today", today),
        (datetime.date, "today", today),
    ]


@contextlib.contextmanager
def _class_method(cls: type, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Replace a class method of a class of the standard library that is written in C."""
    namespace: dict[str, Any] = gc.get_referents(cls.__dict__)[0]
    missing = object()
    before = namespace.get(name, missing)
    namespace[name] = classmethod(function)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    try:
        yield
    finally:
        if before is missing:
            del namespace[name]
        else:
            namespace[name] = before
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


__all__ = ["EPOCH", "Randomness", "deterministic", "wall_clock"]
