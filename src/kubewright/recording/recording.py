"""`Recording`: the objects of a cluster at the start, their changes, and the reconciles of an operator.

Times are seconds since the start. Objects are plain data, in the version in which they were watched; of a
deletion, the last state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

Object = dict[str, Any]


class RecordedKey(NamedTuple):
    """Group, kind, namespace and name of an object."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> RecordedKey:
        """Return the key of an object."""
        metadata = obj.get("metadata") or {}
        return cls(
            str(obj.get("apiVersion") or "").rpartition("/")[0],
            str(obj.get("kind") or ""),
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
        )

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class RecordedChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A change of one object."""

    at: float
    """Seconds since the start."""
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Object
    own: bool = False
    """Whether the recorded operator is known to have made it."""

    @property
    def key(self) -> RecordedKey:
        """The key of the object."""
        return RecordedKey.of(self.object)


@dataclass(slots=True, kw_only=True)
class Recording:
    """What happened in some minutes."""

    objects: list[Object] = field(default_factory=list, repr=False)
    """The objects at the start."""
    changes: list[RecordedChange] = field(default_factory=list, repr=False)
    """The changes, in order."""
    reconciles: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """Reconciles with their causes, reads and writes, as `ReconcileSpan.to_dict` returns them; `started` and
    `ended` are milliseconds since 1970."""
    start: datetime = field(default_factory=lambda: datetime.now(UTC))
    duration: float = 0.0
    source: str = ""
    """The cluster, or the operator that was recorded."""
    operator: str = ""
    """Name of the operator, if its reconciles were recorded."""
    kubernetes_version: str = ""
    is_redacted: bool = False
    notes: list[str] = field(default_factory=list)
    """What is missing, one line each."""

    def states(self) -> Iterator[tuple[RecordedChange, Object | None]]:
        """Return the changes, each with the state of its object before."""
        current = {RecordedKey.of(each): each for each in self.objects}
        for change in self.changes:
            yield change, current.get(change.key)
            if change.type == "DELETED":
                current.pop(change.key, None)
            else:
                current[change.key] = change.object

    def state_at(self, at: float) -> dict[RecordedKey, Object]:
        """Return the objects at a time."""
        found = {RecordedKey.of(each): each for each in self.objects}
        for change in self.changes:
            if change.at > at:
                break
            if change.type == "DELETED":
                found.pop(change.key, None)
            else:
                found[change.key] = change.object
        return found

    def since(self, at: float) -> Recording:
        """Return the part of the recording after a time; its start is that moment."""
        return Recording(
            objects=list(self.state_at(at).values()),
            changes=[msgspec.structs.replace(each, at=each.at - at) for each in self.changes if each.at > at],
            reconciles=[
                each for each in self.reconciles if each["started"] / 1000 > self.start.timestamp() + at
            ],
            start=datetime.fromtimestamp(self.start.timestamp() + at, UTC),
            duration=max(self.duration - at, 0.0),
            source=self.source,
            operator=self.operator,
            kubernetes_version=self.kubernetes_version,
            is_redacted=self.is_redacted,
            notes=list(self.notes),
        )
