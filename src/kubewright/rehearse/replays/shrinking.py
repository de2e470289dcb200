"""The fewest objects and changes of a recording that still violate a check: delta debugging.

Each attempt is a replay without some objects and changes; one that violates the same check is kept. First
everything is left out but the object of the violation, its owners and what it owns. What is left, or the
whole recording if that is not enough, loses halves, then smaller parts (Zeller's `ddmin`), and at last fields
that do not matter: managed fields, times, annotations, labels, the status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from kubewright.recording import Recording
from kubewright.recording.recording import Object, RecordedKey

T = TypeVar("T")

_NOISE = (
    ("metadata", "managedFields"),
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("metadata", "creationTimestamp"),
    ("metadata", "generation"),
    ("metadata", "resourceVersion"),
    ("status",),
)
MAX_REPLAYS = 400


class Shrinker:
    """Shrinks a recording."""

    def __init__(self, violates: Callable[[Recording], bool], *, max_replays: int = MAX_REPLAYS) -> None:
        """`violates` replays a recording."""
        self.replays = 0
        self._violates = violates
        self._max_replays = max_replays

    def shrink(self, recording: Recording, target: str = "") -> Recording:
        """Return the smallest recording that was found; `target` is the object of the violation."""
        recording = replace(recording, reconciles=[], notes=[])
        if target:
            recording = self._try(_related(recording, target), recording)
        # Objects again after changes, and changes after objects: one can make the other unnecessary.
        for _ in range(2):
            recording = self._fewer_objects(self._fewer_changes(recording))
        return self._earlier(self._without_fields(recording))

    def _fewer_changes(self, recording: Recording) -> Recording:
        changes = self._ddmin(recording.changes, lambda part: replace(recording, changes=part))
        return replace(recording, changes=changes)

    def _fewer_objects(self, recording: Recording) -> Recording:
        objects = self._ddmin(recording.objects, lambda part: _with_objects(recording, part))
        return _with_objects(recording, objects)

    def _fails(self, recording: Recording) -> bool:
        if self.replays >= self._max_replays:
            return False
        self.replays += 1
        return self._violates(recording)

    def _try(self, smaller: Recording, recording: Recording) -> Recording:
        return smaller if self._fails(smaller) else recording

    def _ddmin(self, items: Sequence[T], build: Callable[[list[T]], Recording]) -> list[T]:
        """Return the fewest items with which the recording still violates the check."""
        kept = list(items)
        if not kept or self._fails(build([])):
            return []
        parts = 2
        while len(kept) >= 2:
            size = max(len(kept) // parts, 1)
            for start in range(0, len(kept), size):
                rest = kept[:start] + kept[start + size :]
                if self._fails(build(rest)):
                    kept, parts = rest, max(parts - 1, 2)
                    break
            else:
                if size == 1:
                    break
                parts = min(parts * 2, len(kept))
        return kept

    def _without_fields(self, recording: Recording) -> Recording:
        """Remove fields that do not matter, together or one by one."""
        plain = recording
        for path in _NOISE:
            plain = _map(plain, path)
        if self._fails(plain):
            return plain
        for path in _NOISE:
            recording = self._try(_map(recording, path), recording)
        return recording

    def _earlier(self, recording: Recording) -> Recording:
        """Let the changes happen one second after each other."""
        changes = [
            msgspec.structs.replace(each, at=float(number))
            for number, each in enumerate(recording.changes, 1)
        ]
        return self._try(replace(recording, changes=changes, duration=float(len(changes))), recording)


def _with_objects(recording: Recording, objects: list[Object]) -> Recording:
    """Return a recording with fewer objects; the first change of another one is its creation."""
    left_out = {RecordedKey.of(each) for each in recording.objects} - set(map(RecordedKey.of, objects))
    changes = []
    for change in recording.changes:
        if change.key in left_out:
            left_out.discard(change.key)
            if change.type == "DELETED":
                continue
            change = msgspec.structs.replace(change, type="ADDED")
        changes.append(change)
    return replace(recording, objects=objects, changes=changes)


def _related(recording: Recording, target: str) -> Recording:
    """Return a recording with an object, its owners and what it owns; `target` is a key or a request."""
    objects = [*recording.objects, *(each.object for each in recording.changes)]
    uids = {_uid(each) for each in objects if target in (str(RecordedKey.of(each)), _request(each))}
    for _ in range(2):  # owners, and then everything that they own
        uids |= {owner for each in objects if _uid(each) in uids for owner in _owners(each)}
        uids |= {_uid(each) for each in objects if not uids.isdisjoint(_owners(each))}
    return replace(
        recording,
        objects=[each for each in recording.objects if _uid(each) in uids],
        changes=[each for each in recording.changes if _uid(each.object) in uids],
    )


def _request(obj: Object) -> str:
    key = RecordedKey.of(obj)
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def _uid(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")


def _owners(obj: Object) -> set[str]:
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return {str(each.get("uid")) for each in references}


def _map(recording: Recording, path: tuple[str, ...]) -> Recording:
    return replace(
        recording,
        objects=[_without(each, path) for each in recording.objects],
        changes=[
            msgspec.structs.replace(each, object=_without(each.object, path)) for each in recording.changes
        ],
    )


def _without(obj: Any, path: tuple[str, ...]) -> Any:
    name, *rest = path
    if not isinstance(obj, dict) or name not in obj:
        return obj
    if rest:
        return {**obj, name: _without(obj[name], tuple(rest))}
    return {key: value for key, value in obj.items() if key != name}
