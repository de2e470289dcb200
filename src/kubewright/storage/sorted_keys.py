"""A sorted set of keys.

Keys are in chunks of bounded length; the last key of each chunk is also in a separate list. A lookup is two
binary searches, an insertion moves at most one chunk, a range is a few slices, and its count needs only chunk
lengths.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

CHUNK = 512
"""Chunks are split when they grow to twice this length."""


def prefix_end(prefix: str) -> str | None:
    """Return the smallest string above all strings with a prefix; `None` if no such string exists."""
    for index in range(len(prefix) - 1, -1, -1):
        if prefix[index] != "\U0010ffff":
            return prefix[:index] + chr(ord(prefix[index]) + 1)
    return None


class SortedKeys:
    """Distinct keys in code point order."""

    __slots__ = ("_chunks", "_lasts")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._chunks = [ordered[at : at + CHUNK] for at in range(0, len(ordered), CHUNK)]
        self._lasts = [chunk[-1] for chunk in self._chunks]

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if not self._chunks:
            self._chunks.append([key])
            self._lasts.append(key)
            return
        at = bisect_left(self._lasts, key)
        if at == len(self._lasts):
            at -= 1
            self._chunks[at].append(key)
            self._lasts[at] = key
        else:
            insort(self._chunks[at], key)
        chunk = self._chunks[at]
        if len(chunk) > 2 * CHUNK:
            self._chunks[at : at + 1] = [chunk[:CHUNK], chunk[CHUNK:]]
            self._lasts.insert(at, chunk[CHUNK - 1])

    def remove(self, key: str) -> None:
        """Remove a key that is in the set."""
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        if not chunk:
            del self._chunks[at], self._lasts[at]
        else:
            self._lasts[at] = chunk[-1]

    def _place(self, key: str | None) -> tuple[int, int]:
        """Return chunk and offset of the first key not below `key`; `None` is the end."""
        at = len(self._lasts) if key is None else bisect_left(self._lasts, key)
        if key is None or at == len(self._lasts):
            return at, 0
        return at, bisect_left(self._chunks[at], key)

    def count(self, low: str, high: str | None) -> int:
        """Return the number of keys in [low, high)."""
        if high is not None and low >= high:
            return 0
        first, begin = self._place(low)
        last, end = self._place(high)
        return sum(map(len, self._chunks[first:last])) - begin + end

    def slice(self, low: str, high: str | None, limit: int | None = None) -> list[str]:
        """Return the keys in [low, high), at most `limit`."""
        first, begin = self._place(low)
        last, end = self._place(high)
        if (first, begin) >= (last, end):
            return []
        if first == last:
            found = self._chunks[first][begin:end]
        else:
            found = self._chunks[first][begin:]
            for at in range(first + 1, last):
                if limit is not None and len(found) >= limit:
                    break
                found += self._chunks[at]
            else:
                if end:
                    found += self._chunks[last][:end]
        return found if limit is None else found[:limit]
