"""POST: from a request body to a stored object.

`CreateHandler` reads the request, `Creator` takes the object through the steps that
`kubewright.apiserver.resources.resource` lists. In-process callers use `store.creator` directly.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kubewright.api.errors import APIError, already_exists, conflict, generate_name_conflict
from kubewright.api.values.names import generate_name
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.encoding.request_body import check_namespace
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.objects import Object, current_timestamp, deep_copy, new_uid
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.metadata import drop_duplicate_owners
from kubewright.apiserver.rest.options import parse_write_options
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.writer import ObjectWriter, add_warnings, maybe_await, validate_object
from kubewright.schema.validation.metadata import validate_metadata
from kubewright.storage.contract import KeyExists, KeyValue, RequestTooLarge

_SYSTEM_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
GENERATE_NAME_ATTEMPTS = 8


class CreateHandler:
    """Serves POST to a collection."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Create the object in the body."""
        scope = self._scope
        response_format = scope.negotiate(request)
        options = parse_write_options(request, "CreateOptions")
        obj = await scope.decode_body(request, options.field_validation)
        op = scope.write_operation(request, info, "create", options, "CreateOptions")
        op.name = ""
        check_namespace(obj, op.namespace)
        created = await scope.store.creator.create(op, obj)
        return scope.respond(request, response_format, created, 201)


class Creator(ObjectWriter):
    """Creates the objects of one resource."""

    async def create(self, op: Operation, obj: Object, *, track_fields: bool = True) -> Object:
        """Create an object of the requested version; returns it in that version, as it was stored.

        `track_fields` is false where `managedFields` are already final (apply).
        """
        try:
            self._check_accepting_writes()
            self._reset_system_fields(op, obj)
            await self.check_convertible(op, obj, None)
            if track_fields and self.strategy.track_managed_fields:
                obj = await self._track_fields(op, obj)
            attributes: AdmissionAttributes | None = None
            if self.admission.enabled:
                attributes = self.admission_attributes(op, "CREATE", obj, None)
                obj = await self._mutate(op, attributes, obj)
            prefix = self._assign_identity(op, obj["metadata"])
            hub = self.hub_version(op)
            if hub != op.version.name:
                obj = await self.store.convert(obj, op.version.name, hub)
            await self._prepare(op, obj, hub)
            await self._validate(op, obj, hub)
            self.strategy.canonicalize(obj)
            if attributes is not None and self.admission.has_validating:
                await self._validate_admission(op, attributes, obj, hub)
            return await self._store(op, obj, hub, prefix, drops_fields=track_fields)
        except BaseException:
            await op.undo()
            raise
        finally:
            op.finish()

    async def create_applied(self, op: Operation, obj: Object) -> Object:
        """Create through apply, which has already set `managedFields`."""
        uid = obj["metadata"].get("uid")
        if uid:
            raise conflict(
                self.resource.group_resource,
                op.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
            )
        return await self.create(op, obj, track_fields=False)

    def _check_accepting_writes(self) -> None:
        if self.resource.accepting_writes is not None:
            error = self.resource.accepting_writes()
            if error is not None:
                raise error

    def _reset_system_fields(self, op: Operation, obj: Object) -> None:
        """Remove what only the server sets, and set the namespace of the request."""
        metadata: Object = obj["metadata"]
        for field in _SYSTEM_FIELDS:
            metadata.pop(field, None)
        if self.resource.namespaced:
            metadata["namespace"] = op.namespace
        else:
            metadata.pop("namespace", None)
        drop_duplicate_owners(op, metadata)

    async def _track_fields(self, op: Operation, obj: Object) -> Object:
        now = datetime.now(UTC)
        return await self.store.track_fields(
            op.version,
            op.subresource,
            lambda manager: manager.update(None, obj, op.field_manager, now),
            is_long=op.is_long,
        )

    async def _mutate(self, op: Operation, attributes: AdmissionAttributes, obj: Object) -> Object:
        before = obj["metadata"].get("managedFields")
        if not (self.admission.has_mutating and await self.admission.mutate(attributes)):
            return obj
        assert attributes.object is not None
        obj = attributes.object
        self.keep_managed_fields_valid(op, obj, before)
        await self.set_defaults(op, obj)
        check_namespace(obj, op.namespace)
        drop_duplicate_owners(op, obj["metadata"], after_admission=True)
        return obj

    def _assign_identity(self, op: Operation, metadata: Object) -> str:
        """Set name, uid and creation time; returns the prefix of a generated name."""
        prefix = "" if metadata.get("name") else metadata.get("generateName") or ""
        if prefix:
            metadata["name"] = generate_name(prefix)
        op.name = metadata.get("name") or ""
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = current_timestamp()
        return prefix

    async def _prepare(self, op: Operation, obj: Object, hub: str) -> None:
        strategy = self.strategy
        if "status" in op.version.subresources and not strategy.status_on_create:
            for field in strategy.status_fields:
                obj.pop(field, None)
        for field, empty in self.version(hub).shown.items():
            if field not in obj:
                obj[field] = deep_copy(empty)
        prepared = strategy.prepare_for_create(op, obj)
        if prepared is not None:
            await prepared
        generation = strategy.initial_generation(obj)
        if generation is not None:
            obj["metadata"]["generation"] = generation

    async def _validate(self, op: Operation, obj: Object, hub: str) -> None:
        strategy, metadata = self.strategy, obj["metadata"]
        errors = []
        if obj.get("kind") == self.resource.kind:
            errors = validate_metadata(
                metadata, "metadata", namespaced=self.resource.namespaced, name_rule=strategy.validate_name
            )
            errors += strategy.validate_finalizers(metadata.get("finalizers") or ())
        errors += await validate_object(op, obj, None, hub)
        if errors:
            raise self.invalid(obj, errors)
        await add_warnings(op, obj, None)

    async def _validate_admission(
        self, op: Operation, attributes: AdmissionAttributes, obj: Object, hub: str
    ) -> None:
        attributes.name = op.name
        attributes.object = obj
        if hub != op.version.name:
            attributes.object = await self.store.convert(dict(obj), hub, op.version.name)
        await self.admission.validate(attributes)

    async def _store(
        self, op: Operation, obj: Object, hub: str, prefix: str, *, drops_fields: bool
    ) -> Object:
        """Write the object, with another generated name if one is taken; returns it in the requested
        version. With `drops_fields`, an object that is too large is written without `managedFields`."""
        store, metadata = self.store, obj["metadata"]
        given = metadata.get("resourceVersion") or ""
        if not op.dry_run and given.isascii() and given.isdigit() and given.strip("0"):
            raise APIError("resourceVersion should not be set on objects to be created", code=500)
        revision, value = 0, b""
        for attempt in range(GENERATE_NAME_ATTEMPTS):
            key = store.key(op.namespace, op.name)
            try:
                if op.dry_run:
                    existing = await store.storage.get(key)
                    if existing is not None:
                        raise KeyExists(existing)
                if not op.dry_run or store.changes(op):
                    value = await store.pack(obj, hub)
                if not op.dry_run:
                    try:
                        revision = await op.commit(store.storage.create(key, value, ttl=self.strategy.ttl))
                    except RequestTooLarge:
                        if not (drops_fields and metadata.pop("managedFields", None)):
                            raise
                        value = await store.pack(obj, hub)
                        revision = await op.commit(store.storage.create(key, value, ttl=self.strategy.ttl))
                    store.written = revision
                    value = await store.written_value(key, value, revision)
                break
            except KeyExists as error:
                if not prefix or attempt + 1 == GENERATE_NAME_ATTEMPTS:
                    raise self._exists(op, error.current, prefix) from None
                op.name = metadata["name"] = generate_name(prefix)
        if revision:
            metadata["resourceVersion"] = str(revision)
            await maybe_await(self.strategy.after_store(op, obj, None))
        if store.changes(op):
            return await store.load_written(op.version, value, revision)
        return obj if hub == op.version.name else await store.convert(obj, hub, op.version.name)

    def _exists(self, op: Operation, existing: KeyValue, prefix: str) -> APIError:
        if prefix:
            return generate_name_conflict(self.resource.group_resource, op.name)
        live = self.store.codec.unpack(existing.value, existing.mod_revision)
        deleting = "deletionTimestamp" in live["metadata"]
        return already_exists(self.resource.group_resource, op.name, deleting=deleting)
