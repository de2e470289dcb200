"""Which field managers applied an object as one of theirs.

A controller marks every object that it applies: with the owner reference to the object that it reconciles, or
with the label of an ApplySet. Server-side apply records the mark in `managedFields` of the object together
with the name of the controller, in the same write. This is the inventory: it cannot be lost between two
requests, an object that was created, copied or labelled by another client is not in it, and objects that were
applied by an earlier version of the program are.

An object can have several such managers, if several controllers apply it for the same owner (see
`set_writes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ManagedFieldsEntry

if TYPE_CHECKING:
    pass

Mark = tuple[str, ...]
"""Path in `fieldsV1` of the field that makes an object a member."""

PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"
SET_MARK: Final[Mark] = ("f:metadata", "f:labels", f"f:{PART_OF_LABEL}")
OWNER_MARK: Final[Mark] = ("f:metadata", "f:ownerReferences")


@dataclass(frozen=True, slots=True)
class FieldManager:
    """The name under which a controller applies objects, and names that it had before."""

    name: str
    former: frozenset[str] = frozenset()
    """Former names; what was applied under them is updated and deleted as if it were under `name`."""
    ambiguous: frozenset[str] = frozenset()
    """Former names that other controllers can have had too; what was applied under them is only updated."""

    @property
    def names(self) -> frozenset[str]:
        """All names whose objects belong to this controller."""
        return self.former | {self.name}


class SetMember(NamedTuple):
    """Reference to a stored object of a set."""

    gvk: GroupVersionKind
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})

    def __str__(self) -> str:
        return f"{self.gvk.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


def owner_mark(uid: str | None) -> Mark:
    """Return the path of the owner reference to the object with this uid."""
    return (*OWNER_MARK, f'k:{{"uid":"{uid}"}}')


def appliers(entries: Iterable[ManagedFieldsEntry] | None, *marks: Mark) -> frozenset[str]:
    """Return the managers that have applied one of the marks, by `managedFields` of the object."""
    return frozenset(
        each.manager or ""
        for each in entries or ()
        if each.operation == "Apply" and any(_has_field(each.fields_v1, mark) for mark in marks)
    )


def _has_field(fields: Any, mark: Mark) -> bool:
    for step in mark:
        fields = fields.get(step) if fields is not None else None
    return fields is not None


def member_of(gvk: GroupVersionKind, metadata: Any) -> SetMember:
    """Return a reference to an object by its metadata."""
    return SetMember(
        gvk,
        metadata.name or "",
        metadata.namespace or "",
        metadata.uid or "",
        metadata.labels or {},
        metadata.annotations or {},
    )
