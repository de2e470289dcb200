"""Writers that undo the writes of each other: detection of controllers in conflict.

Two controllers that want different states of one object write it again and again: one changes or deletes it,
the other restores it. `RecentWrites` counts the writes of each writer to each object in a short time. The
dashboard counts the writes of all reconciles, `DesiredState` counts its own and those that undo them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

CONFLICT_SECONDS: Final = 30.0


class WriteConflict(NamedTuple):
    """An object that several writers have written repeatedly."""

    target: str
    writers: tuple[str, ...]
    writes: int
    """Number of writes of all of them."""


class RecentWrites:
    """The writes of the last seconds, by object and writer."""

    def __init__(self, *, within: float = CONFLICT_SECONDS, repeats: int = 2) -> None:
        """It is a conflict if each of several writers has written an object `repeats` times."""
        self._within = within
        self._repeats = repeats
        self._writes: deque[tuple[float, str, str]] = deque()
        self._counts: dict[str, Counter[str]] = {}

    def add(self, target: str, writer: str, at: float) -> WriteConflict | None:
        """Count a write at a time in seconds; return the conflict that it is a part of."""
        self._writes.append((at, target, writer))
        self._counts.setdefault(target, Counter())[writer] += 1
        self.discard_before(at - self._within)
        return next(self._conflicts((target,)), None)

    def count_others(self, target: str, writer: str) -> int:
        """Return how often others than this writer have written an object."""
        counts = self._counts.get(target, Counter())
        return counts.total() - counts[writer]

    def discard_before(self, at: float) -> None:
        """Forget the writes before a time."""
        while self._writes and self._writes[0][0] < at:
            _, target, writer = self._writes.popleft()
            counts = self._counts[target]
            counts[writer] -= 1
            if not counts[writer]:
                del counts[writer]
            if not counts:
                del self._counts[target]

    def conflicts(self) -> list[WriteConflict]:
        """Return all conflicts, by object."""
        return list(self._conflicts(sorted(self._counts)))

    def _conflicts(self, targets: Iterable[str]) -> Iterator[WriteConflict]:
        for target in targets:
            counts = self._counts.get(target, Counter())
            if len(counts) > 1 and min(counts.values()) >= self._repeats:
                yield WriteConflict(target, tuple(sorted(counts)), counts.total())
