"""Desired state: the objects that an owner should have; others that were applied for it are deleted.

    desired = DesiredState(client, cache, kinds=[Deployment, Service], field_manager="guestbook")

    async def reconcile(guestbook: Guestbook) -> None:
        await desired.ensure(guestbook, [deployment_for(guestbook), service_for(guestbook)])

Objects are written with server-side apply: the controller owns only the fields that it sends, and a field
that it no longer sends is removed. Each object gets an owner reference. After everything has been applied,
objects of the declared kinds that the owner controls, that this field manager has applied, and that are not
in the list are deleted. Objects of the same owner that other controllers have applied or created stay; one
that another controller has applied as well only loses the fields of this one (see `client.membership`).

An existing object that has no controlling owner is not changed, unless the controller applied it before
(its field manager is in `managedFields`) or `adopt=True`; an object that another owner controls never is.

Nothing is written if nothing changed. `DesiredState` remembers what it applied and what the server returned,
and compares that with the cache, so that changes by other clients are reverted. After a restart everything is
applied once; the server does not create a new version if there is no difference. An object that has to be
restored again and again is reported, with the other field managers (`EnsureResult.conflicts`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import MetaObject, OwnerReference
from kubewright.api.owners import OwnerError, controller_of, owner_reference
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, by_owner
from kubewright.cache.informers.informer import Informer
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client import Client
from kubewright.client.decoding import kind_of
from kubewright.client.kind_types import AnyKind, MetadataKind, metadata_of
from kubewright.client.membership import (
    FieldManager,
    Mark,
    SetMember,
    member_of,
    owner_mark,
)
from kubewright.client.patches import to_dict
from kubewright.client.set_writes import apply_each, apply_member, remove_member
from kubewright.controller.controller import current_reconcile
from kubewright.controller.write_conflicts import RecentWrites, WriteConflict
from kubewright.deprecation import renamed_parameter, warn_deprecated

logger = logging.getLogger(__name__)

CONFLICT_REPEATS: Final = 3
"""How often an object is restored within 30 s before it is reported."""
REPORT_SECONDS: Final = 300.0
"""Interval between two reports of a conflict about the same object."""

_encode = msgspec.json.Encoder(order="deterministic").encode

OwnedKind = type[MetaObject] | GroupVersionKind
Wanted = Mapping[tuple[GroupKind, ObjectKey], GroupVersionKind]
"""Keys of desired objects."""


@dataclass(frozen=True, slots=True)
class EnsureResult:
    """Objects that `ensure` applied, left unchanged or deleted, as `Kind namespace/name`.

    It is true if anything was applied or deleted.
    """

    applied: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """Objects that other writers change or delete again and again, with the field managers."""

    def __bool__(self) -> bool:
        return bool(self.applied or self.deleted)


class AdoptionError(OwnerError):
    """A desired object exists already, has no controlling owner, and was not applied by this controller."""


class _Applied(NamedTuple):
    """Digest of the last applied object, and the version that the server returned."""

    intent: bytes
    revision: int
    generation: int
    outcome: bytes


class _Kept(NamedTuple):
    """An object of an owner that this controller does not delete, and the managers that have applied it."""

    uid: str
    owner: str
    others: frozenset[str]


class DesiredState:
    """Applies the objects that owners should have; one instance for all owners of a controller.

    Permissions: list, watch, patch, create and delete of the declared kinds, and update of the owner's
    finalizers if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    """

    @renamed_parameter("field_owner", "field_manager")
    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        kinds: Sequence[OwnedKind],
        field_manager: str | FieldManager,
        force: bool = True,
        prune: bool = True,
    ) -> None:
        """`kinds`: the kinds that `ensure` may apply and delete. `force`: take over fields of other managers.

        Controllers with the same owners need different field managers: `ensure` deletes what the same field
        owner has applied. Of Secrets and ConfigMaps only metadata is cached, unless the cache is configured
        otherwise.
        """
        if not prune:
            warn_deprecated("DesiredState(prune=False)", "ensure(..., prune=False)")
        if not field_manager:
            raise ValueError("DesiredState requires a field_manager: the name of the controller")
        self.manager = FieldManager(field_manager) if isinstance(field_manager, str) else field_manager
        self._client = client
        self._uncached: Client = getattr(client, "uncached", client)
        self._cache = cache
        self._force = force
        self._prune = prune
        self._kinds: dict[GroupVersionKind, OwnedKind] = {}
        for kind in kinds:
            gvk = kind if isinstance(kind, GroupVersionKind) else kind.gvk
            if gvk is None:
                raise ValueError(f"{kind} is not a kind; decorate it with @resource(group=..., version=...)")
            self._kinds[gvk] = kind
            cache.add_index(gvk, by_owner())
        self._applied: dict[tuple[GroupVersionKind, ObjectKey], _Applied] = {}
        self._kept: dict[tuple[GroupVersionKind, ObjectKey], _Kept] = {}
        self._informers: dict[GroupVersionKind, Informer] = {}
        self._writes = RecentWrites(repeats=CONFLICT_REPEATS)
        self._reported: dict[str, float] = {}

    async def ensure(
        self,
        owner: MetaObject | Unstructured,
        objects: Iterable[MetaObject | Unstructured | dict[str, Any]],
        *,
        adopt: bool = False,
        prune: bool = True,
    ) -> EnsureResult:
        """Apply these objects for the owner and delete others that this controller has applied for it.

        Objects are applied in order; after an error nothing is deleted. `adopt`: take over existing objects
        that have no controlling owner; by default they raise an `AdoptionError`. With `prune=False` nothing
        is deleted: the list is a part of the objects.
        """
        check_object_list(objects)
        result = EnsureResult()
        wanted: dict[tuple[GroupKind, ObjectKey], GroupVersionKind] = {}

        async def apply(manifest: dict[str, Any]) -> None:
            gvk = GroupVersionKind.from_api_version(manifest["apiVersion"], manifest["kind"])
            intent, key = await self._member(owner, manifest, gvk)
            member = gvk.group_kind, key
            if member in wanted:
                raise ValueError(f"{gvk.kind} {key} is in the list of desired objects twice")
            wanted[member] = gvk
            await self._apply_member(owner, gvk, key, intent, result, adopt=adopt)

        manifests = await self._manifests(owner, objects)
        async for _ in apply_each(manifests, apply, describe=_describe):
            pass
        if prune and self._prune:
            await self._remove_others(owner, wanted, result)
        return result

    async def _manifests(
        self, owner: Any, objects: Iterable[MetaObject | Unstructured | dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the objects to apply, in order."""
        manifests = []
        for each in objects:
            gvk = gvk_of(each)
            if gvk not in self._kinds:
                raise ValueError(
                    f"{gvk} is not a declared kind; add it to owns=(...) of the operator's reconcile, or to "
                    "kinds=[...] of the DesiredState"
                )
            manifests.append(apply_configuration(each, gvk))
        return manifests

    def _mark(self, owner: Any) -> Mark:
        """Return the field that makes an object one of this owner."""
        return owner_mark(owner.metadata.uid)

    async def _member(
        self, owner: Any, manifest: dict[str, Any], gvk: GroupVersionKind
    ) -> tuple[dict[str, Any], ObjectKey]:
        """Return the object to apply: as given, with the owner reference and a namespace."""
        metadata, home = manifest["metadata"], owner.metadata.namespace or ""
        if home and metadata.setdefault("namespace", home) != home:
            raise OwnerError(
                f"{gvk.kind} {metadata['name']} is in namespace {metadata['namespace']!r}, but its owner is "
                f"in {home!r}; an owner must be in the same namespace"
            )
        add_owner_reference(metadata, owner)
        if not await self._is_namespaced(gvk):
            metadata.pop("namespace", None)
        return manifest, ObjectKey(metadata.get("namespace", ""), metadata["name"])

    async def _is_namespaced(self, gvk: GroupVersionKind) -> bool:
        mapper = self._client.mapper
        return (mapper.find_cached(gvk) or await mapper.resource_for(gvk)).namespaced

    async def _apply_member(
        self,
        owner: Any,
        gvk: GroupVersionKind,
        key: ObjectKey,
        intent: dict[str, Any],
        result: EnsureResult,
        *,
        adopt: bool = False,
    ) -> Any:
        """Apply an object unless it is as applied before; return the response of the API server."""
        digest, name = _digest(intent), f"{gvk.kind} {key}"
        known = self._applied.get((gvk, key))
        informer = await self._informer(gvk)
        if self._cache.on_read is not None:
            self._cache.report_read("get", gvk, key.namespace, key.name)
        is_same = known is not None and known.intent == digest
        if known is not None and is_same and self._is_as_applied(informer, key, known, intent):
            result.unchanged.append(name)
            return None
        await self._check_owner(owner, informer, gvk, key, adopt=adopt or known is not None)
        before = informer.store.get(key)
        others = await self._other_managers(owner, gvk, key)
        response = await apply_member(
            self._client, intent, self.manager, self._mark(owner), force=self._force
        )
        metadata = response.metadata
        revision = _number(metadata.resource_version)
        self._kept.pop((gvk, key), None)
        self._applied[gvk, key] = _Applied(
            digest, revision, metadata.generation or 0, _digest(_projected(response.raw, intent))
        )
        result.applied.append(name)
        if before is None or before.revision != revision:
            if is_same:
                self._count_write(name, "")  # the change of another writer has been reverted
            self._report_conflict(name, "deleted" if before is None else "changed", others, result)
        return response

    async def _check_owner(
        self, owner: Any, informer: Informer, gvk: GroupVersionKind, key: ObjectKey, *, adopt: bool
    ) -> None:
        """Raise an error for an existing object that the owner does not control and may not take over."""
        entry = informer.store.get(key)
        if entry is not None:
            current_owner = controller_of(_Header(entry.header().metadata))
            if current_owner is not None:
                _check_controller(gvk, key, current_owner, owner)
                return
            if adopt:
                return
        elif not informer.filtered:
            return
        # The cache has no managedFields, and with a selector it does not have all objects.
        live = await self._uncached.get_or_none(metadata_of(gvk), key.name, namespace=key.namespace or None)
        if live is None:
            return
        current_owner = controller_of(live)
        if current_owner is not None:
            _check_controller(gvk, key, current_owner, owner)
        elif not adopt and not any(
            each.manager in self.manager.names and each.operation == "Apply"
            for each in live.metadata.managed_fields or ()
        ):
            raise AdoptionError(
                f"{gvk.kind} {key} exists already and has no controlling owner; delete or rename it, or call "
                "ensure(..., adopt=True) to take it over"
            )

    def _is_as_applied(
        self, informer: Informer, key: ObjectKey, known: _Applied, intent: dict[str, Any]
    ) -> bool:
        entry = informer.store.get(key)
        if entry is None:
            return False
        if entry.revision == known.revision:
            return True
        if not informer.metadata_only:
            return _digest(_projected(codec.loads(entry.raw), intent)) == known.outcome
        # Only metadata is cached: the content is known by its generation, if the kind has one.
        generation = entry.header().metadata.generation or 0
        current = codec.loads(entry.raw)
        metadata_kept = _projected(current, {"metadata": intent["metadata"]}) == {
            "metadata": intent["metadata"]
        }
        return bool(generation) and generation == known.generation and metadata_kept

    async def _remove_others(self, owner: Any, wanted: Wanted, result: EnsureResult) -> list[SetMember]:
        """Delete the objects of the owner that are not wanted; return those that were kept."""
        members = [
            each
            for each in await self._members(owner, wanted)
            if (each.gvk.group_kind, ObjectKey(each.namespace, each.name)) not in wanted
        ]
        return await self._remove(owner, members, result)

    async def _members(self, owner: Any, wanted: Wanted) -> list[SetMember]:
        """Return the objects that the owner controls, of the declared kinds."""
        found: list[SetMember] = []
        for gvk in self._kinds:
            informer = await self._informer(gvk)
            if self._cache.on_read is not None:
                self._cache.report_read("list", gvk, owner.metadata.namespace or "", "")
            found += cached_members(informer, gvk, "owner", owner.metadata.uid, owner.metadata.uid)
        return found

    async def _remove(
        self, owner: Any, members: Iterable[SetMember], result: EnsureResult
    ) -> list[SetMember]:
        """Delete objects that only this controller has applied; return those that were kept."""
        kept = []
        for each in members:
            key = each.gvk, ObjectKey(each.namespace, each.name)
            known = self._kept.get(key)
            if known is not None and known.uid == each.uid:
                kept.append(each)
                continue
            self._applied.pop(key, None)  # first: the deletion is not one by another writer
            removal = await remove_member(self._uncached, each, self.manager, self._mark(owner))
            if removal.deleted:
                result.deleted.append(str(each))
            elif removal.kept:
                kept.append(each)
                self._kept[key] = _Kept(each.uid, owner.metadata.uid, removal.others)
                for name in removal.others & self.manager.ambiguous:
                    logger.warning(
                        "object is not deleted: several controllers of this operator had its field manager",
                        extra={"object": str(each), "field_manager": name},
                    )
        return kept

    # Conflicts

    def _count_write(self, name: str, writer: str) -> WriteConflict | None:
        return self._writes.add(name, writer, asyncio.get_running_loop().time())

    async def _other_managers(self, owner: Any, gvk: GroupVersionKind, key: ObjectKey) -> set[str]:
        """Return the managers that can have undone the last writes, before an object is restored again.

        They are read only if the next write is to be reported. Of an object that was deleted, nothing tells
        by whom; these are the managers that have applied other objects for the same owner.
        """
        if self._writes.count_others(f"{gvk.kind} {key}", self.manager.name) < CONFLICT_REPEATS - 1:
            return set()
        live = await self._uncached.get_or_none(metadata_of(gvk), key.name, namespace=key.namespace or None)
        entries = (live.metadata.managed_fields or ()) if live is not None else ()
        found = {each.manager or "" for each in entries if not each.subresource} - self.manager.names
        uid = owner.metadata.uid
        return found or {each for kept in self._kept.values() if kept.owner == uid for each in kept.others}

    def _report_conflict(self, name: str, verb: str, others: set[str], result: EnsureResult) -> None:
        """Count that an object was applied; report it if others have undone that repeatedly."""
        now = asyncio.get_running_loop().time()
        conflict = self._count_write(name, self.manager.name)
        if conflict is None or now - self._reported.get(name, -REPORT_SECONDS) < REPORT_SECONDS:
            return
        self._reported = {each: at for each, at in self._reported.items() if now - at < REPORT_SECONDS}
        self._reported[name] = now
        others = others | {each for each in conflict.writers if each not in ("", self.manager.name)}
        by = ", ".join(sorted(others)) or "another client or operator of this name"
        result.conflicts.append(
            f"{name} is applied by {self.manager.name} and {verb} by {by} again and again; only one of them "
            "may manage it"
        )
        logger.warning(
            "controllers in conflict: an object is restored again and again",
            extra={"object": name, "field_manager": self.manager.name, "other_field_managers": by},
        )

    async def _informer(self, gvk: GroupVersionKind) -> Informer:
        kind: AnyKind = self._kinds[gvk]
        if gvk.group_kind in RESTRICTED_KINDS:
            kind = metadata_of(kind) if not isinstance(kind, MetadataKind) else kind
        informer = self._cache.existing_informer(gvk) or await self._cache.informer(kind)
        if self._informers.get(gvk) is not informer:
            self._informers[gvk] = informer
            informer.add_handler(self._forget_deleted(gvk), resync=0)
        if not informer.has_synced:
            await informer.wait_for_sync()
        return informer

    def _forget_deleted(self, gvk: GroupVersionKind) -> Callable[[ObjectChange], None]:
        def handler(change: ObjectChange) -> None:
            if change.new is not None:
                return
            self._kept.pop((gvk, change.key), None)
            if self._applied.pop((gvk, change.key), None) is not None:
                info = current_reconcile.get()  # set if a controller of this process deletes it
                writer = f"controller {info.controller}" if info is not None else ""
                self._count_write(f"{gvk.kind} {change.key}", writer)

        return handler


def check_object_list(objects: Any) -> None:
    """Raise a `TypeError` for a single object where a list is expected."""
    if isinstance(objects, Mapping | MetaObject | Unstructured):
        raise TypeError("ensure takes a list of all desired objects: ensure([deployment, service])")


def apply_configuration(
    obj: MetaObject | Unstructured | dict[str, Any], gvk: GroupVersionKind
) -> dict[str, Any]:
    """Return an object as it is applied: without status and without metadata that the server sets."""
    intent = {"apiVersion": gvk.api_version, "kind": gvk.kind, **to_dict(obj)}
    intent.pop("status", None)
    metadata = intent["metadata"] = dict(intent.get("metadata") or {})
    if not metadata.get("name"):
        raise ValueError(f"a desired object of kind {gvk.kind} has no name")
    for name in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        metadata.pop(name, None)
    return intent


def add_owner_reference(metadata: dict[str, Any], owner: MetaObject | Unstructured) -> None:
    """Add an owner reference to the metadata of an object, or replace that of the same owner."""
    reference = codec.to_plain(owner_reference(owner, controller=True, block_owner_deletion=True))
    others = [each for each in metadata.get("ownerReferences") or () if each["uid"] != reference["uid"]]
    metadata["ownerReferences"] = [*others, reference]


def _check_controller(gvk: GroupVersionKind, key: ObjectKey, current: OwnerReference, owner: Any) -> None:
    if current.uid != owner.metadata.uid:
        raise OwnerError(f"{gvk.kind} {key} is already controlled by {current.kind} {current.name}")


def cached_members(
    informer: Informer, gvk: GroupVersionKind, index: str, value: str, controller: str = ""
) -> Iterator[SetMember]:
    """Return the objects with an index value that are not being deleted; those of one controlling owner."""
    for _, entry in list(informer.store.indexed(index, value)):
        metadata = entry.header().metadata
        current_owner = controller_of(_Header(metadata)) if controller else None
        if metadata.deletion_timestamp is None and (
            not controller or (current_owner is not None and current_owner.uid == controller)
        ):
            yield member_of(gvk, metadata)


def gvk_of(obj: Any) -> GroupVersionKind:
    """Return the kind of an object."""
    kind: Any = kind_of(obj)
    gvk: GroupVersionKind = getattr(kind, "gvk", kind)
    return gvk


def _describe(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


class _Header:
    """Object with metadata only."""

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata


def _projected(current: Any, intent: Any) -> Any:
    """Return the fields of `current` that `intent` has; lists are returned completely."""
    if isinstance(intent, dict) and isinstance(current, dict):
        return {name: _projected(current.get(name), value) for name, value in intent.items()}
    return current


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(_encode(value), digest_size=16).digest()


def _number(resource_version: str | None) -> int:
    return int(resource_version) if resource_version and resource_version.isdecimal() else 0
