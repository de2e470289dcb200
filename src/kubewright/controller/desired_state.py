"""Desired state: these objects should exist, owned by this one; those that no longer should, should not.

    desired = DesiredState(client, cache, kinds=[Deployment, Service], field_owner="guestbook")

    async def reconcile(guestbook: Guestbook) -> None:
        await desired.ensure(guestbook, [deployment_for(guestbook), service_for(guestbook)])

Objects are written with server-side apply: only the fields you name are yours, and a field you no longer name
goes away. Each gets an owner reference to its owner. Then what the owner controls of the declared kinds, and
is not in the list, is deleted: only after everything was applied, and only that very object (by uid).

Nothing is written when nothing changes. What was applied and what the server made of it is remembered, and
compared with what the cache has now; a change by somebody else is therefore put right. After a restart
everything is applied once, which a server answers without a new version if there is nothing new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from kubewright.api import codec
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, Preconditions
from kubewright.api.owners import OwnerError, controller_of, owner_reference
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, by_owner
from kubewright.cache.informer import Informer
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.store import ObjectChange, ObjectKey
from kubewright.client.decoding import kind_of
from kubewright.client.kind_types import AnyKind, MetadataKind, metadata_of
from kubewright.client.patches import to_dict

_encode = msgspec.json.Encoder(order="deterministic").encode

OwnedKind = type[MetaObject] | GroupVersionKind


@dataclass(frozen=True, slots=True)
class EnsureResult:
    """What `ensure` did, as `Kind namespace/name`."""

    applied: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    pruned: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.applied or self.pruned)


class _Applied(NamedTuple):
    """What was sent last, and what the server had after it."""

    intent: bytes
    revision: int
    generation: int
    outcome: bytes


class DesiredState:
    """Keeps the objects that an owner should have. One for all owners of a controller.

    Permissions: list, watch, patch, create and delete of the declared kinds, and update of the finalizers of
    the owner where the server checks who may block its deletion.
    """

    def __init__(
        self,
        client: Any,
        cache: Cache,
        *,
        kinds: Sequence[OwnedKind],
        field_owner: str,
        force: bool = True,
        prune: bool = True,
    ) -> None:
        """`kinds`: all that `ensure` may be given and may delete. `force`: take fields over from others.

        Of Secrets and ConfigMaps only metadata is kept in the cache, unless it is told to keep more.
        """
        if not field_owner:
            raise ValueError("desired state needs a field owner: the name of your controller")
        self._client = client
        self._cache = cache
        self._field_owner = field_owner
        self._force = force
        self._prune = prune
        self._kinds: dict[GroupVersionKind, OwnedKind] = {}
        for kind in kinds:
            gvk = kind if isinstance(kind, GroupVersionKind) else kind.gvk
            if gvk is None:
                raise ValueError(f"{kind} names no kind: put @resource(group=..., version=...) on it")
            self._kinds[gvk] = kind
            cache.add_index(gvk, by_owner())
        self._applied: dict[tuple[GroupVersionKind, ObjectKey], _Applied] = {}
        self._informers: dict[GroupVersionKind, Informer] = {}

    async def ensure(
        self, owner: Any, objects: Iterable[MetaObject | Unstructured | dict[str, Any]]
    ) -> EnsureResult:
        """Make it so that the owner has these objects and, of the declared kinds, no others.

        They are applied in this order; an error ends it before anything is deleted.
        """
        if isinstance(objects, Mapping | MetaObject | Unstructured):
            raise TypeError(
                "ensure takes everything that is wanted, in a list: ensure([deployment, service])"
            )
        changes = EnsureResult()
        wanted: dict[tuple[GroupVersionKind, ObjectKey], None] = {}
        reference = codec.to_plain(owner_reference(owner, controller=True, block_owner_deletion=True))
        for obj in objects:
            gvk = self._declared(obj)
            intent = self._intent(obj, gvk, owner, reference)
            resource = self._client.mapper.find_cached(gvk) or await self._client.mapper.resource_for(gvk)
            if not resource.namespaced:
                intent["metadata"].pop("namespace", None)
            key = ObjectKey(intent["metadata"].get("namespace", ""), intent["metadata"]["name"])
            if (gvk, key) in wanted:
                raise ValueError(f"{gvk.kind} {key} is in the desired state twice")
            wanted[gvk, key] = None
            changed = await self._apply_if_needed(owner, gvk, key, intent)
            (changes.applied if changed else changes.unchanged).append(f"{gvk.kind} {key}")
        if self._prune:
            for gvk in self._kinds:
                await self._prune_kind(owner, gvk, wanted, changes)
        return changes

    def _declared(self, obj: Any) -> GroupVersionKind:
        kind: Any = kind_of(obj)
        gvk: GroupVersionKind = getattr(kind, "gvk", kind)
        if gvk not in self._kinds:
            raise ValueError(
                f"{gvk} is not among the kinds of this desired state: add it to owns=(...) of the operator's "
                "reconcile, or to kinds=[...] of the DesiredState"
            )
        return gvk

    def _intent(
        self, obj: Any, gvk: GroupVersionKind, owner: Any, reference: dict[str, Any]
    ) -> dict[str, Any]:
        """What is sent: the object as given, with its owner and, if it says none, the owner's namespace."""
        intent = {"apiVersion": gvk.api_version, "kind": gvk.kind, **to_dict(obj)}
        intent.pop("status", None)
        metadata = dict(intent.get("metadata") or {})
        if not metadata.get("name"):
            raise ValueError(f"an object of kind {gvk.kind} in the desired state has no name")
        owner_namespace = owner.metadata.namespace or ""
        if owner_namespace and metadata.setdefault("namespace", owner_namespace) != owner_namespace:
            raise OwnerError(
                f"{gvk.kind} {metadata['name']} is to be in namespace {metadata['namespace']!r}, "
                f"but what owns it is in {owner_namespace!r}: an owner has to be in the same one"
            )
        others = [each for each in metadata.get("ownerReferences") or () if each["uid"] != reference["uid"]]
        metadata["ownerReferences"] = [*others, reference]
        for name in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
            metadata.pop(name, None)
        intent["metadata"] = metadata
        return intent

    async def _apply_if_needed(
        self, owner: Any, gvk: GroupVersionKind, key: ObjectKey, intent: dict[str, Any]
    ) -> bool:
        digest = _digest(intent)
        known = self._applied.get((gvk, key))
        informer = await self._informer(gvk)
        if known is not None and known.intent == digest and self._is_as_applied(informer, key, known, intent):
            return False
        entry = informer.store.get(key)
        if entry is not None:
            held_by = controller_of(_Header(entry.header().metadata))
            if held_by is not None and held_by.uid != owner.metadata.uid:
                raise OwnerError(
                    f"{gvk.kind} {key} is controlled by {held_by.kind} {held_by.name} and not taken from it"
                )
        answer = await self._client.apply(intent, field_owner=self._field_owner, force=self._force)
        metadata = answer["metadata"]
        self._applied[gvk, key] = _Applied(
            digest,
            _number(metadata.get("resourceVersion")),
            metadata.get("generation") or 0,
            _digest(_projected(answer, intent)),
        )
        return True

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
        # Of the content nothing is known but its generation, where the kind counts one.
        generation = entry.header().metadata.generation or 0
        current = codec.loads(entry.raw)
        metadata_kept = _projected(current, {"metadata": intent["metadata"]}) == {
            "metadata": intent["metadata"]
        }
        return bool(generation) and generation == known.generation and metadata_kept

    async def _prune_kind(
        self,
        owner: Any,
        gvk: GroupVersionKind,
        wanted: dict[tuple[GroupVersionKind, ObjectKey], None],
        changes: EnsureResult,
    ) -> None:
        informer = await self._informer(gvk)
        for key, entry in list(informer.store.indexed("owner", owner.metadata.uid)):
            metadata = entry.header().metadata
            held_by = controller_of(_Header(metadata))
            ours = held_by is not None and held_by.uid == owner.metadata.uid
            if (gvk, key) in wanted or not ours or metadata.deletion_timestamp is not None:
                continue
            try:
                await self._client.delete(
                    gvk,
                    key.name,
                    namespace=key.namespace or None,
                    preconditions=Preconditions(uid=entry.uid),
                    propagation="Background",
                )
            except (NotFound, Conflict):
                # It is gone, or another object has its name now: neither is ours to delete.
                continue
            self._applied.pop((gvk, key), None)
            changes.pruned.append(f"{gvk.kind} {key}")

    async def _informer(self, gvk: GroupVersionKind) -> Informer:
        kind: AnyKind = self._kinds[gvk]
        if gvk.group_kind in RESTRICTED_KINDS:
            kind = metadata_of(kind) if not isinstance(kind, MetadataKind) else kind
        informer = self._cache.existing_informer(gvk) or await self._cache.informer(kind)
        if self._informers.get(gvk) is not informer:
            self._informers[gvk] = informer
            informer.add_handler(self._forget_deleted(gvk))
        if not informer.has_synced:
            await informer.wait_for_sync()
        return informer

    def _forget_deleted(self, gvk: GroupVersionKind) -> Callable[[ObjectChange], None]:
        def handler(change: ObjectChange) -> None:
            if change.new is None:
                self._applied.pop((gvk, change.key), None)

        return handler


class _Header:
    """Metadata as an object that has it."""

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata


def _projected(current: Any, intent: Any) -> Any:
    """What `current` has where `intent` says something; lists are taken whole."""
    if isinstance(intent, dict) and isinstance(current, dict):
        return {name: _projected(current.get(name), value) for name, value in intent.items()}
    return current


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(_encode(value), digest_size=16).digest()


def _number(resource_version: str | None) -> int:
    return int(resource_version) if resource_version and resource_version.isdecimal() else 0
