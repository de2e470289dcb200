"""Object sets: the objects of an owner, of any kind and in any namespace, with an inventory.

    sets = ObjectSets(client, cache, field_manager="shop")

    async def reconcile(shop: Shop) -> None:
        await sets.ensure(shop, manifests)             # applies them, deletes members that are missing now
        states = await sets.readiness(shop)

    async def clean_up(shop: Shop) -> Result | None:
        return Result(requeue_after=5) if await sets.delete(shop) else None

`DesiredState` needs the kinds in advance and the namespace of the owner; here both follow from the objects.
The owner is the parent of an ApplySet (KEP-3659): its annotations contain the kinds and namespaces of the
members, and each member has the label `applyset.kubernetes.io/part-of`. Members that can have an owner
reference get one; the others are cluster-scoped or in another namespace, and need `delete`.

A controller with `sets.source` is called for an owner when one of its members changes. The informer of a kind
starts with the first member of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kubewright.api.apply_order import in_apply_order
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.owners import OwnerError
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, by_label
from kubewright.cache.informers.informer import Informer
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.stores.indexes import label_index
from kubewright.cache.stores.store import ObjectChange, ObjectKey, labels_of
from kubewright.client import Client
from kubewright.client.applyset_inventory import Inventory, SetParent, apply_set_id
from kubewright.client.kind_types import AnyKind, metadata_of
from kubewright.client.membership import PART_OF_LABEL, SET_MARK, FieldManager, Mark, SetMember
from kubewright.client.readiness import Readiness, readiness_of
from kubewright.client.set_writes import deletion_order
from kubewright.controller.request import Request
from kubewright.controller.sources import AddedKindsSource
from kubewright.deprecation import renamed_parameter

from .desired_state import (
    DesiredState,
    EnsureResult,
    Wanted,
    add_owner_reference,
    apply_configuration,
    cached_members,
    gvk_of,
)

TOOLING: Final = "kubewright-operator/v1"


class MemberReadiness(NamedTuple):
    """State of a member, named as `Kind name` or `Kind namespace/name` outside the namespace of the owner."""

    name: str
    readiness: Readiness


class ObjectSets(DesiredState):
    """Applies, reports and deletes the objects of owners; one instance for all owners of a controller.

    Permissions: list, watch, patch, create and delete of all kinds of the objects, and patch of the owner.
    """

    cluster = ""
    """Name of the cluster in a fleet, for the requests of `source`."""

    @renamed_parameter("field_owner", "field_manager")
    def __init__(
        self, client: Client, cache: Cache, *, field_manager: str | FieldManager, force: bool = True
    ) -> None:
        super().__init__(client, cache, kinds=(), field_manager=field_manager, force=force)
        self.source: AddedKindsSource[Request] = AddedKindsSource(cache, self._owners_of)
        """Source of a controller: requests for the owners of changed members."""
        self._requests: dict[str, Request] = {}
        self._parents: dict[str, SetParent] = {}
        self._desired: dict[str, list[tuple[GroupVersionKind, ObjectKey]]] = {}

    async def ensure(
        self,
        owner: MetaObject | Unstructured,
        objects: Iterable[MetaObject | Unstructured | dict[str, Any]],
        *,
        adopt: bool = False,
        prune: bool = True,
    ) -> EnsureResult:
        """Apply these objects in the order of their dependencies, and delete other members of the set.

        After an error nothing is deleted. `adopt`: take over existing objects that are not part of a set and
        have no controlling owner; by default they raise an `AdoptionError`. With `prune=False` nothing is
        deleted: the list is a part of the set.
        """
        self._register(owner)
        return await super().ensure(owner, objects, adopt=adopt, prune=prune)

    async def _manifests(
        self, owner: Any, objects: Iterable[MetaObject | Unstructured | dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the objects in the order of their dependencies, after the inventory was extended."""
        manifests = [apply_configuration(each, gvk_of(each)) for each in objects]
        home = owner.metadata.namespace or ""
        target = Inventory(
            frozenset(gvk_of(each).group_kind for each in manifests),
            frozenset(each["metadata"].get("namespace") or home for each in manifests) - {home},
        )
        await self._parent_of(owner).extend(target)
        return [dict(each) for each in in_apply_order(manifests)]

    async def _remove_others(self, owner: Any, wanted: Wanted, result: EnsureResult) -> list[SetMember]:
        kept = await super()._remove_others(owner, wanted, result)
        self._desired[self._id_of(owner)] = [(gvk, key) for (_, key), gvk in wanted.items()]
        if not kept:  # other controllers have members too, or are applying them
            await self._parent_of(owner).reduce(inventory_of(wanted, owner))
        return kept

    async def readiness(self, owner: MetaObject | Unstructured) -> list[MemberReadiness]:
        """Return the states of the objects that `ensure` applied last for this owner."""
        home = owner.metadata.namespace or ""
        states = []
        for gvk, key in self._desired.get(self._id_of(owner), ()):
            found = await self._read(gvk, key)
            state = readiness_of(found) if found is not None else Readiness("InProgress", "does not exist")
            name = key.name if key.namespace in ("", home) else str(key)
            states.append(MemberReadiness(f"{gvk.kind} {name}", state))
        return states

    async def delete(self, owner: MetaObject | Unstructured) -> list[str]:
        """Delete all members in the reverse order of `ensure`; return those that have not been deleted yet.

        Members that others depend on are deleted after these: call it again until nothing is returned.
        """
        set_id = self._register(owner)
        requested = set[str]()
        while True:
            members = await self._parents[set_id].members(managers=self.manager.names)
            if not members:
                self._forget(set_id)
                return []
            last = self._last_members(members)
            current = [each for each in last if each.uid not in requested]
            if not current:
                for each in last:
                    await self._informer(each.gvk)  # its deletion calls the controller
                return [str(each) for each in last]
            requested.update(each.uid for each in current)
            await self._remove(owner, current, EnsureResult())

    def _last_members(self, members: Sequence[SetMember]) -> list[SetMember]:
        """Return the members that are deleted before the others."""
        return deletion_order(members)[0]

    def _forget(self, set_id: str) -> None:
        self._requests.pop(set_id, None)
        self._parents.pop(set_id, None)
        self._desired.pop(set_id, None)

    def _mark(self, owner: Any) -> Mark:
        return SET_MARK

    def _id_of(self, owner: MetaObject | Unstructured) -> str:
        kind = gvk_of(owner).group_kind
        return apply_set_id(owner.metadata.name or "", namespace=owner.metadata.namespace or "", kind=kind)

    def _register(self, owner: MetaObject | Unstructured) -> str:
        name, namespace = owner.metadata.name or "", owner.metadata.namespace or ""
        parent = SetParent(self._client, name, namespace=namespace, tooling=TOOLING, owner=owner)
        self._requests[parent.id] = Request(namespace, name, self.cluster)
        self._parents[parent.id] = parent
        return parent.id

    def _parent_of(self, owner: MetaObject | Unstructured) -> SetParent:
        return self._parents[self._id_of(owner)]

    def _owners_of(self, change: ObjectChange) -> Iterable[Request]:
        found: dict[Request, None] = {}
        for entry in (change.old, change.new):
            set_id = labels_of(entry).get(PART_OF_LABEL, "") if entry is not None else ""
            if set_id in self._requests:
                found[self._requests[set_id]] = None
        return found

    async def _member(
        self, owner: Any, manifest: dict[str, Any], gvk: GroupVersionKind
    ) -> tuple[dict[str, Any], ObjectKey]:
        """Return the object to apply, with the label of the set, a namespace and an owner reference."""
        metadata, home = manifest["metadata"], owner.metadata.namespace or ""
        if not await self._is_namespaced(gvk):
            metadata.pop("namespace", None)
        elif not metadata.get("namespace"):
            if not home:
                raise ValueError(
                    f"{gvk.kind} {metadata['name']} has no namespace and its owner is cluster-scoped; "
                    "set metadata.namespace"
                )
            metadata["namespace"] = home
        metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF_LABEL: self._id_of(owner)}
        if not home or metadata.get("namespace") == home:
            add_owner_reference(metadata, owner)
        return manifest, ObjectKey(metadata.get("namespace", ""), metadata["name"])

    async def _check_owner(
        self, owner: Any, informer: Informer, gvk: GroupVersionKind, key: ObjectKey, *, adopt: bool
    ) -> None:
        """Raise an error for an existing object of another set or owner, or of none unless `adopt`."""
        entry = informer.store.get(key)
        if entry is not None:
            labels = labels_of(entry)
        elif informer.covers(key.namespace) and not informer.filtered:
            return
        else:
            kind = metadata_of(gvk)
            live = await self._uncached.get_or_none(kind, key.name, namespace=key.namespace or None)
            labels = (live.metadata.labels or {}) if live is not None else {}
        current, set_id = labels.get(PART_OF_LABEL), self._id_of(owner)
        if current == set_id:
            return
        if current is not None:
            request = self._requests.get(current)
            belongs_to = f"{gvk_of(owner).kind} {request}" if request is not None else f"ApplySet {current}"
            raise OwnerError(f"{gvk.kind} {key} already belongs to {belongs_to}")
        await super()._check_owner(owner, informer, gvk, key, adopt=adopt)

    async def _members(self, owner: Any, wanted: Wanted) -> list[SetMember]:
        """Return the objects with the label of the set, from the cache if it has all of them."""
        found: list[SetMember] = []
        parent = self._parent_of(owner)
        inventory = parent.inventory
        versions = {gvk.group_kind: gvk for gvk in wanted.values()}
        for kind in sorted(inventory.kinds):
            gvk = versions.get(kind)
            if gvk is None:
                served = await self._client.mapper.versions_for(kind)
                if not served:
                    continue  # the CRD of this kind was deleted, and its objects with it
                gvk = kind.with_version(served[0])
            informer = await self._informer(gvk)
            namespaces = {parent.namespace, *inventory.namespaces} - {""}
            if informer.filtered or not all(informer.covers(each) for each in namespaces):
                part = Inventory(frozenset((kind,)), inventory.namespaces)
                found += await parent.members(part)
            else:
                found += cached_members(informer, gvk, label_index(PART_OF_LABEL), parent.id)
        return found

    async def _read(self, gvk: GroupVersionKind, key: ObjectKey) -> Unstructured | None:
        informer = await self._informer(gvk)
        entry = informer.store.get(key)
        is_restricted = gvk.group_kind in RESTRICTED_KINDS
        if entry is not None and (is_restricted or not informer.metadata_only):
            return Unstructured(codec.loads(entry.raw))
        if entry is None and informer.covers(key.namespace) and not informer.filtered:
            return None
        return await self._uncached.get_or_none(gvk, key.name, namespace=key.namespace or None)

    async def _informer(self, gvk: GroupVersionKind) -> Informer:
        if gvk not in self._kinds:
            self._cache.add_index(gvk, by_label(PART_OF_LABEL))
            # Fails for a kind that is not served or not permitted, where a source would wait for it.
            await self._cache.synced_informer(_cached_kind(gvk))
            self._kinds[gvk] = gvk
        await self.source.add(_cached_kind(gvk))
        return await super()._informer(gvk)


def _cached_kind(gvk: GroupVersionKind) -> AnyKind:
    return metadata_of(gvk) if gvk.group_kind in RESTRICTED_KINDS else gvk


def inventory_of(wanted: Wanted, owner: MetaObject | Unstructured) -> Inventory:
    """Return the kinds of objects, and their namespaces besides that of the owner."""
    namespaces = frozenset(key.namespace for _, key in wanted)
    return Inventory(frozenset(kind for kind, _ in wanted), namespaces - {"", owner.metadata.namespace or ""})
