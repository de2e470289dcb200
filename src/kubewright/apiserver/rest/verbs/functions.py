"""Verbs and subresources that a function serves instead of storage.

The function receives a `SubresourceRequest` with the decoded body, after admission, and returns an object or
an `HTTPResponse`. Admission and validation of an update or patch see the current object, which the `get`
function or storage returns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from kubewright.api.errors import BadRequest, NotFound, not_found
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, respond
from kubewright.apiserver.encoding.request_body import (
    check_namespace,
    decode_builtin,
    decode_plain,
    media_type,
)
from kubewright.apiserver.encoding.tables import TablePrinter
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.object_schema import apply_defaults
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.resource import APPLY_PATCH
from kubewright.apiserver.resources.subresource import Subresource, SubresourceRequest
from kubewright.apiserver.rest.options import parse_write_options
from kubewright.apiserver.rest.patch_body import PatchBody
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.rest.writer import validate_object

from .patch import Patching, patch_media_type

_WRITES: dict[str, Literal["create", "update", "patch", "delete"]] = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


_ADMISSION_OPERATIONS: dict[str, Literal["CREATE", "UPDATE", "DELETE"]] = {
    "create": "CREATE",
    "update": "UPDATE",
    "patch": "UPDATE",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


class _FunctionHandler:
    """What function handlers of verbs and of subresources share."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def _decode_any(self, request: HTTPRequest, kind: str, wire: Any) -> Object | None:
        """Decode a body without checking it against a schema; `None` if it is empty."""
        data = await self._scope.read_body(request)
        if not data:
            return None
        body, _ = decode_plain(data, media_type(request), kind, wire)
        if body is not None and not isinstance(body, dict):
            raise BadRequest(f"the object provided is unrecognized (must be of type {kind})")
        return body

    def _subresource_request(
        self, request: HTTPRequest, info: RequestInfo, body: Object | None, verb: str
    ) -> SubresourceRequest:
        scope = self._scope
        options = parse_write_options(request, "CreateOptions") if request.method in ("POST", "PUT") else None
        op = scope.operation(
            request,
            info,
            _WRITES.get(request.method, verb),  # type: ignore[arg-type] # for reads, that of the request
            options=options.to_object("CreateOptions") if options is not None else {},
            dry_run=options.dry_run if options is not None else False,
            field_manager=options.field_manager if options is not None else "",
        )
        return SubresourceRequest(
            request=request,
            resource=scope.resource,
            version=scope.version,
            store=scope.store,
            namespace=op.namespace,
            name=op.name,
            subresource=info.subresource,
            path="/".join(info.parts[3:]),
            body=body,
            operation=op,
        )

    async def _admit_create(
        self,
        call: SubresourceRequest,
        kind: GroupVersionKind | None,
        prepare: Callable[[SubresourceRequest], Awaitable[None]] | None = None,
    ) -> None:
        """Run admission for a POST; `kind` is the kind of the body where it is not that of the resource,
        `prepare` runs between mutating and validating plug-ins."""
        admission = self._scope.server.admission
        if not admission.enabled:
            if prepare is not None:
                await prepare(call)
            return
        attributes = self._scope.store.creator.admission_attributes(call.operation, "CREATE", call.body, None)
        if kind is not None:
            attributes.kind = kind
            attributes.definition = attributes.version = attributes.convert = attributes.renew = None
        await admission.mutate(attributes)
        call.body = attributes.object
        if prepare is not None:
            await prepare(call)
            attributes.object = call.body
        await admission.validate(attributes)


class FunctionVerbHandler(_FunctionHandler):
    """Serves one verb of a resource with a function of `Resource.handlers`."""

    def __init__(self, scope: EndpointScope, verb: str) -> None:
        super().__init__(scope)
        self._verb = verb

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Call the function and encode its result."""
        scope, verb, resource = self._scope, self._verb, self._scope.resource
        response_format = scope.negotiate(request, tables=verb in ("get", "list") or resource.custom)
        if resource.custom and verb == "patch":
            call = await self._prepare_patch(request, info)
        else:
            body = await self._body(request)
            call = self._subresource_request(request, info, body, verb)
            if resource.custom:
                await self._prepare_custom(call)
            elif verb == "create" and body is not None:
                await self._prepare_create(call, body)
        result: Any
        if resource.custom and call.operation.dry_run:
            result = call.object or {}
        else:
            result = await resource.handlers[verb](call)
        if isinstance(result, HTTPResponse):
            return result
        if verb == "watch":
            return HTTPResponse(200, stream=_encode_events(result, response_format))
        if response_format.transform == "Table":
            include = scope.include_object(request, response_format)
            printer = TablePrinter(resource, scope.version, include)
            rows = result["items"] if verb == "list" else [result]
            table = printer.table(rows, result.get("metadata") or {})
            return respond(request, response_format, encode(table))
        status = 201 if verb == "create" else 200
        return respond(request, response_format, encode(_transform(response_format, result)), status)

    async def _body(self, request: HTTPRequest) -> Object | None:
        scope = self._scope
        if self._verb in ("get", "list", "watch"):
            return None
        if scope.resource.custom and self._verb not in ("create", "update"):
            return await self._decode_any(request, "DeleteOptions", scope.server.delete_options_wire)
        validation = parse_write_options(request, "CreateOptions").field_validation
        return await scope.decode_body(request, validation)

    async def _prepare_custom(self, call: SubresourceRequest) -> None:
        """Admit and validate a create, update or deletion. A dry run of a create or update ends after this;
        others are rejected, because the function would write."""
        operation = _ADMISSION_OPERATIONS.get(self._verb)
        if operation is None:
            return
        body = call.body
        if operation == "DELETE":
            if "dryRun" in call.request.query or (body or {}).get("dryRun"):
                raise BadRequest(f"{self._scope.resource.plural} do not support dry run of {self._verb}")
            if self._verb == "delete":
                call.old_object = await self._read_current(call)
            await self._admit(call, operation, None)
            return
        assert body is not None
        check_namespace(body, call.namespace)
        if call.namespace:
            body["metadata"]["namespace"] = call.namespace
        else:
            body["metadata"].pop("namespace", None)
        if operation == "UPDATE":
            call.old_object = await self._read_current(call)
        await self._admit(call, operation, body)
        call.body = call.object
        await self._validate(call)

    async def _prepare_patch(self, request: HTTPRequest, info: RequestInfo) -> SubresourceRequest:
        """Apply a patch to the current object, admit and validate the result."""
        scope = self._scope
        media = patch_media_type(request, scope.resource)
        options = parse_write_options(request, "PatchOptions", apply=media == APPLY_PATCH)
        patch = PatchBody(media, await scope.read_body(request), scope.version.schema)
        call = self._subresource_request(request, info, patch.body, "patch")
        call.operation = scope.write_operation(request, info, "patch", options, "PatchOptions")
        call.old_object = await self._read_current(call)
        if call.old_object is None:
            raise not_found(scope.resource.group_resource, call.name)
        patching = Patching(scope, request, call.operation, patch, options)
        await self._admit(call, "UPDATE", await patching.compute(call.old_object))
        await self._validate(call)
        return call

    async def _read_current(self, call: SubresourceRequest) -> Object | None:
        """Return the object of an update, patch or deletion."""
        resource = self._scope.resource
        function = resource.handlers.get("get")
        try:
            if function is None:
                return await call.get() if "get" in resource.verbs else None
            found = await function(replace(call, body=None))
        except NotFound:
            return None
        if isinstance(found, HTTPResponse):
            if found.status != 200 or not found.body:
                return None
            found = msgspec.json.decode(found.body)
        current: Object = deep_copy(found)
        return current

    async def _validate(self, call: SubresourceRequest) -> None:
        assert call.object is not None
        errors = await validate_object(call.operation, call.object, call.old_object, self._scope.version.name)
        if errors:
            raise self._scope.store.creator.invalid(call.object, errors)

    async def _admit(
        self,
        call: SubresourceRequest,
        operation: Literal["CREATE", "UPDATE", "DELETE"],
        obj: Object | None,
    ) -> None:
        """Run admission; the result of mutation becomes the object of the call."""
        scope = self._scope
        call.object = obj
        admission = scope.server.admission
        if not admission.enabled:
            return
        attributes = scope.store.creator.admission_attributes(call.operation, operation, obj, call.old_object)
        if obj is not None:
            if await admission.mutate(attributes) and attributes.object is not None:
                call.object = attributes.object
                apply_defaults(call.object, scope.version, scope.resource)
            attributes.object = call.object
        await admission.validate(attributes)

    async def _prepare_create(self, call: SubresourceRequest, body: Object) -> None:
        """Apply what every created object gets, stored or not: namespace, managedFields, admission."""
        check_namespace(body, call.namespace)
        if call.namespace:
            body["metadata"]["namespace"] = call.namespace
        else:
            body["metadata"].pop("namespace", None)
        op, now = call.operation, datetime.now(UTC)
        call.body = await self._scope.store.track_fields(
            self._scope.version, "", lambda manager: manager.update(None, body, op.field_manager, now)
        )
        await self._admit_create(call, None)


class FunctionSubresourceHandler(_FunctionHandler):
    """Serves a subresource with its `handler` function."""

    def __init__(self, scope: EndpointScope, declared: Subresource) -> None:
        super().__init__(scope)
        self._declared = declared

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Call the function and encode its result."""
        scope, declared = self._scope, self._declared
        response_format = ResponseFormat() if declared.connects else scope.negotiate(request, tables=False)
        call = self._subresource_request(request, info, await self._body(request), info.verb)
        if declared.connects:
            await self._admit_connect(call)
        elif request.method == "POST" and declared.kind is not None and call.body is not None:
            metadata = call.body.get("metadata")
            if isinstance(metadata, dict):
                check_namespace(call.body, call.namespace)
                if call.namespace:
                    metadata["namespace"] = call.namespace
            if declared.default is not None:
                declared.default(call.body)
            await self._admit_create(call, declared.kind, declared.prepare)
        assert declared.handler is not None
        result = await declared.handler(call)
        if isinstance(result, HTTPResponse):
            return result
        status = declared.status_code if request.method == "POST" else 200
        return respond(request, response_format, encode(_transform(response_format, result)), status)

    async def _body(self, request: HTTPRequest) -> Object | None:
        scope, declared = self._scope, self._declared
        if not declared.decodes or request.method not in ("POST", "PUT"):
            return None
        if declared.checks is not None and declared.kind is not None:
            return decode_builtin(
                await scope.read_body(request),
                media_type(request),
                scope.resource,
                declared,
                validation=parse_write_options(request, "CreateOptions").field_validation,
                warn=request.warn,
            )
        kind = declared.kind.kind if declared.kind is not None else scope.resource.kind
        return await self._decode_any(request, kind, declared.wire)

    async def _admit_connect(self, call: SubresourceRequest) -> None:
        admission = self._scope.server.admission
        if admission.enabled:
            kind = self._declared.kind
            options = _connect_options(self._declared, call)
            attributes = self._scope.store.creator.admission_attributes(
                call.operation, "CONNECT", options, None
            )
            if kind is not None:
                attributes.kind = kind
                attributes.definition = attributes.version = attributes.convert = attributes.renew = None
            await admission.mutate(attributes)
            await admission.validate(attributes)


def _connect_options(declared: Subresource, call: SubresourceRequest) -> Object:
    """Return the options object of a CONNECT request (PodExecOptions), decoded from the query."""
    kind, query = declared.kind, call.request.query.values
    options: Object = {"kind": kind.kind, "apiVersion": str(kind.group_version)} if kind is not None else {}
    for name, type_ in declared.connect_fields:
        values = query.get(name) or []
        if type_ == "path":
            path = f"/{call.path}" if call.path else ""
            value: Any = f"{path}/" if call.request.path.endswith("/") and not path.endswith("/") else path
        elif type_ == "boolean":
            value = call.request.query.is_true(name)
        elif type_ == "strings":
            value = list(values)
        elif type_ == "integers":
            value = [_port_number(text) for each in values for text in each.split(",")]
        else:
            value = values[0] if values else ""
        if value:
            options[name] = value
    return options


def _port_number(text: str) -> int:
    reason = "" if text.isascii() and text.isdecimal() else "invalid syntax"
    if not reason and int(text) > 0xFFFF:
        reason = "value out of range"
    if reason:
        raise BadRequest(f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": {reason}')
    return int(text)


async def _encode_events(
    events: AsyncIterator[tuple[str, Object]], response_format: ResponseFormat
) -> AsyncIterator[bytes]:
    """Encode the events of a `watch` function, one per line."""
    async for type_, obj in events:
        yield encode({"type": type_, "object": _transform(response_format, obj)}) + b"\n"


def _transform(response_format: ResponseFormat, result: Object) -> Object:
    if response_format.transform == "PartialObjectMetadataList":
        api_version = f"meta.k8s.io/{response_format.version}"
        item_format = response_format._replace(transform="PartialObjectMetadata")
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": api_version,
            "metadata": result.get("metadata") or {},
            "items": [_transform(item_format, item) for item in result.get("items") or ()],
        }
    if response_format.transform == "PartialObjectMetadata":
        api_version = f"meta.k8s.io/{response_format.version}"
        metadata = result.get("metadata") or {}
        return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}
    return result
