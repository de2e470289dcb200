"""`Timeline`: which revision a store had at which time.

Changes within `RESOLUTION` seconds of each other share an entry, which is 16 bytes. Times never decrease:
while a clock that was set back is behind, changes have the last time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

RESOLUTION = 0.01


class Timeline:
    """Times, in seconds since the epoch, and the last revision of each."""

    __slots__ = ("_revisions", "_times")

    def __init__(self, entries: Iterable[tuple[float, int]] = ()) -> None:
        self._times = array("d")
        self._revisions = array("q")
        for time, revision in entries:
            self.record(time, revision)

    def record(self, time: float, revision: int) -> None:
        """Record the next revision."""
        times = self._times
        if times and time - times[-1] < RESOLUTION:
            self._revisions[-1] = revision
        else:
            times.append(time)
            self._revisions.append(revision)

    def revision_at(self, time: float) -> int | None:
        """Return the revision that was current at a time; `None` before the first entry."""
        at = bisect_right(self._times, time)
        return self._revisions[at - 1] if at else None

    def time_of(self, revision: int) -> float | None:
        """Return the time of a revision; `None` if it is not known."""
        at = bisect_left(self._revisions, revision)
        return self._times[at] if at < len(self._times) else None

    def forget(self, revision: int) -> None:
        """Remove entries before the one of a revision."""
        at = bisect_left(self._revisions, revision)
        del self._times[:at], self._revisions[:at]

    def until(self, revision: int) -> Timeline:
        """Return a timeline that ends with a revision."""
        return Timeline(each for each in self if each[1] <= revision)

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return zip(self._times, self._revisions, strict=True)

    def __len__(self) -> int:
        return len(self._times)
