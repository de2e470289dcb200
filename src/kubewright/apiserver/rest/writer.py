"""Steps that creates, updates and deletes share: admission, conversion, validation errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError, conflict, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionResource
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.resources.object_schema import apply_defaults, prune, schema_errors
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation, Strategy
from kubewright.apiserver.slices import run_in_worker
from kubewright.patch.managed_fields import ManagedFieldsError, decode
from kubewright.schema import field_errors as fe

if TYPE_CHECKING:
    from kubewright.apiserver.admission import AdmissionOperation

    from .store import ResourceStore

UPDATE_ATTEMPTS = 20
"""How often an update or delete without a resource version is tried when other writes come first."""


async def maybe_await(result: Any) -> Any:
    """Return the result of a hook that is a plain or an async function."""
    return await result if inspect.isawaitable(result) else result


def _name_in(obj: Object | None, operation: AdmissionOperation) -> str:
    """Return the name of an object that is created."""
    metadata = obj.get("metadata") if obj is not None and operation == "CREATE" else None
    return (metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _options(options: Object, operation: AdmissionOperation) -> Object | None:
    """Return the options that admission sees: a patch or replacement is an update or a create."""
    if operation == "CONNECT":
        return None
    wanted = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}.get(operation, "")
    if not wanted or options.get("kind") in (wanted, None):
        return options
    return {key: value for key, value in options.items() if key != "force"} | {"kind": wanted}


class ObjectWriter:
    """Base of `Creator`, `Updater` and `Deleter`; there is one of each per resource."""

    def __init__(self, store: ResourceStore) -> None:
        self.store = store
        self.resource = store.resource
        self.admission = store.server.admission

    @property
    def strategy(self) -> Strategy:
        """The strategy of the resource; that of a built-in kind is imported when it is first needed."""
        return self.resource.strategy

    def hub_version(self, op: Operation) -> str:
        """Return the version that hooks and validation see."""
        return self.resource.hub_version or op.version.name

    def version(self, name: str) -> Version:
        """Return a declared version."""
        version = self.resource.version(name)
        assert version is not None
        return version

    def admission_attributes(
        self, op: Operation, operation: AdmissionOperation, obj: Object | None, old: Object | None
    ) -> AdmissionAttributes:
        """Return what admission plug-ins see of a write."""
        store, resource = self.store, self.resource

        async def convert(value: Object, version: str) -> Object:
            return await store.convert(value, op.version.name, version)

        def prune_and_default(value: Object) -> None:
            prune(value, op.version)
            apply_defaults(value, op.version, resource)

        attributes = AdmissionAttributes(
            operation=operation,
            user=op.user,
            resource=GroupVersionResource(resource.group, op.version.name, resource.plural),
            subresource=op.subresource,
            kind=resource.gvk(op.version.name),
            namespace=op.namespace,
            name=op.name or _name_in(obj, operation),
            object=obj,
            old_object=old,
            options=_options(op.options, operation),
            dry_run=op.dry_run,
            definition=resource,
            version=op.version,
            served_resource=resource,
            warnings=op.warnings,
            request=op.request,
            convert=convert,
            renew=prune_and_default,
            on_finish=op.on_finish,
        )
        if op.request is not None and op.request.audit is not None:
            attributes.audit_annotations = op.request.audit.annotations
        return attributes

    async def check_convertible(self, op: Operation, obj: Object, old: Object | None) -> None:
        """Validate against the schema before conversion, if the converter requires valid objects."""
        if not getattr(self.resource.converter, "accepts_invalid_objects", False):
            errors = await find_schema_errors(op, obj, old, op.version)
            if errors:
                raise self.invalid(obj, errors)

    async def set_defaults(self, op: Operation, obj: Object) -> None:
        """Apply the defaults of the requested version."""
        if op.is_long:
            await run_in_worker(partial(apply_defaults, obj, op.version, self.resource))
        else:
            apply_defaults(obj, op.version, self.resource)

    def keep_managed_fields_valid(self, op: Operation, obj: Object, before: Any) -> None:
        """Restore `managedFields` from before mutating admission, with a warning, if it left them
        invalid."""
        after = obj["metadata"].get("managedFields")
        if after is before or after == before:
            return
        try:
            decode(after, trusted=False)
        except ManagedFieldsError as error:
            if before is None:
                obj["metadata"].pop("managedFields", None)
            else:
                obj["metadata"]["managedFields"] = before
            op.warn(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an "
                f"outdated mutating admission controller; please fix your requests: {error}"
            )

    def invalid(self, obj: Object, errors: list[FieldError]) -> APIError:
        """Return the 422 for validation errors."""
        group = self.strategy.error_group
        if group is None:
            group = (
                GroupVersion.parse(obj["apiVersion"]).group if self.resource.custom else self.resource.group
            )
        kind = GroupKind(group, obj.get("kind") or self.resource.kind)
        return invalid(kind, obj["metadata"].get("name") or "", errors)

    def uid_conflict(self, op: Operation, wanted: str, found: str) -> APIError:
        """Return the 409 for an update that names the uid of another object."""
        store = self.store
        return conflict(
            store.resource.group_resource,
            op.name,
            f"StorageError: invalid object, Code: 4, Key: {store.shown_key(op.namespace, op.name)}, "
            "ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: "
            f"{found}",
        )


async def find_schema_errors(
    op: Operation, obj: Object, old: Object | None, version: Version
) -> list[FieldError]:
    """Validate an object against the schema of a version."""
    if op.is_long:
        return await run_in_worker(partial(schema_errors, obj, old, version, op))
    return schema_errors(obj, old, version, op)


def _strategy_errors(op: Operation, obj: Object, old: Object | None) -> Any:
    """Return the errors of the strategy, or an awaitable for them."""
    strategy = op.resource.strategy
    found: Any = strategy.validate(op, obj) if old is None else strategy.validate_update(op, obj, old)
    return found if inspect.isawaitable(found) else list(found)


async def add_warnings(op: Operation, obj: Object, old: Object | None) -> None:
    """Add the strategy's warnings about a valid object."""
    strategy = op.resource.strategy
    if op.is_long:
        texts: Iterable[str] = await run_in_worker(lambda: list(strategy.warnings(op, obj, old)))
    else:
        texts = strategy.warnings(op, obj, old)
    for text in texts:
        op.warn(text)


async def validate_object(op: Operation, obj: Object, old: Object | None, version: str) -> list[FieldError]:
    """Validate an object of a version, except its metadata."""
    resource = op.resource
    api_version = str(GroupVersion(resource.group, version))
    errors = [
        fe.invalid(name, obj.get(name), f"must be {wanted}")
        for name, wanted in (("kind", resource.kind), ("apiVersion", api_version))
        if obj.get(name) != wanted
    ]
    if errors:
        return errors
    declared = resource.version(version)
    if declared is not None:
        errors = await find_schema_errors(op, obj, old, declared)
    found: Any
    if op.is_long:
        found = await run_in_worker(partial(_strategy_errors, op, obj, old))
    else:
        strategy = resource.strategy
        found = strategy.validate(op, obj) if old is None else strategy.validate_update(op, obj, old)
    if inspect.isawaitable(found):
        found = await found
    errors.extend(found)
    return errors
