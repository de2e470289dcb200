"""The inventory of an ApplySet: which kinds and namespaces its members have, and the members themselves.

It follows the ApplySet specification (KEP-3659), as `kubectl apply --prune --applyset` does. The parent of a
set, a ConfigMap, has the label `applyset.kubernetes.io/id` and annotations with the kinds and namespaces of
the members; each member has the label `applyset.kubernetes.io/part-of`. The inventory is extended before
members of new kinds are applied, and reduced after others were deleted. An object that has the label, but was
not applied by the tool, such as a copy, is not a member (see `membership`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

from .kind_types import metadata_of
from .membership import PART_OF_LABEL, SET_MARK, SetMember, appliers, member_of
from .patches import merge_patch
from .set_writes import CRD

if TYPE_CHECKING:
    from .client import Client

ID_LABEL: Final = "applyset.kubernetes.io/id"
TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
ADOPTED_ANNOTATION: Final = "kubewright.io/adopted"
"""Annotation of members that existed before they were applied; they are released and never deleted."""
NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"

PARENT: Final = GroupVersionKind("", "v1", "ConfigMap")


class ApplySetError(Exception):
    """A set cannot be applied or deleted; the message is one line with the object and the reason."""


@dataclass(frozen=True)
class Inventory:
    """Kinds and namespaces of the members of a set."""

    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()
    """Namespaces of members besides that of the parent."""

    def __or__(self, other: Inventory) -> Inventory:
        return Inventory(self.kinds | other.kinds, self.namespaces | other.namespaces)

    @classmethod
    def of(cls, parent: MetaObject | Unstructured) -> Inventory:
        """Return the inventory in the annotations of a parent."""
        annotations = parent.metadata.annotations or {}
        kinds, namespaces = (
            [part for part in annotations.get(name, "").split(",") if part]
            for name in (KINDS_ANNOTATION, NAMESPACES_ANNOTATION)
        )
        return cls(frozenset(GroupKind.parse(each) for each in kinds), frozenset(namespaces))

    def annotations(self, tooling: str) -> dict[str, str]:
        """Return the annotations of a parent."""
        return {
            TOOLING_ANNOTATION: tooling,
            KINDS_ANNOTATION: ",".join(sorted(str(each) for each in self.kinds)),
            NAMESPACES_ANNOTATION: ",".join(sorted(self.namespaces)),
        }


def apply_set_id(name: str, *, namespace: str, kind: GroupKind = PARENT.group_kind) -> str:
    """Return the value of the labels for a set with this parent."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind.kind}.{kind.group}".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


class SetParent:
    """The parent of a set: an object whose label and annotations are the inventory.

    Several processes can extend an inventory at the same time. It is reduced only if the parent has not
    changed meanwhile.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str,
        tooling: str,
        owner: MetaObject | Unstructured | None = None,
    ) -> None:
        """`tooling`: `<name>/<version>` of the tool that manages the set. `owner`: the parent as it was read;
        without one the parent is a ConfigMap, which is created with the first kind of the inventory."""
        self._client = client
        self._uncached: Client = getattr(client, "uncached", client)
        self._kind = PARENT if owner is None else _kind_of(owner)
        self.name = name
        self.namespace = namespace
        self.tooling = tooling
        self.id = apply_set_id(name, namespace=namespace, kind=self._kind.group_kind)
        """The value of the labels of the set."""
        self._owner = owner
        self._parent: MetaObject | Unstructured | None = None
        self._resource_version: str | None = None
        self.inventory = Inventory()
        self._is_labelled = False
        if owner is not None:
            self._observe(owner)

    def _observe(self, parent: MetaObject | Unstructured) -> None:
        self._parent = parent
        self._resource_version = parent.metadata.resource_version
        self.inventory = Inventory.of(parent)
        self._is_labelled = (parent.metadata.labels or {}).get(ID_LABEL) == self.id

    async def read(self) -> Inventory:
        """Return the stored inventory; raises `ApplySetError` if a ConfigMap belongs to another tool."""
        found = await self._uncached.get_or_none(self._kind, self.name, namespace=self.namespace or None)
        if found is None:
            # Members of an inventory that was deleted with its namespace; only the CRDs are left then.
            return Inventory(frozenset((CRD,)))
        if self._owner is None:
            self._check_tooling(found)
        self._observe(found)
        return self.inventory

    def _check_tooling(self, parent: Unstructured) -> None:
        annotations, labels = parent.metadata.annotations or {}, parent.metadata.labels or {}
        where = f"ConfigMap {self.namespace}/{self.name}"
        tool, _, _ = annotations.get(TOOLING_ANNOTATION, "").rpartition("/")
        if tool != self.tooling.rpartition("/")[0]:
            raise ApplySetError(f"{where} is not an ApplySet of this tool (tooling: {tool or 'not set'})")
        if labels.get(ID_LABEL) != self.id:
            raise ApplySetError(f"{where} has the label {ID_LABEL}={labels.get(ID_LABEL)}, not {self.id}")

    async def extend(self, more: Inventory) -> None:
        """Add kinds and namespaces, before objects are applied."""
        while not self._is_labelled or self.inventory | more != self.inventory:
            uid = self._parent.metadata.uid if self._parent is not None else None
            try:
                await self._write(self.inventory | more)
            except Conflict:  # another process can have extended it, too
                await self.read()
                if uid is not None and (self._parent is None or self._parent.metadata.uid != uid):
                    raise

    async def reduce(self, target: Inventory) -> None:
        """Remove kinds and namespaces without members, if the parent has not changed meanwhile."""
        if self.inventory != target:
            with suppress(Conflict):
                await self._write(target)

    async def _write(self, inventory: Inventory) -> None:
        metadata = {"labels": {ID_LABEL: self.id}, "annotations": inventory.annotations(self.tooling)}
        if self._parent is None:
            parent = Unstructured.new(self._kind, self.name, namespace=self.namespace)
            parent["metadata"].update(metadata)
            self._observe(await self._client.create(parent))
            return
        expected = {"uid": self._parent.metadata.uid, "resourceVersion": self._resource_version}
        # The object of the caller, so that its next write has the new resource version.
        target = self._owner if self._owner is not None else self._parent
        self._observe(await self._client.patch(target, merge_patch({"metadata": {**expected, **metadata}})))

    async def delete(self) -> None:
        """Delete the parent, if it exists."""
        await self._client.delete(self._kind, self.name, namespace=self.namespace, missing_ok=True)

    async def members(
        self, inventory: Inventory | None = None, *, managers: Collection[str] = ()
    ) -> list[SetMember]:
        """Return the members by the kinds and namespaces of an inventory, by default of the stored one."""
        inventory = inventory if inventory is not None else self.inventory
        return await list_members(self._uncached, self.id, inventory, home=self.namespace, managers=managers)


def _kind_of(parent: MetaObject | Unstructured) -> GroupVersionKind:
    gvk = type(parent).gvk if isinstance(parent, MetaObject) else parent.gvk
    assert gvk is not None
    return gvk


async def list_members(
    client: Client, set_id: str, inventory: Inventory, *, home: str, managers: Collection[str] = ()
) -> list[SetMember]:
    """Return the objects with the label of a set; with `managers`, those that one of them has applied."""
    found: list[SetMember] = []
    for kind in sorted(inventory.kinds):
        versions = await client.mapper.versions_for(kind)
        if not versions:
            continue  # the CRD of this kind was deleted, and its objects with it
        gvk = kind.with_version(versions[0])
        resource = await client.mapper.resource_for(gvk)
        namespaces = sorted({home, *inventory.namespaces} - {""}) if resource.namespaced else [None]
        for namespace in namespaces:
            pager = client.list(metadata_of(gvk), namespace=namespace, labels={PART_OF_LABEL: set_id})
            try:
                async for each in pager:
                    applied_by = appliers(each.metadata.managed_fields, SET_MARK)
                    if not managers or not applied_by.isdisjoint(managers):
                        found.append(member_of(gvk, each.metadata))
            except NotFound:
                client.mapper.invalidate()  # the CRD was deleted after the last discovery
                break
    return found
