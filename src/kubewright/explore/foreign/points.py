"""`PointKey`: a request or watch event that several runs of a program have in common.

A program that runs in real time does not send its requests in the same order each time, so a point of the
reference run cannot be found again by its number. It is found by what happens there and by how often that
happened before: `create configmaps default/a`, or `MODIFIED shops.example.com default/a (2)` for the second
such event. Names that the server has generated are replaced by their prefix, and UUIDs by `*`.

`PointNames` gives the points of a run the names that they have in the reference run; points that the
reference run does not have are numbered after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubewright.explore.faults import Fault
from kubewright.explore.trace import POINT_KINDS, Trace

_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=[-/])(?=[a-f]*\d)[0-9a-f]{8,}$"
)
_ORDINAL = re.compile(r"(?P<text>.*) \((?P<ordinal>\d+)\)")


@dataclass(frozen=True, slots=True)
class PointKey:
    """What happens at a point, and how many times it has happened before, plus one."""

    letter: str
    text: str
    ordinal: int = 1

    @classmethod
    def parse(cls, letter: str, text: str) -> PointKey:
        """Return the key of a text such as `create configmaps default/a (2)`."""
        match = _ORDINAL.fullmatch(text)
        if match is None:
            return cls(letter, text)
        return cls(letter, match["text"], int(match["ordinal"]))

    def __str__(self) -> str:
        return self.text if self.ordinal == 1 else f"{self.text} ({self.ordinal})"


@dataclass(slots=True)
class PointNames:
    """Names of the points of one run, `w3`, by their keys."""

    known: Mapping[PointKey, str] = field(default_factory=dict)
    """Names of the reference run."""
    names: dict[PointKey, str] = field(default_factory=dict)
    """Names of the points that this run has reached."""
    _ordinals: dict[tuple[str, str], int] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)
    """Names that the server has generated, with what stands for them: `a-*`."""

    def start(self, trace: Trace) -> None:
        """Number unknown points of a trace after the known ones."""
        for name in self.known.values():
            trace.counts[name[0]] = max(trace.counts.get(name[0], 0), int(name[1:]))

    def add_generated(self, name: str, prefix: str) -> None:
        """Note that the server has generated a name."""
        if prefix and name.startswith(prefix):
            self.generated[name] = f"{prefix}*"

    def key(self, kind: str, text: str) -> PointKey:
        """Return the key of the next event of a kind with a text, and count it."""
        head, separator, name = text.rpartition("/" if "/" in text.rpartition(" ")[2] else " ")
        name = self.generated.get(name) or _RANDOM.sub("*", name)
        letter, general = POINT_KINDS[kind], f"{head}{separator}{name}"
        ordinal = self._ordinals[letter, general] = self._ordinals.get((letter, general), 0) + 1
        return PointKey(letter, general, ordinal)

    def name(self, kind: str, key: PointKey, trace: Trace) -> str:
        """Return the name of a point."""
        name = self.names[key] = self.known.get(key) or trace.next_point(kind)
        return name


def general_text(text: str, generated: Mapping[str, str]) -> str:
    """Return a text in which generated names are replaced, so that it is the same in other runs."""
    return re.sub(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", lambda match: generated.get(match[0], match[0]), text)


def plan_by_key(faults: Iterable[Fault], names: Mapping[PointKey, str]) -> dict[PointKey, Fault]:
    """Return faults by the keys of their points; those at unknown points are left out."""
    keys = {name: key for key, name in names.items()}
    return {keys[each.point]: each for each in faults if each.point in keys}


__all__ = ["PointKey", "PointNames", "general_text", "plan_by_key"]
