"""Where this version of an operator acts differently from the recorded one.

Compared are the objects that either of them has written: whether they exist at the end, the fields that
differ, and how often they were written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubewright.recording.recording import Object, RecordedKey
from kubewright.recording.redaction import Redactor
from kubewright.rehearse.plans.object_changes import FieldChange, compare

if TYPE_CHECKING:
    from kubewright.recording import Recording

    from .history import ReplayHistory
    from .inputs import RecordedInputs

MAX_FACTOR = 2
"""Ratio of the numbers of writes that is reported."""
MIN_WRITES = 5


@dataclass(slots=True)
class Difference:
    """An object that the two versions have handled differently."""

    key: RecordedKey
    text: str
    at: float | None = None
    """When the first of them acted; `None` if that is not known."""
    fields: list[FieldChange] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def compare_changes(
    recording: Recording, recorded: RecordedInputs, history: ReplayHistory
) -> list[Difference]:
    """Return the differences, in the order of time."""
    theirs = [each for each in recorded.changes if each.actor == "operator"]
    ours = [each for each in history.changes if each.actor == "operator"]
    first: dict[RecordedKey, float] = {}
    for at, key in sorted(
        [(each.change.at, each.change.key) for each in theirs] + [(each.at, each.key) for each in ours]
    ):
        first.setdefault(key, at)
    final = recording.state_at(float("inf"))
    counts = Counter(each.change.key for each in theirs), Counter(each.key for each in ours)
    found = []
    for key, at in first.items():
        difference = _compare(key, final.get(key), history.current.get(key), counts[0][key], counts[1][key])
        if difference is not None:
            difference.at = at
            found.append(difference)
    return found


def _compare(
    key: RecordedKey, before: Object | None, after: Object | None, theirs: int, ours: int
) -> Difference | None:
    if before is None and after is not None:
        return Difference(key, "exists at the end; with the recorded version it does not")
    if before is not None and after is None:
        return Difference(key, "does not exist at the end; with the recorded version it does")
    writes = f"{ours} writes, the recorded version {theirs}"
    if before is not None and after is not None:
        fields = compare(before, after, Redactor()).fields
        if fields:
            return Difference(key, f"differs at the end in {len(fields)} fields ({writes})", fields=fields)
    if max(ours, theirs) >= MIN_WRITES and max(ours, theirs) >= MAX_FACTOR * max(min(ours, theirs), 1):
        return Difference(key, writes)
    return None
