"""Which field managers applied an object as one of theirs, and how one of them gives it up.

A controller marks every object that it applies: with the owner reference to the object that it reconciles, or
with the label of an ApplySet. Server-side apply records the mark in `managedFields` of the object together
with the name of the controller, in the same write. This is the inventory: it cannot be lost between two
requests, an object that was created, copied or labelled by another client is not in it, and objects that were
applied by an earlier version of the program are.

An object can have several such managers, if several controllers apply it for the same owner. It is deleted by
the last one that gives it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ManagedFieldsEntry, MetaObject, Preconditions
from kubewright.api.unstructured import Unstructured

from .kind_types import metadata_of

if TYPE_CHECKING:
    from .client import Client

Mark = tuple[str, ...]
"""Path in `fieldsV1` of the field that makes an object a member."""

PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"
SET_MARK: Final[Mark] = ("f:metadata", "f:labels", f"f:{PART_OF_LABEL}")
_OWNER_MARK: Final[Mark] = ("f:metadata", "f:ownerReferences")
_ATTEMPTS: Final = 5


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


class Removal(NamedTuple):
    """Result of `remove_member`."""

    deleted: bool = False
    kept: bool = False
    """Whether the object stays, because this manager has not applied it or others have too."""
    others: frozenset[str] = frozenset()
    """Other managers that have applied the object."""


def owner_mark(uid: str | None) -> Mark:
    """Return the path of the owner reference to the object with this uid."""
    return (*_OWNER_MARK, f'k:{{"uid":"{uid}"}}')


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


async def take_over(
    client: Client, applied: MetaObject | Unstructured, manager: FieldManager, mark: Mark
) -> None:
    """Remove the former names of a manager from an object that was applied under its current name.

    Fields that were applied only under a former name are removed with it.
    """
    metadata = applied.metadata
    for name in appliers(metadata.managed_fields, mark) & (manager.former | manager.ambiguous):
        gvk = GroupVersionKind.from_api_version(applied.api_version, applied.kind)
        await _release(client, member_of(gvk, metadata), name)


async def remove_member(client: Client, member: SetMember, manager: FieldManager, mark: Mark) -> Removal:
    """Delete an object that only this manager has applied; of one that others have too, give up the fields.

    Nothing is done with an object that this manager has not applied, that is being deleted, or that has
    another uid. `client` must read from the API server.
    """
    kind, name, namespace = metadata_of(member.gvk), member.name, member.namespace or None
    for attempt in range(1, _ATTEMPTS + 1):
        live = await client.get_or_none(kind, name, namespace=namespace)
        if live is None or live.metadata.uid != member.uid or live.metadata.deletion_timestamp is not None:
            return Removal()
        own = appliers(live.metadata.managed_fields, mark) & manager.names
        others = appliers(live.metadata.managed_fields, _OWNER_MARK, SET_MARK) - manager.names
        # The resource version: another controller can apply the object after it was read.
        unchanged = Preconditions(uid=member.uid, resource_version=live.metadata.resource_version)
        try:
            if own and not others:
                await client.delete(
                    member.gvk, name, namespace=namespace, preconditions=unchanged, propagation="Background"
                )
                return Removal(deleted=True)
            for each in own:
                await _release(client, member, each)
            return Removal(kept=True, others=others)
        except NotFound:
            break
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
    return Removal()


async def _release(client: Client, member: SetMember, manager: str) -> None:
    """Remove a field manager from an object, with the fields that no other manager has.

    Raises `Conflict` if the object does not exist, or another one has its name.
    """
    metadata = {"name": member.name, "uid": member.uid}
    if member.namespace:
        metadata["namespace"] = member.namespace
    nothing = {"apiVersion": member.gvk.api_version, "kind": member.gvk.kind, "metadata": metadata}
    await client.apply(nothing, field_manager=manager, force=True)
