"""Object sets: the objects of an owner, of any kind and in any namespace, with an inventory.

    sets = ObjectSets(client, cache, field_owner="shop")

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

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubewright.api import codec
from kubewright.api.apply_order import in_apply_order, phase_of
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import MetaObject, Preconditions
from kubewright.api.owners import OwnerError, owner_reference
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, by_label
from kubewright.cache.indexes import label_index
from kubewright.cache.informer import Informer
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.store import ObjectChange, ObjectKey, labels_of
from kubewright.client import Client
from kubewright.client.applyset import CRD_TIMEOUT
from kubewright.client.applyset_inventory import (
    CRD,
    ID_LABEL,
    KINDS_ANNOTATION,
    NAMESPACES_ANNOTATION,
    PART_OF_LABEL,
    TOOLING_ANNOTATION,
    SetMember,
    apply_set_id,
    list_members,
)
from kubewright.client.decoding import kind_of
from kubewright.client.kind_types import AnyKind, metadata_of
from kubewright.client.patches import merge_patch
from kubewright.client.readiness import Readiness, readiness_of
from kubewright.client.wait import condition

from .desired_state import (
    DesiredState,
    EnsureResult,
    add_owner_reference,
    apply_configuration,
    check_object_list,
)
from .request import Request
from .sources import AddedKindsSource

TOOLING: Final = "kubewright-operator/v1"


class MemberReadiness(NamedTuple):
    """State of a member, named as `Kind name` or `Kind namespace/name` outside the namespace of the owner."""

    name: str
    readiness: Readiness


@dataclass(frozen=True)
class Inventory:
    """Kinds and namespaces of the members of a set."""

    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()
    """Namespaces of members besides that of the owner."""

    def __or__(self, other: Inventory) -> Inventory:
        return Inventory(self.kinds | other.kinds, self.namespaces | other.namespaces)

    @classmethod
    def of(cls, owner: MetaObject | Unstructured) -> Inventory:
        """Return the inventory that an owner has in its annotations."""
        annotations = owner.metadata.annotations or {}
        kinds, namespaces = (
            [part for part in annotations.get(name, "").split(",") if part]
            for name in (KINDS_ANNOTATION, NAMESPACES_ANNOTATION)
        )
        return cls(frozenset(GroupKind.parse(each) for each in kinds), frozenset(namespaces))

    def annotations(self) -> dict[str, str | None]:
        """Return the annotations of an owner; `None` removes one."""
        return {
            TOOLING_ANNOTATION: TOOLING,
            KINDS_ANNOTATION: ",".join(sorted(str(each) for each in self.kinds)),
            NAMESPACES_ANNOTATION: ",".join(sorted(self.namespaces)) or None,
        }


class ObjectSets(DesiredState):
    """Applies, reports and deletes the objects of owners; one instance for all owners of a controller.

    Permissions: list, watch, patch, create and delete of all kinds of the objects, and patch of the owner.
    """

    cluster = ""
    """Name of the cluster in a fleet, for the requests of `source`."""

    def __init__(self, client: Client, cache: Cache, *, field_owner: str, force: bool = True) -> None:
        super().__init__(client, cache, kinds=(), field_owner=field_owner, force=force)
        self.source: AddedKindsSource[Request] = AddedKindsSource(cache, self._owners_of)
        """Source of a controller: requests for the owners of changed members."""
        self._requests: dict[str, Request] = {}
        self._desired: dict[str, list[tuple[GroupVersionKind, ObjectKey]]] = {}

    async def ensure(
        self,
        owner: MetaObject | Unstructured,
        objects: Iterable[MetaObject | Unstructured | dict[str, Any]],
        *,
        adopt: bool = False,
    ) -> EnsureResult:
        """Apply these objects in the order of their dependencies, and delete other members of the set.

        After an error nothing is deleted. `adopt`: take over existing objects that are not part of a set and
        have no controlling owner; by default they raise an `AdoptionError`.
        """
        check_object_list(objects)
        set_id = self._register(owner)
        manifests = [apply_configuration(each, gvk_of(each)) for each in objects]
        home = owner.metadata.namespace or ""
        target = Inventory(
            frozenset(_manifest_gvk(each).group_kind for each in manifests),
            frozenset(each["metadata"].get("namespace") or home for each in manifests) - {home},
        )
        stored = Inventory.of(owner)
        await self._store_inventory(owner, set_id, stored | target)
        result = EnsureResult()
        desired: dict[tuple[GroupKind, ObjectKey], GroupVersionKind] = {}
        for manifest in in_apply_order(manifests):
            gvk = _manifest_gvk(manifest)
            intent, key = await self._member(dict(manifest), gvk, owner, set_id)
            if (gvk.group_kind, key) in desired:
                raise ValueError(f"{gvk.kind} {key} is in the list of desired objects twice")
            desired[gvk.group_kind, key] = gvk
            changed = await self._apply_member(owner, gvk, key, intent, adopt) is not None
            (result.applied if changed else result.unchanged).append(f"{gvk.kind} {key}")
        self._desired[set_id] = [(gvk, key) for (_, key), gvk in desired.items()]
        namespaces = {home, *stored.namespaces, *target.namespaces} - {""}
        for kind in sorted(stored.kinds | target.kinds):
            await self._prune_members(kind, set_id, desired, namespaces, result)
        await self._store_inventory(owner, set_id, target)
        return result

    async def _apply_member(
        self,
        owner: MetaObject | Unstructured,
        gvk: GroupVersionKind,
        key: ObjectKey,
        intent: dict[str, Any],
        adopt: bool,
    ) -> Any:
        """Apply an object if needed; return the response, for a CRD after its kind is served."""
        response = await self._apply_if_needed(owner, gvk, key, intent, adopt)
        if response is not None and gvk.group_kind == CRD:
            await self._client.wait(gvk, key.name, until=condition("Established"), timeout=CRD_TIMEOUT)
            self._client.mapper.invalidate()
        return response

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
        inventory = Inventory.of(owner)
        namespaces = {*inventory.namespaces, owner.metadata.namespace or ""} - {""}
        phases: set[int] = set()
        while True:
            members = await list_members(
                self._uncached, set_id, kinds=inventory.kinds, namespaces=sorted(namespaces)
            )
            if not members:
                self._requests.pop(set_id, None)
                self._desired.pop(set_id, None)
                return []
            last = max(_phase(each) for each in members)
            current = [each for each in members if _phase(each) == last]
            if last in phases:
                for each in current:
                    await self._informer(each.gvk)  # its deletion calls the controller
                return [f"{each.gvk.kind} {ObjectKey(each.namespace, each.name)}" for each in current]
            phases.add(last)
            for each in current:
                await self._delete_member(each.gvk, ObjectKey(each.namespace, each.name), each.uid)

    def _id_of(self, owner: MetaObject | Unstructured) -> str:
        kind = gvk_of(owner).group_kind
        return apply_set_id(owner.metadata.name or "", namespace=owner.metadata.namespace or "", kind=kind)

    def _register(self, owner: MetaObject | Unstructured) -> str:
        set_id = self._id_of(owner)
        self._requests[set_id] = Request(
            owner.metadata.namespace or "", owner.metadata.name or "", self.cluster
        )
        return set_id

    def _owners_of(self, change: ObjectChange) -> Iterable[Request]:
        found: dict[Request, None] = {}
        for entry in (change.old, change.new):
            set_id = labels_of(entry).get(PART_OF_LABEL, "") if entry is not None else ""
            if set_id in self._requests:
                found[self._requests[set_id]] = None
        return found

    async def _store_inventory(
        self, owner: MetaObject | Unstructured, set_id: str, inventory: Inventory
    ) -> None:
        labels, annotations = owner.metadata.labels or {}, owner.metadata.annotations or {}
        wanted = inventory.annotations()
        if labels.get(ID_LABEL) == set_id and all(
            annotations.get(name) == value for name, value in wanted.items()
        ):
            return
        metadata = {"uid": owner.metadata.uid, "labels": {ID_LABEL: set_id}, "annotations": wanted}
        await self._client.patch(owner, merge_patch({"metadata": metadata}))

    async def _member(
        self, manifest: dict[str, Any], gvk: GroupVersionKind, owner: MetaObject | Unstructured, set_id: str
    ) -> tuple[dict[str, Any], ObjectKey]:
        """Return the object to apply, with the label of the set, a namespace and an owner reference."""
        mapper = self._client.mapper
        resource = mapper.find_cached(gvk) or await mapper.resource_for(gvk)
        metadata, home = manifest["metadata"], owner.metadata.namespace or ""
        if not resource.namespaced:
            metadata.pop("namespace", None)
        elif not metadata.get("namespace"):
            if not home:
                raise ValueError(
                    f"{gvk.kind} {metadata['name']} has no namespace and its owner is cluster-scoped; "
                    "set metadata.namespace"
                )
            metadata["namespace"] = home
        metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF_LABEL: set_id}
        if not home or metadata.get("namespace") == home:
            reference = owner_reference(owner, controller=True, block_owner_deletion=True)
            add_owner_reference(metadata, codec.to_plain(reference))
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

    async def _prune_members(
        self,
        kind: GroupKind,
        set_id: str,
        desired: Mapping[tuple[GroupKind, ObjectKey], GroupVersionKind],
        namespaces: Collection[str],
        result: EnsureResult,
    ) -> None:
        gvk = next((each for each in desired.values() if each.group_kind == kind), None)
        gvk = gvk or await self._served_version(kind)
        if gvk is None:
            return  # the CRD of this kind was deleted, and its objects with it
        informer = await self._informer(gvk)
        found = {key: entry.uid for key, entry in informer.store.indexed(label_index(PART_OF_LABEL), set_id)}
        if informer.filtered or not all(informer.covers(each) for each in namespaces):
            for member in await list_members(self._uncached, set_id, kinds=(kind,), namespaces=namespaces):
                found[ObjectKey(member.namespace, member.name)] = member.uid
        for key, uid in found.items():
            if (kind, key) not in desired and await self._delete_member(gvk, key, uid):
                result.deleted.append(f"{gvk.kind} {key}")

    async def _served_version(self, kind: GroupKind) -> GroupVersionKind | None:
        """Return the preferred version of a kind, or `None` if it is not served."""
        versions = await self._client.mapper.versions_for(kind)
        return kind.with_version(versions[0]) if versions else None

    async def _delete_member(self, gvk: GroupVersionKind, key: ObjectKey, uid: str) -> bool:
        """Delete an object unless it is deleted already, or another object has its name now."""
        deleted = await self._delete_if_unchanged(gvk, key, Preconditions(uid=uid))
        self._applied.pop((gvk, key), None)
        return deleted

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


def gvk_of(obj: Any) -> GroupVersionKind:
    """Return the kind of an object."""
    kind: Any = kind_of(obj)
    gvk: GroupVersionKind = getattr(kind, "gvk", kind)
    return gvk


def _manifest_gvk(manifest: Mapping[str, Any]) -> GroupVersionKind:
    return GroupVersionKind.from_api_version(manifest["apiVersion"], manifest["kind"])


def _phase(member: SetMember) -> int:
    return phase_of(str(member.gvk.group_version), member.gvk.kind)


__all__ = ["Inventory", "MemberReadiness", "ObjectSets", "gvk_of"]
