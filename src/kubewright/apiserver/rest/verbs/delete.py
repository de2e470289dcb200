"""DELETE: preconditions, grace periods, propagation, finalizers.

An object with finalizers or a grace period stays: it gets a deletionTimestamp and is removed with the update
that removes the last finalizer (`update`). Other objects are removed immediately; objects of kinds with
graceful deletion are first marked and then removed. In-process callers use `store.deleter` directly.

DELETE of an object that cannot be decoded, with `ignoreStoreReadErrorWithClusterBreakingPotential`. As in
kube-apiserver with the feature gate AllowUnsafeMalformedObjectDeletion: it requires the verb `unsafe-delete-
ignore-read-errors`, and skips finalizers, preconditions, admission and everything that follows a regular
deletion. For objects that can be decoded it is a conflict where the gate is enabled by default (since 1.37),
and without effect in earlier versions.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from kubewright.api.builtin.schemas import as_typed
from kubewright.api.builtin.typed_codec import TypedDecodeError
from kubewright.api.errors import (
    MODIFIED,
    APIError,
    BadRequest,
    NotFound,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupResource, GroupVersionKind
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.times import format_time
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.encoding.negotiation import PROTOBUF, ResponseFormat, encode, respond
from kubewright.apiserver.encoding.request_body import decode_plain, media_type, unreadable_type
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.options import IGNORE_READ_ERROR, DeletionOptions, parse_delete_options
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.writer import UPDATE_ATTEMPTS, ObjectWriter, maybe_await
from kubewright.storage.contract import KeyValue, RevisionMismatch

from .list import ListHandler

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_DELETE_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")


class DeleteHandler:
    """Serves DELETE of an object."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Delete the object; respond with it if it stays, otherwise with a Status."""
        scope = self._scope
        response_format = scope.negotiate(request)
        options = await read_delete_options(scope, request)
        if options.ignore_read_error:
            response = await UnsafeDeleteHandler(scope).handle(request, info, response_format)
            if response is not None:
                return response
        op = scope.operation(request, info, "delete", options=options.to_object(), dry_run=options.dry_run)
        scope.resource.strategy.before_delete_request(op)
        obj, removed = await scope.store.deleter.delete(op, options)
        # Clients that asked for cascading deletion learn whether it is complete.
        code = 202 if not removed and options.orphan_dependents is False else 200
        if not removed or scope.resource.strategy.returns_deleted_object:
            return scope.respond(request, response_format, obj, code)
        details: Object = {"name": op.name, "group": scope.resource.group, "kind": scope.resource.plural}
        details["uid"] = obj["metadata"].get("uid", "")
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }
        return respond(request, response_format, encode(status))


class DeleteCollectionHandler:
    """Serves DELETE of a collection."""

    def __init__(self, scope: EndpointScope, lister: ListHandler) -> None:
        self._scope = scope
        self._lister = lister

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Delete the selected objects one by one; respond with those that existed."""
        scope = self._scope
        response_format = scope.negotiate(request)
        options = await read_delete_options(scope, request)
        if options.ignore_read_error:
            why = "is not allowed with DELETECOLLECTION, try again after removing the option"
            raise invalid(
                GroupKind("meta.k8s.io", "DeleteOptions"),
                "",
                [FieldError.invalid(IGNORE_READ_ERROR, True, why)],
            )
        scope.resource.strategy.before_delete_request(self._operation(request, info, options))
        page, _ = await self._lister.read_page(request, info)
        items = []
        for item in page.items:
            op = self._operation(request, info, options)
            op.name, op.collective = item.key.rpartition("/")[2], True
            try:
                await scope.store.deleter.delete(op, options)
            except NotFound:
                continue
            items.append(item)
            await asyncio.sleep(0)  # a storage in memory does not wait
        metadata = self._lister.list_metadata(info, page)
        if scope.resource.custom and not response_format.transform:
            metadata.setdefault("continue", "")
        representation = scope.representation(request, response_format)
        return await self._lister.respond(request, response_format, representation, items, metadata)

    def _operation(self, request: HTTPRequest, info: RequestInfo, options: DeletionOptions) -> Operation:
        return self._scope.operation(
            request, info, "delete", options=options.to_object(), dry_run=options.dry_run
        )


async def read_delete_options(scope: EndpointScope, request: HTTPRequest) -> DeletionOptions:
    """Read the DeleteOptions of the body, or of the query if there is no body."""
    data = await scope.read_body(request)
    if not data.strip():
        return parse_delete_options(request, None)
    try:
        body = _decode_delete_options(scope, data, media_type(request))
    except BadRequest as error:
        if scope.server.kubernetes_version.includes("-1.34"):
            raise APIError(error.message) from None
        raise
    return parse_delete_options(request, body)


def _decode_delete_options(scope: EndpointScope, data: bytes, media: str) -> Object:
    wire = scope.server.delete_options_wire if media == PROTOBUF else None
    try:
        body, _ = decode_plain(data, media, "DeleteOptions", wire)
    except BadRequest as error:
        text = error.message.partition("(must be of type DeleteOptions): ")[2].rpartition(" (")[0]
        raise BadRequest(text or error.message) from None
    body = {} if body is None else body
    if not isinstance(body, dict):
        raise BadRequest(unreadable_type(body))
    kind, api_version = body.get("kind") or "DeleteOptions", body.get("apiVersion") or "v1"
    if kind != "DeleteOptions":
        scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"')
    try:
        decoded: Object = as_typed(_DELETE_OPTIONS, body)
    except TypedDecodeError as error:
        raise BadRequest(str(error)) from None
    return decoded


class Deleter(ObjectWriter):
    """Deletes the objects of one resource."""

    async def delete(
        self, op: Operation, options: DeletionOptions, *, admit: bool = True
    ) -> tuple[Object, bool]:
        """Delete one object; returns its last state in the requested version, and whether it was removed.

        `admit` is false where the server deletes on its own account and admission must not reject it.
        """
        store = self.store
        for _ in range(UPDATE_ATTEMPTS):
            item = await store.storage.get(store.key(op.namespace, op.name))
            if item is None:
                raise not_found(self.resource.group_resource, op.name)
            try:
                return await self._delete(op, item, options, admit and self.admission.enabled)
            except RevisionMismatch:
                continue
        raise conflict(self.resource.group_resource, op.name, MODIFIED)

    async def _delete(
        self, op: Operation, item: KeyValue, options: DeletionOptions, admit: bool
    ) -> tuple[Object, bool]:
        store, strategy = self.store, self.strategy
        version = self.version(self.hub_version(op))
        obj = await store.load(item, version)
        self.check_preconditions(op, obj, options)
        if admit:
            await self._admit(op, item)
        before = dict(obj["metadata"])
        self._mark_deleted(op, obj["metadata"], obj, options)
        metadata = obj["metadata"]
        await maybe_await(strategy.before_delete(op, obj))
        if (
            metadata.get("finalizers")
            or metadata.get("deletionGracePeriodSeconds")
            or not strategy.may_be_removed(obj)
        ):
            if metadata != before and not op.dry_run:
                await self._store_marked(op, item, obj, version.name)
            return await store.convert(obj, version.name, op.version.name), False
        revision = item.mod_revision
        if strategy.graceful and metadata != before:
            # kube-apiserver stores the grace period of zero first: watchers see both events.
            if not op.dry_run:
                value = await store.pack(obj, version.name)
                revision = await store.storage.update(item.key, value, expected=revision, ttl=strategy.ttl)
                item = KeyValue(item.key, value, item.create_revision, revision)
            if admit:
                await self._admit(op, item)
        if not op.dry_run:
            store.written = await store.storage.delete(item.key, expected=revision)
            await maybe_await(strategy.after_delete(op, obj))
            before["resourceVersion"] = metadata["resourceVersion"] = str(store.written)
        if not strategy.graceful:
            obj["metadata"] = before
        return await store.convert(obj, version.name, op.version.name), True

    def _mark_deleted(self, op: Operation, metadata: Object, obj: Object, options: DeletionOptions) -> None:
        """Set deletion time, grace period and the finalizers of the propagation policy."""
        strategy = self.strategy
        pending = "deletionTimestamp" in metadata
        grace = max_grace = 0
        if strategy.graceful:
            requested = options.grace_period
            if requested is not None and requested < 0:
                requested = 1
            grace = strategy.grace_period(op, obj, requested)
            if pending:
                max_grace = metadata.get("deletionGracePeriodSeconds") or 0
                grace = min(grace, max_grace)
        finalizers = list(metadata.get("finalizers") or ())
        if not (pending and grace and not finalizers):
            finalizers = propagation_finalizers(finalizers, options, strategy.default_propagation)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if not pending:
            moment = datetime.now(UTC) + timedelta(seconds=grace)
            metadata["deletionTimestamp"] = format_time(moment) if grace else current_timestamp()
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        elif strategy.graceful and grace < max_grace:
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = format_time(datetime.now(UTC) + timedelta(seconds=grace))

    async def _store_marked(self, op: Operation, item: KeyValue, obj: Object, version: str) -> None:
        store = self.store
        value = await store.pack(obj, version)
        if value != item.value:
            revision = await store.storage.update(
                item.key, value, expected=item.mod_revision, ttl=self.strategy.ttl
            )
            store.written = revision
            obj["metadata"]["resourceVersion"] = str(revision)
            await maybe_await(self.strategy.after_store(op, obj, obj))

    async def _admit(self, op: Operation, item: KeyValue) -> None:
        attributes = self.admission_attributes(op, "DELETE", None, await self.store.load(item, op.version))
        if op.collective:
            attributes.name = ""
        await self.admission.mutate(attributes)
        await self.admission.validate(attributes)

    def check_preconditions(self, op: Operation, obj: Object, options: DeletionOptions) -> None:
        """Raise `Conflict` if the object does not have the uid and resource version of the options."""
        metadata, resource = obj["metadata"], self.resource
        for what, wanted, found, why in (
            ("UID", options.uid, metadata.get("uid"), "deleted and then recreated"),
            ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
        ):
            if wanted is None or wanted == found:
                continue
            if self.strategy.custom_delete_preconditions:
                text = (
                    f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                )
                raise conflict(resource.group_resource, op.name, text)
            group = self.strategy.error_group
            raise conflict(
                GroupResource(resource.group if group is None else group, resource.kind),
                op.name,
                f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
                f"The object might have been {why}",
            )


def propagation_finalizers(finalizers: list[str], options: DeletionOptions, default: str) -> list[str]:
    """Return the finalizers after the propagation policy of a deletion is applied."""
    policy = options.propagation
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if default == "Unsupported":
        policy = "Background"
    elif policy is None:
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = default
    result = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        result.append(ORPHAN)
    elif policy == "Foreground":
        result.append(FOREGROUND)
    return result


logger = logging.getLogger("kubewright.apiserver")

VERB = "unsafe-delete-ignore-read-errors"
_ANNOTATION = "apiserver.k8s.io/unsafe-delete-ignore-read-error"


class UnsafeDeleteHandler:
    """Deletes an object from storage that cannot be decoded."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(
        self, request: HTTPRequest, info: RequestInfo, response_format: ResponseFormat
    ) -> HTTPResponse | None:
        """Delete the object if it cannot be decoded; `None` for other objects. Raises `Forbidden`."""
        scope = self._scope
        resource, store = scope.resource, scope.store
        name, namespace = info.parts[1], scope.namespace(info)
        key = store.key(namespace, name)
        for _ in range(UPDATE_ATTEMPTS):
            item, error = await store.storage.get_stored(key)
            if not serving_version().enables("AllowUnsafeMalformedObjectDeletion") and error is None:
                return None
            request.annotate(_ANNOTATION, "")
            await self._authorize(request, info)
            if item is None:
                raise not_found(resource.group_resource, name)
            if error is None:
                raise conflict(
                    resource.group_resource,
                    name,
                    f"StorageError: invalid object, Code: 4, Key: {store.shown_key(namespace, name)}, "
                    "ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the "
                    "object is decodable from storage",
                )
            try:
                store.written = await store.storage.delete(key, expected=item.mod_revision)
                break
            except RevisionMismatch:
                continue
        else:
            raise conflict(resource.group_resource, name, MODIFIED)
        logger.warning("deleted an object that cannot be decoded", extra={"key": key})
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": name, "kind": resource.kind},
            "code": 200,
        }
        return respond(request, response_format, encode(status))

    async def _authorize(self, request: HTTPRequest, info: RequestInfo) -> None:
        resource, name = self._scope.resource.group_resource, info.name
        if info.subresource:
            why = f"{IGNORE_READ_ERROR} delete option is not allowed on a subresource or non-resource request"
            raise forbidden(resource, name, why)
        attributes = AuthorizationAttributes.of(request.user, info)._replace(verb=VERB, path="")
        decision, reason = await self._scope.server.authorizer.authorize(attributes)
        if decision is not Decision.ALLOW:
            raise forbidden(resource, name, f'not permitted to do "{VERB}", reason: {reason}')
