"""Creating and updating objects: the steps between a decoded body and a stored one.

See `resource` for the order. An update is a loop around a compare-and-swap: read the live object, work out
the new one, try to store it, and start over if somebody else was faster (unless the client named a
version).
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import (
    MODIFIED,
    APIError,
    already_exists,
    conflict,
    generate_name_conflict,
    invalid,
    not_found,
)
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.api.names import generate_name
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.conversion import NoConversion
from kubewright.apiserver.encoding.request_body import check_namespace
from kubewright.apiserver.objects import Object, current_timestamp, deep_copy
from kubewright.apiserver.strategy import Operation
from kubewright.patch import keep_times_if_unchanged
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import validate_common_metadata, validate_metadata
from kubewright.storage.contract import KeyExists, KeyValue, RevisionMismatch

from .metadata import metadata_update_errors, restore_metadata
from .object_schema import fill, prune, schema_errors
from .owner_references import drop_repeated_owners
from .validation import validate_object

if TYPE_CHECKING:
    from .store import ResourceStore

_SYSTEM_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
GENERATE_ATTEMPTS = 8
UPDATE_ATTEMPTS = 20

Compute = Callable[[Object | None], Awaitable[Object]]


async def settle(result: Any) -> Any:
    """The result of a hook that may be async."""
    return await result if inspect.isawaitable(result) else result


def admission_request(
    store: ResourceStore, op: Operation, operation: Any, obj: Object | None, old: Object | None
) -> AdmissionAttributes:
    """What plug-ins see of a write."""
    resource = store.resource

    async def convert(value: Object, version: str) -> Object:
        return await store.convert(value, op.version.name, version)

    def renew(value: Object) -> None:
        prune(value, op.version)
        fill(value, op.version, resource)

    return AdmissionAttributes(
        operation=operation,
        user=op.user,
        resource=GroupVersionResource(resource.group, op.version.name, resource.plural),
        subresource=op.subresource,
        kind=resource.gvk(op.version.name),
        namespace=op.namespace,
        name=op.name,
        object=obj,
        old_object=old,
        options=op.options,
        dry_run=op.dry_run,
        definition=resource,
        version=op.version,
        warnings=op.warnings,
        request=op.request,
        convert=convert,
        renew=renew,
    )


async def create(store: ResourceStore, op: Operation, obj: Object, *, own_fields: bool = True) -> Object:
    """Create an object (given in the requested version, which is also what comes back).

    `own_fields` is false where managedFields are already right (apply).
    """
    try:
        return await _create(store, op, obj, own_fields)
    except BaseException:
        await op.undo()
        raise


async def _create(store: ResourceStore, op: Operation, obj: Object, own_fields: bool) -> Object:
    resource, strategy, server = store.resource, store.resource.strategy, store.server
    if resource.accepting_writes is not None:
        refusal = resource.accepting_writes()
        if refusal is not None:
            raise refusal
    metadata: Object = obj["metadata"]
    for field in _SYSTEM_FIELDS:
        metadata.pop(field, None)
    if resource.namespaced:
        metadata["namespace"] = op.namespace
    else:
        metadata.pop("namespace", None)
    drop_repeated_owners(op, metadata)
    _check_convertible(store, op, obj, None)
    if strategy.track_managed_fields and own_fields:
        now = datetime.now(UTC)
        sent = obj
        obj = await store.own(
            op.version, op.subresource, lambda owner: owner.update(None, sent, op.field_manager, now)
        )
        metadata = obj["metadata"]
    admission = server.admission
    question: AdmissionAttributes | None = None
    if admission.has_mutating or admission.has_validating:
        question = admission_request(store, op, "CREATE", obj, None)
        if admission.has_mutating and await admission.mutate(question):
            assert question.object is not None
            obj = question.object
            fill(obj, op.version, resource)
            check_namespace(obj, op.namespace)
            metadata = obj["metadata"]
            drop_repeated_owners(op, metadata, admitted=True)
    prefix = "" if metadata.get("name") else metadata.get("generateName") or ""
    if prefix:
        metadata["name"] = generate_name(prefix)
    op.name = metadata.get("name") or ""
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = current_timestamp()
    hub = resource.hub_version or op.version.name
    if hub != op.version.name:
        obj = await store.convert(obj, op.version.name, hub)
        metadata = obj["metadata"]
    if "status" in op.version.subresources and not strategy.status_on_create:
        for field in strategy.status_fields:
            obj.pop(field, None)
    _show(store, hub, obj)
    prepared = strategy.prepare_for_create(op, obj)
    if prepared is not None:
        await prepared
    generation = strategy.initial_generation(obj)
    if generation is not None:
        metadata["generation"] = generation
    errors = []
    if obj.get("kind") == resource.kind:
        errors = validate_metadata(
            metadata, "metadata", namespaced=resource.namespaced, name_rule=strategy.validate_name
        )
        errors += strategy.validate_finalizers(metadata.get("finalizers") or ())
    errors += await validate_object(op, obj, None, hub)
    if errors:
        raise _invalid(store, obj, errors)
    for text in strategy.warnings(op, obj, None):
        op.warn(text)
    strategy.canonicalize(obj)
    if question is not None and admission.has_validating:
        question.name = op.name
        question.object = (
            obj if hub == op.version.name else await store.convert(dict(obj), hub, op.version.name)
        )
        await admission.validate(question)
    if metadata.get("resourceVersion"):
        raise APIError("resourceVersion should not be set on objects to be created", code=500)
    revision, value = 0, b""
    for attempt in range(GENERATE_ATTEMPTS):
        key = store.key(op.namespace, op.name)
        try:
            if op.dry_run:
                taken = await store.storage.get(key)
                if taken is not None:
                    raise KeyExists(taken)
            if not op.dry_run or store.converts(op):
                value = await store.pack(obj, hub)
            if not op.dry_run:
                revision = store.written = await store.storage.create(key, value, ttl=strategy.ttl)
            break
        except KeyExists as error:
            if prefix and attempt + 1 < GENERATE_ATTEMPTS:
                op.name = metadata["name"] = generate_name(prefix)
                continue
            if prefix:
                raise generate_name_conflict(resource.group_resource, op.name) from None
            live = store.layout.unpack(error.current.value, error.current.mod_revision)
            deleting = "deletionTimestamp" in live["metadata"]
            raise already_exists(resource.group_resource, op.name, deleting=deleting) from None
    if revision:
        metadata["resourceVersion"] = str(revision)
        await settle(strategy.stored(op, obj, None))
    if store.converts(op):
        return await store.echo(op, value, revision)
    return obj if hub == op.version.name else await store.convert(obj, hub, op.version.name)


def _show(store: ResourceStore, version: str, obj: Object) -> None:
    for field, empty in _version(store, version).shown.items():
        if field not in obj:
            obj[field] = deep_copy(empty)


def _check_convertible(store: ResourceStore, op: Operation, obj: Object, old: Object | None) -> None:
    """Converters may rely on the schema: what breaks it is refused before they see it."""
    if not isinstance(store.resource.converter, NoConversion):
        errors = schema_errors(obj, old, op.version, op)
        if errors:
            raise _invalid(store, obj, errors)


def _invalid(store: ResourceStore, obj: Object, errors: list[FieldError]) -> APIError:
    group = store.resource.strategy.error_group
    if group is None:
        group = GroupVersion.parse(obj["apiVersion"]).group if store.resource.custom else store.resource.group
    kind = GroupKind(group, obj.get("kind") or store.resource.kind)
    return invalid(kind, obj["metadata"].get("name") or "", errors)


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """Another kind that stands for an object in front of admission: the Scale of a Deployment."""

    kind: GroupVersionKind
    show: Callable[[Object], Object]
    """The other kind's object for one of ours."""
    take_off: Callable[[Object, Object], Object]
    """Our object, with what admission changed in the other."""

    def put_on(self, question: AdmissionAttributes, new: Object, live: Object) -> None:
        """Let a question be about the other kind."""
        question.kind = self.kind
        question.object, question.old_object = self.show(new), self.show(live)
        question.definition = question.version = question.convert = question.renew = None


async def update(
    store: ResourceStore,
    op: Operation,
    compute: Compute,
    *,
    conditional: bool = False,
    create_missing: bool = False,
    may_create: Callable[[], Awaitable[None]] | None = None,
    own_fields: bool = True,
    guise: AdmissionView | None = None,
) -> tuple[Object, bool]:
    """Replace an object by what `compute(live)` makes of it; returns it (requested version) and whether it
    is new.

    `conditional` is for PUT: the new object must name the version it replaces where the strategy says so.
    `own_fields` is false where `compute` has worked out managedFields itself (apply). `guise` is how
    admission sees the object, where the subresource speaks another kind.
    """
    resource = store.resource
    for _ in range(UPDATE_ATTEMPTS):
        item = await store.storage.get(store.key(op.namespace, op.name))
        if item is None:
            if not create_missing:
                raise not_found(resource.group_resource, op.name)
            if may_create is not None:
                await may_create()
            new = await compute(None)
            if conditional and new["metadata"].get("uid"):
                raise uid_conflict(store, op, new["metadata"]["uid"], "")
            new["metadata"].pop("resourceVersion", None)
            creation = Operation(
                "create",
                resource,
                op.version,
                op.namespace,
                op.name,
                op.subresource,
                op.user,
                op.dry_run,
                op.options,
                op.request,
                op.warnings,
                op.field_manager,
            )
            try:
                made = create(store, creation, new) if own_fields else create_applied(store, creation, new)
                return await made, True
            except APIError as error:
                if error.status_reason == "AlreadyExists":
                    continue
                raise
        try:
            return await _replace(store, op, item, compute, conditional, own_fields, guise), False
        except RevisionMismatch:
            await op.undo()
        except BaseException:
            await op.undo()
            raise
    raise conflict(resource.group_resource, op.name, MODIFIED)


async def create_applied(store: ResourceStore, op: Operation, obj: Object) -> Object:
    """Create through apply, which has already said who owns what."""
    uid = obj["metadata"].get("uid")
    if uid:
        raise conflict(
            store.resource.group_resource,
            op.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
        )
    return await create(store, op, obj, own_fields=False)


def uid_conflict(store: ResourceStore, op: Operation, wanted: str, found: str) -> APIError:
    """409 for an update of what is another object by now."""
    place = f"{store.server.prefix}{store.resource.shown_prefix}/"
    key = place + store.key(op.namespace, op.name).removeprefix(store.prefix)
    return conflict(
        store.resource.group_resource,
        op.name,
        f"StorageError: invalid object, Code: 4, Key: {key}, "
        "ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: "
        f"{found}",
    )


async def _replace(
    store: ResourceStore,
    op: Operation,
    item: KeyValue,
    compute: Compute,
    conditional: bool,
    own_fields: bool,
    guise: AdmissionView | None,
) -> Object:
    resource, strategy, server = store.resource, store.resource.strategy, store.server
    live = await store.load(item, op.version)
    new = await compute(live)
    old_metadata, metadata = live["metadata"], new["metadata"]
    if conditional and metadata.get("uid") and metadata["uid"] != old_metadata["uid"]:
        raise uid_conflict(store, op, metadata["uid"], old_metadata["uid"])
    if op.verb == "update":
        drop_repeated_owners(op, metadata)
    _check_convertible(store, op, new, live)
    if strategy.track_managed_fields and own_fields:
        now = datetime.now(UTC)
        sent = new
        new = await store.own(
            op.version, op.subresource, lambda owner: owner.update(live, sent, op.field_manager, now)
        )
        metadata = new["metadata"]
    admission = server.admission
    question: AdmissionAttributes | None = None
    if admission.has_mutating or admission.has_validating:
        question = admission_request(store, op, "UPDATE", new, live)
        if guise is not None:
            guise.put_on(question, new, live)
        if admission.has_mutating and await admission.mutate(question):
            assert question.object is not None
            new = question.object if guise is None else guise.take_off(question.object, new)
            fill(new, op.version, resource)
            check_namespace(new, op.namespace)
            metadata = new["metadata"]
    drop_repeated_owners(op, metadata, admitted=True)
    _check_version(store, op, metadata, item, conditional)
    hub, old = resource.hub_version or op.version.name, live
    if hub != op.version.name:
        new = await store.convert(new, op.version.name, hub)
        old = await store.load(item, _version(store, hub))
        metadata = new["metadata"]
    restore_metadata(metadata, old["metadata"], namespaced=resource.namespaced)
    if op.subresource in strategy.status_subresources:
        pass
    elif "status" in op.version.subresources:
        for field in strategy.status_fields:
            if field in old:
                new[field] = old[field]
            else:
                new.pop(field, None)
    prepared = strategy.prepare_for_update(op, new, old)
    if prepared is not None:
        await prepared
    generation = old["metadata"].get("generation")
    if op.subresource not in strategy.status_subresources and strategy.generation_changes(op, new, old):
        generation = (generation or 0) + 1
    if generation is not None:
        metadata["generation"] = generation
    else:
        metadata.pop("generation", None)
    errors = metadata_update_errors(metadata, old["metadata"], 2 if strategy.rechecks_metadata else 1)
    finalizers = metadata.get("finalizers") or ()
    if strategy.checks_whole_on_update and not op.subresource:
        errors += validate_common_metadata(metadata, "metadata")
        errors += strategy.validate_finalizers(finalizers)
    errors += strategy.validate_finalizers(finalizers)
    errors += await validate_object(op, new, old, hub)
    if errors:
        raise _invalid(store, new, errors)
    for text in strategy.warnings(op, new, old):
        op.warn(text)
    strategy.canonicalize(new)
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    new = keep_times_if_unchanged(old, new)
    if question is not None and admission.has_validating:
        question.object = (
            new if hub == op.version.name else await store.convert(dict(new), hub, op.version.name)
        )
        if guise is not None:
            question.object = guise.show(question.object)
        await admission.validate(question)
    if new is not old:
        new = await _swap(store, op, item, new, old, hub)
    return new if hub == op.version.name else await store.convert(dict(new), hub, op.version.name)


async def _swap(
    store: ResourceStore, op: Operation, item: KeyValue, new: Object, old: Object, hub: str
) -> Object:
    strategy, metadata = store.resource.strategy, new["metadata"]
    finished = (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and strategy.may_vanish(new)
    )
    if finished:
        if not op.dry_run:
            store.written = await store.storage.delete(item.key, expected=item.mod_revision)
            await settle(strategy.deleted(op, new))
        return new
    value = await store.pack(new, hub)
    revision = item.mod_revision
    if value != item.value and not op.dry_run:
        revision = await store.storage.update(item.key, value, expected=item.mod_revision, ttl=strategy.ttl)
        store.written = revision
        metadata["resourceVersion"] = str(revision)
        await settle(strategy.stored(op, new, old))
    return await store.echo(op, value, revision) if store.converts(op) else new


def _version(store: ResourceStore, name: str) -> Any:
    return store.resource.version(name)


def _check_version(
    store: ResourceStore, op: Operation, metadata: Object, item: KeyValue, conditional: bool
) -> None:
    resource = store.resource
    given = metadata.get("resourceVersion")
    if not given or given == "0":
        if (conditional or op.verb == "patch") and not resource.strategy.allow_unconditional_update:
            error = fe.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(GroupKind(resource.group, resource.plural), op.name, [error])
        return
    if not (given.isascii() and given.isdigit()):
        raise APIError(f'strconv.ParseUint: parsing "{given}": invalid syntax', code=500)
    if int(given) != item.mod_revision:
        raise conflict(resource.group_resource, op.name, MODIFIED)
