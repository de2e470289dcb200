"""What the verb handlers of one endpoint share: negotiation, request bodies, operations, responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from kubewright.api.errors import BadRequest
from kubewright.api.gvk import GroupVersion
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision, forbidden
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, negotiate, respond
from kubewright.apiserver.encoding.representation import Representation
from kubewright.apiserver.encoding.request_body import decode_object, media_type
from kubewright.apiserver.encoding.yaml import decode_long_yaml
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.resources.subresource import StatusSubresource
from kubewright.apiserver.slices import run_in_worker

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

    from .options import WriteOptions
    from .store import ResourceStore


class EndpointScope:
    """One version of a resource on one server."""

    def __init__(self, server: APIServer, store: ResourceStore, version: Version) -> None:
        self.server = server
        self.store = store
        self.resource = store.resource
        self.version = version
        self.api_version = str(GroupVersion(store.resource.group, version.name))

    def namespace(self, info: RequestInfo) -> str:
        """Return the namespace of a request; empty for cluster-scoped resources."""
        return info.namespace if self.resource.namespaced else ""

    def negotiate(self, request: HTTPRequest, *, tables: bool = True) -> ResponseFormat:
        """Return the response format that the client accepts; raises `NotAcceptable`."""
        return negotiate(request, protobuf=self._serves_protobuf, tables=tables)

    @cached_property
    def _serves_protobuf(self) -> bool:
        return self.version.wire is not None

    def include_object(self, request: HTTPRequest, response_format: ResponseFormat) -> str:
        """Return how much of each object a Table contains: `None`, `Metadata` or `Object`."""
        if response_format.transform != "Table":
            return "Metadata"
        include = request.query.get("includeObject") or "Metadata"
        if include not in ("None", "Metadata", "Object"):
            raise BadRequest(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        return include

    def representation(self, request: HTTPRequest, response_format: ResponseFormat) -> Representation:
        """Return the representation of stored objects for a response."""
        return self.store.representation(
            self.version, response_format, self.include_object(request, response_format)
        )

    def go_type(self, kind: str) -> str:
        """Return the Go type of a kind of this resource, as error messages name it."""
        if self.resource.custom:
            return "*unstructured.Unstructured" + ("List" if kind == self.resource.list_kind else "")
        home = self.version.published_as.split(".")
        return f"*{home[-2]}.{kind}" if len(home) > 1 else kind

    async def read_body(self, request: HTTPRequest) -> bytes:
        """Return the request body; raises `RequestEntityTooLarge` above the limit of the resource.

        Long YAML is decoded in slices before it is returned.
        """
        data = await request.read(self.resource.body_limit or self.server.body_limit)
        return await decode_long_yaml(data) if "yaml" in request.headers.get("Content-Type", "") else data

    async def decode_body(self, request: HTTPRequest, field_validation: str) -> Object:
        """Decode the request body as an object of this version: checked, pruned and defaulted."""
        data = await self.read_body(request)
        decode = partial(
            decode_object,
            data,
            media_type(request),
            self.resource,
            self.version,
            validation=field_validation,
            warn=request.warn,
            wire=self.version.wire,
        )
        return await run_in_worker(decode) if self.store.is_long(len(data)) else decode()

    def operation(
        self,
        request: HTTPRequest,
        info: RequestInfo,
        verb: Literal["create", "update", "patch", "delete"],
        *,
        options: Object,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> Operation:
        """Return the write that a request asks for. The default field manager is the client's user agent."""
        return Operation(
            verb,
            self.resource,
            self.version,
            info.namespace if self.resource.namespaced else "",
            info.parts[1] if len(info.parts) > 1 else "",
            info.subresource,
            request.user,
            dry_run,
            options,
            request,
            request.warnings,
            field_manager or request.headers.get("User-Agent", "").partition("/")[0][:128] or "unknown",
            is_long=self.store.is_long(request.body_size),
        )

    def write_operation(
        self,
        request: HTTPRequest,
        info: RequestInfo,
        verb: Literal["create", "update", "patch"],
        options: WriteOptions,
        kind: str,
    ) -> Operation:
        """Return the create, update or patch with its options; `kind` is the kind of the options."""
        return self.operation(
            request,
            info,
            verb,
            options=options.to_object(kind),
            dry_run=options.dry_run,
            field_manager=options.field_manager,
        )

    def respond(
        self, request: HTTPRequest, response_format: ResponseFormat, obj: Object, status: int = 200
    ) -> HTTPResponse:
        """Return the response for an object of this version."""
        if response_format.transform:
            body = self.representation(request, response_format).dump(obj)
            return respond(request, response_format, body, status)
        return respond(request, response_format, encode(obj), status)

    def authorize(self, request: HTTPRequest, info: RequestInfo, verb: str) -> Callable[[], Awaitable[None]]:
        """Return a check that the user is allowed another verb: PUT and apply of a missing object create
        it."""

        async def check() -> None:
            attributes = AuthorizationAttributes.of(request.user, info)._replace(
                verb=verb, field_selector="", label_selector=""
            )
            decision, reason = await self.server.authorizer.authorize(attributes)
            if decision is not Decision.ALLOW:
                raise forbidden(attributes, reason)

        return check

    def restrict_to_subresource(self, new: Object, live: Object | None, subresource: str) -> Object:
        """Return what an update through a subresource is allowed to change: through `status`, the status."""
        if subresource != "status" or live is None:
            return new
        strategy = self.resource.strategy
        declared = self.version.subresources["status"]
        keeps = isinstance(declared, StatusSubresource) and declared.keeps_metadata
        merged = {key: value for key, value in live.items() if key not in strategy.status_fields}
        for field in strategy.status_fields:
            if field in new:
                merged[field] = new[field]
        metadata = dict(live["metadata"]) if keeps else new["metadata"]
        if keeps:
            for field in ("resourceVersion", "uid"):
                if field in new["metadata"]:
                    metadata[field] = new["metadata"][field]
                elif field == "resourceVersion":
                    metadata.pop(field, None)
            if "managedFields" in new["metadata"]:
                metadata["managedFields"] = new["metadata"]["managedFields"]
        merged["metadata"] = metadata
        return merged
