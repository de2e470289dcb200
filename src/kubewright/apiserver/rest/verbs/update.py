"""PUT, and the compare-and-swap loop behind every update.

An update reads the live object, computes the new one, and stores it if the live object is still current. If
another write came first, it starts over, unless the client named a resource version. In-process callers use
`store.updater` directly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kubewright.api.errors import MODIFIED, APIError, conflict, invalid, not_found
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.encoding.request_body import check_name, check_namespace
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.metadata import drop_duplicate_owners, metadata_update_errors, restore_metadata
from kubewright.apiserver.rest.options import parse_write_options
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.writer import (
    UPDATE_ATTEMPTS,
    ObjectWriter,
    add_warnings,
    maybe_await,
    validate_object,
)
from kubewright.patch import keep_times_if_unchanged
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import validate_common_metadata
from kubewright.storage.contract import KeyValue, RequestTooLarge, RevisionMismatch

ComputeObject = Callable[[Object | None], Awaitable[Object]]
"""Returns the new object for the live one (`None` if it does not exist), both in the requested version."""


class UpdateHandler:
    """Serves PUT of an object, or of a subresource that is stored with it."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Replace the object by the one in the body."""
        scope, subresource = self._scope, info.subresource
        response_format = scope.negotiate(request)
        options = parse_write_options(request, "UpdateOptions")
        body = await scope.decode_body(request, options.field_validation)
        op = scope.write_operation(request, info, "update", options, "UpdateOptions")
        check_name(body, op.name)
        check_namespace(body, op.namespace)
        used = False

        async def compute(live: Object | None) -> Object:
            nonlocal used
            new = deep_copy(body) if used else body
            used = True
            return scope.restrict_to_subresource(new, live, subresource)

        obj, created = await scope.store.updater.update(
            op,
            compute,
            replace=True,
            allow_create=scope.resource.strategy.allow_create_on_update and not subresource,
            authorize_create=scope.authorize(request, info, "create"),
        )
        return scope.respond(request, response_format, obj, 201 if created else 200)


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """The kind that admission sees instead of the stored one: the Scale of a Deployment."""

    kind: GroupVersionKind
    to_view: Callable[[Object], Object]
    """Returns the object of `kind` for a stored object."""
    from_view: Callable[[Object, Object], Object]
    """Returns the stored object with the changes that admission made to the view."""

    def apply_to(self, attributes: AdmissionAttributes, new: Object, live: Object) -> None:
        """Replace kind and objects of the attributes."""
        attributes.kind = self.kind
        attributes.object, attributes.old_object = self.to_view(new), self.to_view(live)
        attributes.definition = attributes.version = attributes.convert = attributes.renew = None


class Updater(ObjectWriter):
    """Updates the objects of one resource."""

    async def update(
        self,
        op: Operation,
        compute: ComputeObject,
        *,
        replace: bool = False,
        allow_create: bool = False,
        authorize_create: Callable[[], Awaitable[None]] | None = None,
        track_fields: bool = True,
        admission_view: AdmissionView | None = None,
    ) -> tuple[Object, bool]:
        """Store what `compute` returns; returns the object in the requested version, and whether it is new.

        `replace` is for PUT: uid and resource version of the new object are preconditions. `allow_create`
        creates a missing object after `authorize_create`. `track_fields` is false where `compute` sets
        `managedFields` itself (apply, scale).
        """
        for _ in range(UPDATE_ATTEMPTS):
            item = await self.store.storage.get(self.store.key(op.namespace, op.name))
            if item is None:
                if not allow_create:
                    raise not_found(self.resource.group_resource, op.name)
                if authorize_create is not None:
                    await authorize_create()
                created = await self._create(op, await compute(None), replace, track_fields)
                if created is not None:
                    return created, True
                continue
            try:
                return await self._replace(op, item, compute, replace, track_fields, admission_view), False
            except RevisionMismatch:
                await op.undo()
            except BaseException:
                await op.undo()
                raise
            finally:
                op.finish()
        raise conflict(self.resource.group_resource, op.name, MODIFIED)

    async def _create(self, op: Operation, new: Object, put: bool, track_fields: bool) -> Object | None:
        """Create the missing object; `None` if another client created it meanwhile."""
        if put and new["metadata"].get("uid"):
            raise self.uid_conflict(op, new["metadata"]["uid"], "")
        new["metadata"].pop("resourceVersion", None)
        creation = replace(op, verb="create", collective=False, _undo_steps=None, _finish_steps=None)
        creator = self.store.creator
        try:
            if track_fields:
                return await creator.create(creation, new)
            return await creator.create_applied(creation, new)
        except APIError as error:
            if error.status_reason == "AlreadyExists":
                return None
            raise

    async def _replace(
        self,
        op: Operation,
        item: KeyValue,
        compute: ComputeObject,
        put: bool,
        track_fields: bool,
        view: AdmissionView | None,
    ) -> Object:
        store, strategy = self.store, self.strategy
        if store.is_long(len(item.value)):
            op.is_long = True
        live = await store.load(item, op.version)
        new = await compute(live)
        self._check_uid(op, new["metadata"], live["metadata"], put)
        if op.verb == "update":
            drop_duplicate_owners(op, new["metadata"])
        await self.check_convertible(op, new, live)
        if track_fields and strategy.track_managed_fields:
            new = await self._track_fields(op, new, live)
        attributes: AdmissionAttributes | None = None
        if self.admission.enabled:
            attributes = self.admission_attributes(op, "UPDATE", new, live)
            new = await self._mutate(op, attributes, new, live, view)
        drop_duplicate_owners(op, new["metadata"], after_admission=True)
        self._check_version(op, new["metadata"], item, put)
        hub, old = self.hub_version(op), live
        if hub != op.version.name:
            new = await store.convert(new, op.version.name, hub)
            old = await store.load(item, self.version(hub))
        await self._prepare(op, new, old)
        await self._validate(op, new, old, hub)
        strategy.canonicalize(new)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = keep_times_if_unchanged(old, new)
        if attributes is not None and self.admission.has_validating:
            await self._validate_admission(op, attributes, new, hub, view)
        if new is not old or not self._is_stored_form(item):
            new = await self._store(op, item, new, old, hub, drops_fields=track_fields)
        return new if hub == op.version.name else await store.convert(dict(new), hub, op.version.name)

    def _is_stored_form(self, item: KeyValue) -> bool:
        """Whether an object is stored in the current storage version and schema, and with the current
        encryption key; others are rewritten even by a write that changes nothing."""
        current = item.value.startswith(self.store.codec.prefix)
        return (
            current
            and item.mod_revision > self.resource.schema_revision
            and not self.store.storage.is_stale(item)
        )

    def _check_uid(self, op: Operation, metadata: Object, live: Object, put: bool) -> None:
        if put and metadata.get("uid") and metadata["uid"] != live["uid"]:
            raise self.uid_conflict(op, metadata["uid"], live["uid"])

    async def _track_fields(self, op: Operation, new: Object, live: Object) -> Object:
        now = datetime.now(UTC)
        return await self.store.track_fields(
            op.version,
            op.subresource,
            lambda manager: manager.update(live, new, op.field_manager, now),
            is_long=op.is_long,
        )

    async def _mutate(
        self,
        op: Operation,
        attributes: AdmissionAttributes,
        new: Object,
        live: Object,
        view: AdmissionView | None,
    ) -> Object:
        if view is not None:
            view.apply_to(attributes, new, live)
        before = new["metadata"].get("managedFields")
        if not (self.admission.has_mutating and await self.admission.mutate(attributes)):
            return new
        assert attributes.object is not None
        new = attributes.object if view is None else view.from_view(attributes.object, new)
        if view is None:
            self.keep_managed_fields_valid(op, new, before)
        await self.set_defaults(op, new)
        check_namespace(new, op.namespace)
        return new

    def _check_version(self, op: Operation, metadata: Object, item: KeyValue, put: bool) -> None:
        resource = self.resource
        given = metadata.get("resourceVersion")
        if not given or given == "0":
            if (put or op.verb == "patch") and not self.strategy.allow_unconditional_update:
                error = fe.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(GroupKind(resource.group, resource.plural), op.name, [error])
            return
        if not (given.isascii() and given.isdigit()):
            raise APIError(f'strconv.ParseUint: parsing "{given}": invalid syntax', code=500)
        if int(given) != item.mod_revision:
            raise conflict(resource.group_resource, op.name, MODIFIED)

    async def _prepare(self, op: Operation, new: Object, old: Object) -> None:
        """Restore what clients cannot change, run the strategy's hook, count the generation."""
        strategy, metadata = self.strategy, new["metadata"]
        restore_metadata(metadata, old["metadata"], namespaced=self.resource.namespaced)
        writes_status = op.subresource in strategy.status_subresources
        if not writes_status and "status" in op.version.subresources:
            for field in strategy.status_fields:
                if field in old:
                    new[field] = old[field]
                else:
                    new.pop(field, None)
        prepared = strategy.prepare_for_update(op, new, old)
        if prepared is not None:
            await prepared
        generation = old["metadata"].get("generation")
        if not writes_status and strategy.generation_changes(op, new, old):
            generation = (generation or 0) + 1
        if generation is not None:
            metadata["generation"] = generation
        else:
            metadata.pop("generation", None)

    async def _validate(self, op: Operation, new: Object, old: Object, hub: str) -> None:
        strategy, metadata = self.strategy, new["metadata"]
        errors = metadata_update_errors(metadata, old["metadata"], 2 if strategy.rechecks_metadata else 1)
        finalizers = metadata.get("finalizers") or ()
        if strategy.checks_whole_on_update and not op.subresource:
            errors += validate_common_metadata(metadata, "metadata")
            errors += strategy.validate_finalizers(finalizers)
        errors += strategy.validate_finalizers(finalizers)
        errors += await validate_object(op, new, old, hub)
        if errors:
            raise self.invalid(new, errors)
        await add_warnings(op, new, old)

    async def _validate_admission(
        self,
        op: Operation,
        attributes: AdmissionAttributes,
        new: Object,
        hub: str,
        view: AdmissionView | None,
    ) -> None:
        shown = new if hub == op.version.name else await self.store.convert(dict(new), hub, op.version.name)
        attributes.object = shown if view is None else view.to_view(shown)
        await self.admission.validate(attributes)

    async def _store(
        self, op: Operation, item: KeyValue, new: Object, old: Object, hub: str, *, drops_fields: bool
    ) -> Object:
        """Write the object, or delete it if it is being deleted and this update removed the last
        finalizer. With `drops_fields`, an object that is too large is written without `managedFields`."""
        store, strategy, metadata = self.store, self.strategy, new["metadata"]
        finished = (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
            and strategy.may_be_removed(new)
        )
        if finished:
            if not op.dry_run:
                store.written = await op.commit(store.storage.delete(item.key, expected=item.mod_revision))
                await maybe_await(strategy.after_delete(op, new))
            return new
        value = await store.pack(new, hub)
        revision = item.mod_revision
        if (value != item.value or store.storage.is_stale(item)) and not op.dry_run:
            try:
                revision = await op.commit(
                    store.storage.update(item.key, value, expected=item.mod_revision, ttl=strategy.ttl)
                )
            except RequestTooLarge:
                if not (drops_fields and metadata.pop("managedFields", None)):
                    raise
                value = await store.pack(new, hub)
                revision = await op.commit(
                    store.storage.update(item.key, value, expected=item.mod_revision, ttl=strategy.ttl)
                )
            value = await store.written_value(item.key, value, revision)
            store.written = revision
            metadata["resourceVersion"] = str(revision)
            await maybe_await(strategy.after_store(op, new, old))
        return await store.load_written(self.version(hub), value, revision) if store.changes(op) else new
