"""`Resync`: calls an event handler again for every stored object, at least once per period.

Events can be lost where no cache sees it: in a predicate, in a map function with a bug, in an external system
that a reconciler calls. Resyncs bound the time until such an error is repaired.

A pass over the objects begins 80 to 90 % of the period after the last one began, and is spread evenly over a
tenth of the period. So the time between two calls for an object is never longer than the period, in whatever
order the store returns the objects; processes that were started together resync at different times; and
neither the event loop nor a queue gets all objects in one turn.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterator
from itertools import islice

from kubewright.cache.stores.store import CacheEntry, ObjectChange, ObjectKey, Store

RESYNC_SECONDS = 10 * 3600.0
"""The default period, as in controller-runtime."""
EARLIEST, LATEST = 0.8, 0.9
"""When a pass begins, in periods after the last one began."""
SPREAD = 0.1
"""Duration of a pass in periods."""
BATCH = 100
"""Objects that are handled in one turn of the event loop."""


def check_resync(seconds: float) -> float:
    """Return a period in seconds, 0 for none; raise a `ValueError` for another number."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"resync={seconds!r}: expected a number of seconds, or 0 to turn resyncs off")
    return float(seconds)


class Resync:
    """The passes of one handler over one store. `start` and `stop` can be called in any order and state."""

    def __init__(
        self,
        store: Store,
        call: Callable[[ObjectChange], None],
        period: float,
        rng: random.Random | None = None,
    ) -> None:
        """`call` receives the stored entry of an object as old and new version; it must not raise."""
        self._store = store
        self._call = call
        self._period = period
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._interval = 0.0
        self._due = 0.0
        self._entries: Iterator[tuple[ObjectKey, CacheEntry]] = iter(())

    def start(self) -> None:
        """Begin the first period now, unless it has begun."""
        if self._timer is None and self._period:
            self._began = asyncio.get_running_loop().time()
            self._schedule_pass()

    def stop(self) -> None:
        """Call the handler no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule_pass(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._began + self._period * self._rng.uniform(EARLIEST, LATEST)
        self._timer = loop.call_at(max(due, loop.time()), self._begin)

    def _begin(self) -> None:
        self._began = self._due = asyncio.get_running_loop().time()
        self._interval = SPREAD * self._period / max(1, math.ceil(len(self._store) / BATCH))
        self._entries = self._store.snapshot()
        self._handle_batch()

    def _handle_batch(self) -> None:
        batch = list(islice(self._entries, BATCH))
        if len(batch) < BATCH:
            self._schedule_pass()
        else:
            # Not after the last batch but after the time it was due, or delays would add up.
            self._due += self._interval
            self._timer = asyncio.get_running_loop().call_at(self._due, self._handle_batch)
        for key, entry in batch:
            self._call(ObjectChange(key, entry, entry, initial=True))
