"""What a replay repeats: the recorded changes without those of the operator and of the control plane.

The operator makes its own changes again, in its own way. Objects whose owners are deleted, and those of
deleted namespaces, are deleted by the controllers of the replay. An update is repeated as what it changed, so
that it also applies to an object that this version has written differently.

Objects are the same if they have the same kind and name, and were created as often before: the second
`ConfigMap shop/a` of a recording is the second one of the replay, whatever their UIDs are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kubewright.recording import RecordedChange, Recording
from kubewright.recording.recording import Object, RecordedKey

from .attribution import essential_diff, finalizer_owners, is_of, writers

Actor = Literal["operator", "control plane", "input"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput:
    """A change of another client."""

    at: float
    type: Literal["create", "patch", "delete"]
    key: RecordedKey
    incarnation: int
    """How often an object with this key was created before."""
    object: Object = field(repr=False)
    """The recorded state after a creation or update, before a deletion."""
    patch: Object = field(default_factory=dict, repr=False)
    """What an update changed, as a merge patch."""
    change: RecordedChange = field(repr=False)

    def __str__(self) -> str:
        return f"{self.type} {self.key}"


@dataclass(slots=True)
class AttributedChange:
    """A recorded change, with who made it."""

    change: RecordedChange
    before: Object | None
    actor: Actor


@dataclass(slots=True)
class RecordedInputs:
    """The changes of a recording, by who made them."""

    inputs: list[ReplayInput]
    changes: list[AttributedChange]
    incarnations: dict[str, tuple[RecordedKey, int]]
    """Key and incarnation of each recorded UID."""


def read_inputs(recording: Recording, managers: Sequence[str]) -> RecordedInputs:
    """Return the inputs of a recording; `managers` are the field managers of the operator."""
    current = {RecordedKey.of(each): each for each in recording.objects}
    counts = dict.fromkeys(current, 0)
    incarnations = {_uid(each): (key, 0) for key, each in current.items()}
    found = RecordedInputs([], [], incarnations)
    for change, before in recording.states():
        key = change.key
        if before is None and change.type != "DELETED":
            counts[key] = counts.get(key, -1) + 1
            incarnations[_uid(change.object)] = (key, counts[key])
        actor = _actor(change, before, current, managers)
        found.changes.append(AttributedChange(change, before, actor))
        if actor == "input":
            found.inputs += _input(change, before, counts.get(key, 0))
        if change.type == "DELETED":
            current.pop(key, None)
        else:
            current[key] = change.object
    return found


def _input(change: RecordedChange, before: Object | None, incarnation: int) -> Iterable[ReplayInput]:
    def made(type_: Literal["create", "patch", "delete"], patch: Object) -> ReplayInput:
        return ReplayInput(
            at=change.at,
            type=type_,
            key=change.key,
            incarnation=incarnation,
            object=change.object,
            patch=patch,
            change=change,
        )

    if change.type == "DELETED":
        yield made("delete", {})
    elif before is None:
        yield made("create", {})
    elif patch := essential_diff(before, change.object):
        yield made("patch", patch)


def _actor(
    change: RecordedChange,
    before: Object | None,
    current: dict[RecordedKey, Object],
    managers: Sequence[str],
) -> Actor:
    if change.own:
        return "operator"
    if change.type != "DELETED":
        return "operator" if is_of(writers(before, change.object), managers) else "input"
    metadata = change.object.get("metadata") or {}
    if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
        return "operator" if is_of(finalizer_owners(change.object), managers) else "input"
    owners = metadata.get("ownerReferences") or ()
    if owners and not any(_exists(each, change.key, current) for each in owners):
        return "control plane"
    namespace = current.get(RecordedKey("", "Namespace", "", change.key.namespace))
    if namespace is not None and (namespace.get("metadata") or {}).get("deletionTimestamp"):
        return "control plane"
    return "input"


def _exists(owner: Object, dependent: RecordedKey, current: dict[RecordedKey, Object]) -> bool:
    """Whether an owner exists, or may exist because its kind was not recorded."""
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    for namespace in (dependent.namespace, ""):
        found = current.get(RecordedKey(group, kind, namespace, name))
        if found is not None:
            metadata = found.get("metadata") or {}
            return metadata.get("uid") == owner.get("uid") and not metadata.get("deletionTimestamp")
    return not any((key.group, key.kind) == (group, kind) for key in current)


def _uid(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")
