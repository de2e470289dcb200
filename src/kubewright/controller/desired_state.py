"""Desired state: the objects that an owner should have; others that it controls are deleted.

    desired = DesiredState(client, cache, kinds=[Deployment, Service], field_owner="guestbook")

    async def reconcile(guestbook: Guestbook) -> None:
        await desired.ensure(guestbook, [deployment_for(guestbook), service_for(guestbook)])

Objects are written with server-side apply: the controller owns only the fields that it sends, and a field
that it no longer sends is removed. Each object gets an owner reference. After everything has been applied,
objects of the declared kinds that the owner controls and that are not in the list are deleted, with their uid
as a precondition.

An existing object that has no controlling owner is not changed, unless the controller applied it before
(its field manager is in `managedFields`) or `adopt=True`; an object that another owner controls never is.

Nothing is written if nothing changed. `DesiredState` remembers what it applied and what the server returned,
and compares that with the cache, so that changes by other clients are reverted. After a restart everything is
applied once; the server does not create a new version if there is no difference.
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
from kubewright.api.meta import MetaObject, OwnerReference, Preconditions
from kubewright.api.owners import OwnerError, controller_of, owner_reference
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, by_owner
from kubewright.cache.informer import Informer
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.store import ObjectChange, ObjectKey
from kubewright.client import Client
from kubewright.client.decoding import kind_of
from kubewright.client.kind_types import AnyKind, MetadataKind, metadata_of
from kubewright.client.patches import to_dict

_encode = msgspec.json.Encoder(order="deterministic").encode

OwnedKind = type[MetaObject] | GroupVersionKind


@dataclass(frozen=True, slots=True)
class EnsureResult:
    """Objects that `ensure` applied, left unchanged or deleted, as `Kind namespace/name`.

    It is true if anything was applied or deleted.
    """

    applied: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

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


class DesiredState:
    """Applies the objects that owners should have; one instance for all owners of a controller.

    Permissions: list, watch, patch, create and delete of the declared kinds, and update of the owner's
    finalizers if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        kinds: Sequence[OwnedKind],
        field_owner: str,
        force: bool = True,
        prune: bool = True,
    ) -> None:
        """`kinds`: the kinds that `ensure` may apply and delete. `force`: take over fields of other managers.

        Of Secrets and ConfigMaps only metadata is cached, unless the cache is configured otherwise.
        """
        if not field_owner:
            raise ValueError("DesiredState requires a field_owner: the name of the controller")
        self._client = client
        self._uncached: Client = getattr(client, "uncached", client)
        self._cache = cache
        self._field_owner = field_owner
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
        self._informers: dict[GroupVersionKind, Informer] = {}

    async def ensure(
        self,
        owner: MetaObject | Unstructured,
        objects: Iterable[MetaObject | Unstructured | dict[str, Any]],
        *,
        adopt: bool = False,
    ) -> EnsureResult:
        """Apply these objects for the owner and delete others of the declared kinds that it controls.

        Objects are applied in order; after an error nothing is deleted. `adopt`: take over existing objects
        that have no controlling owner; by default they raise an `AdoptionError`.
        """
        check_object_list(objects)
        result = EnsureResult()
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
                raise ValueError(f"{gvk.kind} {key} is in the list of desired objects twice")
            wanted[gvk, key] = None
            changed = await self._apply_if_needed(owner, gvk, key, intent, adopt) is not None
            (result.applied if changed else result.unchanged).append(f"{gvk.kind} {key}")
        if self._prune:
            for gvk in self._kinds:
                await self._prune_kind(owner, gvk, wanted, result)
        return result

    def _declared(self, obj: Any) -> GroupVersionKind:
        kind: Any = kind_of(obj)
        gvk: GroupVersionKind = getattr(kind, "gvk", kind)
        if gvk not in self._kinds:
            raise ValueError(
                f"{gvk} is not a declared kind; add it to owns=(...) of the operator's reconcile, or to "
                "kinds=[...] of the DesiredState"
            )
        return gvk

    def _intent(
        self, obj: Any, gvk: GroupVersionKind, owner: Any, reference: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the object to apply: as given, with the owner reference and a namespace."""
        intent = apply_configuration(obj, gvk)
        metadata = intent["metadata"]
        owner_namespace = owner.metadata.namespace or ""
        if owner_namespace and metadata.setdefault("namespace", owner_namespace) != owner_namespace:
            raise OwnerError(
                f"{gvk.kind} {metadata['name']} is in namespace {metadata['namespace']!r}, but its owner is "
                f"in {owner_namespace!r}; an owner must be in the same namespace"
            )
        add_owner_reference(metadata, reference)
        return intent

    async def _apply_if_needed(
        self, owner: Any, gvk: GroupVersionKind, key: ObjectKey, intent: dict[str, Any], adopt: bool
    ) -> Any:
        """Return the response of the API server, or `None` if the object did not have to be applied."""
        digest = _digest(intent)
        known = self._applied.get((gvk, key))
        informer = await self._informer(gvk)
        if self._cache.on_read is not None:
            self._cache.report_read("get", gvk, key.namespace, key.name)
        if known is not None and known.intent == digest and self._is_as_applied(informer, key, known, intent):
            return None
        await self._check_owner(owner, informer, gvk, key, adopt=adopt or known is not None)
        response: Any = await self._client.apply(intent, field_owner=self._field_owner, force=self._force)
        metadata = response["metadata"]
        self._applied[gvk, key] = _Applied(
            digest,
            _number(metadata.get("resourceVersion")),
            metadata.get("generation") or 0,
            _digest(_projected(response, intent)),
        )
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
            each.manager == self._field_owner and each.operation == "Apply"
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

    async def _prune_kind(
        self,
        owner: Any,
        gvk: GroupVersionKind,
        wanted: dict[tuple[GroupVersionKind, ObjectKey], None],
        result: EnsureResult,
    ) -> None:
        informer = await self._informer(gvk)
        if self._cache.on_read is not None:
            self._cache.report_read("list", gvk, owner.metadata.namespace or "", "")
        for key, entry in list(informer.store.indexed("owner", owner.metadata.uid)):
            metadata = entry.header().metadata
            current_owner = controller_of(_Header(metadata))
            controlled = current_owner is not None and current_owner.uid == owner.metadata.uid
            if (gvk, key) in wanted or not controlled or metadata.deletion_timestamp is not None:
                continue
            if await self._delete_if_unchanged(gvk, key, Preconditions(uid=entry.uid)):
                self._applied.pop((gvk, key), None)
                result.deleted.append(f"{gvk.kind} {key}")

    async def _delete_if_unchanged(
        self, gvk: GroupVersionKind, key: ObjectKey, preconditions: Preconditions
    ) -> bool:
        """Delete an object; return `False` if it was deleted already or the preconditions do not hold."""
        try:
            await self._client.delete(
                gvk,
                key.name,
                namespace=key.namespace or None,
                preconditions=preconditions,
                propagation="Background",
            )
        except (NotFound, Conflict):
            # It was deleted, or another object has its name now.
            return False
        return True

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
            if change.new is None:
                self._applied.pop((gvk, change.key), None)

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


def add_owner_reference(metadata: dict[str, Any], reference: dict[str, Any]) -> None:
    """Add an owner reference to the metadata of an object, or replace that of the same owner."""
    others = [each for each in metadata.get("ownerReferences") or () if each["uid"] != reference["uid"]]
    metadata["ownerReferences"] = [*others, reference]


def _check_controller(gvk: GroupVersionKind, key: ObjectKey, current: OwnerReference, owner: Any) -> None:
    if current.uid != owner.metadata.uid:
        raise OwnerError(f"{gvk.kind} {key} is already controlled by {current.kind} {current.name}")


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
