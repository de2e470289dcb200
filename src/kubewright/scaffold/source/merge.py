"""Three-way merge of texts by lines, with the result of `git merge-file`.

    merged = merge(base, yours, theirs)

A region that only one side changed gets that side; equal changes are taken once. Changes of both sides to the
same or to adjacent lines are a conflict, which the text contains between markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

START, MIDDLE, END = "<<<<<<<", "=======", ">>>>>>>"
"""Markers of a conflict, each at the start of a line."""


@dataclass(frozen=True)
class Merge:
    """The merged text, and the lines (from 1) of its conflicts."""

    text: str
    conflicts: tuple[int, ...] = ()


def merge(
    base: str, yours: str, theirs: str, *, yours_label: str = "yours", theirs_label: str = "theirs"
) -> Merge:
    """Return a text with the changes of both sides since `base`; the labels are written after the markers."""
    sides = split_lines(base), split_lines(yours), split_lines(theirs)
    lines: list[str] = []
    conflicts: list[int] = []
    for original, mine, other in _chunks(*sides):
        if mine == other or other == original:
            lines += mine
        elif mine == original:
            lines += other
        else:
            before, mine, other, after = _without_common_ends(mine, other)
            lines += before
            conflicts.append(len(lines) + 1)
            lines += [f"{START} {yours_label}\n", *_complete(mine), f"{MIDDLE}\n", *_complete(other)]
            lines += [f"{END} {theirs_label}\n", *after]
    return Merge("".join(lines), tuple(conflicts))


def has_conflicts(text: str) -> bool:
    """Return whether a text contains the markers of a conflict."""
    starts = [line.split(" ")[0].rstrip("\n") for line in split_lines(text)]
    return START in starts and MIDDLE in starts and END in starts


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; only line feeds end a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _chunks(
    base: Sequence[str], yours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Return the regions of the three texts: alternating those that differ, and those that are equal."""
    ends = 0, 0, 0
    for start, mine, other, size in [
        *_common_regions(base, yours, theirs),
        (len(base), len(yours), len(theirs), 0),
    ]:
        yield list(base[ends[0] : start]), list(yours[ends[1] : mine]), list(theirs[ends[2] : other])
        equal = list(base[start : start + size])
        yield equal, equal, equal
        ends = start + size, mine + size, other + size


def _common_regions(
    base: Sequence[str], yours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Return start in each text and length of the regions in which all of them are equal."""
    ours = SequenceMatcher(None, base, yours, autojunk=False).get_matching_blocks()
    others = SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    first = second = 0
    while first < len(ours) and second < len(others):
        mine, other = ours[first], others[second]
        start = max(mine.a, other.a)
        end = min(mine.a + mine.size, other.a + other.size)
        if start < end:
            yield start, mine.b + start - mine.a, other.b + start - other.a, end - start
        if mine.a + mine.size < other.a + other.size:
            first += 1
        else:
            second += 1


def _without_common_ends(
    mine: list[str], other: list[str]
) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the lines at the start that both sides have, the lines of each side, and those at the end."""
    shortest = min(len(mine), len(other))
    start = 0
    while start < shortest and mine[start] == other[start]:
        start += 1
    end = 0
    while end < shortest - start and mine[-1 - end] == other[-1 - end]:
        end += 1
    return (
        mine[:start],
        mine[start : len(mine) - end],
        other[start : len(other) - end],
        mine[len(mine) - end :],
    )


def _complete(lines: list[str]) -> list[str]:
    """Return lines of which the last one has an end, so that a marker can follow."""
    return [*lines[:-1], f"{lines[-1]}\n"] if lines and not lines[-1].endswith("\n") else lines
