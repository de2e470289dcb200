"""The verbs of one resource at one version: from a routed request to a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubewright.api.builtin_schemas import as_typed
from kubewright.api.errors import (
    APIError,
    BadRequest,
    MethodNotAllowed,
    NotFound,
    method_not_allowed,
    not_found,
)
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.typed_codec import TypedDecodeError
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision, forbidden
from kubewright.apiserver.encoding.negotiation import PROTOBUF, ResponseFormat, encode, negotiate, respond
from kubewright.apiserver.encoding.request_body import (
    check_name,
    check_namespace,
    media_type,
    read_object,
    read_plain,
    unreadable_type,
)
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, page_not_found
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.objects import Object, deep_copy
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.subresource import ScaleSubresource, StatusSubresource

from . import delete as deletion
from . import writes
from .handlers import answer_subresource, answer_verb
from .list import collect, list_collection, list_metadata
from .options import parse_delete_options, parse_version, parse_write_options
from .patch import patch_object
from .scale import serve_scale
from .watch import watch_collection

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

    from .store import ResourceStore


class ResourceEndpoint:
    """One version of a resource."""

    def __init__(self, server: APIServer, store: ResourceStore, version: Version) -> None:
        self.server = server
        self.store = store
        self.resource = store.resource
        self.version = version
        self.plain = store.representation(version)
        self.warning = deprecation_warning(store.resource, version) if version.deprecated else ""
        self._verbs = frozenset(store.resource.verbs)

    @cached_property
    def _handled_reads(self) -> frozenset[str]:
        """Reads that a function answers instead of storage."""
        return frozenset(self.resource.handlers).intersection(("get", "list"))

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Answer a request for this resource."""
        resource, parts = self.resource, info.parts
        if request.method == "HEAD" and not resource.custom:
            raise no_such_method()
        if info.verb == "proxy":
            raise NotFound("the server could not find the requested resource", details={})
        if info.verb == "watch" and request.method != "GET":
            raise no_such_method()
        if self.warning:
            request.warn(self.warning)
        if len(parts) > 2:
            return await self._subresource(request, info)
        verb, named = info.verb, len(parts) == 2
        if (info.namespace != "") != resource.namespaced and not self._namespace_optional(info, named):
            return self._misplaced()
        if not named and verb not in ("list", "watch", "create", "deletecollection"):
            if resource.custom and verb:
                raise BadRequest("name must be provided")
            raise no_such_method()
        if verb not in self._verbs:
            if resource.custom and verb:
                raise method_not_allowed(resource.group_resource, verb)
            if named and self._verbs == {"create"}:
                raise NotFound("the server could not find the requested resource", details={})
            raise no_such_method()
        if named and verb != "create":
            _check_segment(parts[1])
        if verb in self._handled_reads:
            return await answer_verb(self, request, info, verb)
        if verb == "get":
            return await self._get(request, info)
        if verb == "list":
            return await list_collection(self, request, info)
        if verb == "watch":
            return await watch_collection(self, request, info)
        if verb in resource.handlers:
            return await answer_verb(self, request, info, verb)
        if verb == "create":
            if named and not resource.custom:
                raise no_such_method()
            return await self._create(request, info)
        if verb == "update":
            return await self._update(request, info, "")
        if verb == "patch":
            return await patch_object(self, request, info, "")
        if verb == "delete":
            return await self._delete(request, info)
        return await self._delete_collection(request, info)

    def _namespace_optional(self, info: RequestInfo, named: bool) -> bool:
        """Lists and watches go across namespaces; a namespace's own path names itself."""
        if self.resource.namespaced:
            return not named and info.verb in ("list", "watch")
        return info.resource == "namespaces" and info.parts[0] == "namespaces"

    def _misplaced(self) -> HTTPResponse:
        """A namespaced resource without a namespace, or the other way round."""
        if self.resource.custom:
            return page_not_found()
        if self.resource.namespaced:
            raise no_such_method()
        raise NotFound("the server could not find the requested resource", details={})

    def accepted(self, request: HTTPRequest, *, tables: bool = True) -> ResponseFormat:
        """The representation that a request wants."""
        return negotiate(request, protobuf=not self.resource.custom, tables=tables)

    def go_type(self, kind: str) -> str:
        """What a Go server calls the type of a kind of this resource."""
        if self.resource.custom:
            return "*unstructured.Unstructured" + ("List" if kind == self.resource.list_kind else "")
        home = self.version.published_as.split(".")
        return f"*{home[-2]}.{kind}" if len(home) > 1 else kind

    def include(self, request: HTTPRequest, accepted: ResponseFormat) -> str:
        """How much of each object a Table carries."""
        if accepted.transform != "Table":
            return "Metadata"
        include = request.query.get("includeObject") or "Metadata"
        if include not in ("None", "Metadata", "Object"):
            raise BadRequest(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        return include

    async def _get(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        accepted = self.accepted(request)
        if request.query:
            wanted = parse_version(request.query.get("resourceVersion"))
            if wanted:
                await self.server.dispatcher.wait_for_storage_revision(wanted, self.server.freshness_timeout)
        item = await self.store.read(info.namespace if self.resource.namespaced else "", info.parts[1])
        if accepted.transform == "PartialObjectMetadataList":
            if self.resource.custom:
                raise APIError("content is not a list", code=500)
            raise _not_a_list(self.go_type(self.resource.kind))
        representation = self.store.representation(self.version, accepted, self.include(request, accepted))
        return respond(request, accepted, await representation.one(item.value, item.mod_revision))

    def operation(self, request: HTTPRequest, info: RequestInfo, verb: Any, **options: Any) -> Operation:
        """The write that a request asks for."""
        return Operation(
            verb,
            self.resource,
            self.version,
            info.namespace if self.resource.namespaced else "",
            info.parts[1] if len(info.parts) > 1 else "",
            info.subresource,
            request.user,
            options.get("dry_run", False),
            options.get("options", {}),
            request,
            request.warnings,
            options.get("manager")
            or request.headers.get("User-Agent", "").partition("/")[0][:128]
            or "unknown",
        )

    def answer(
        self, request: HTTPRequest, accepted: ResponseFormat, obj: Object, status: int = 200
    ) -> HTTPResponse:
        """An object of the requested version as a response."""
        if accepted.transform:
            representation = self.store.representation(
                self.version, accepted, self.include(request, accepted)
            )
            return respond(request, accepted, representation.dump(obj), status)
        return respond(request, accepted, encode(obj), status)

    async def body(self, request: HTTPRequest) -> bytes:
        """The bytes of the body, within the limit."""
        return await request.read(self.resource.body_limit or self.server.body_limit)

    async def _sent(
        self, request: HTTPRequest, info: RequestInfo, verb: str
    ) -> tuple[ResponseFormat, Object, Operation]:
        """What a client wants back, the object that it sent whole, and the write that this makes."""
        accepted = self.accepted(request)
        kind = "CreateOptions" if verb == "create" else "UpdateOptions"
        options = parse_write_options(request, kind)
        obj = read_object(
            await self.body(request),
            media_type(request),
            self.resource,
            self.version,
            validation=options.field_validation,
            warn=request.warn,
            wire=self.version.wire,
        )
        op = self.operation(
            request,
            info,
            verb,
            dry_run=options.dry_run,
            options=options.to_object(kind),
            manager=options.field_manager,
        )
        return accepted, obj, op

    async def _create(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        accepted, obj, op = await self._sent(request, info, "create")
        op.name = ""
        check_namespace(obj, op.namespace)
        return self.answer(request, accepted, await writes.create(self.store, op, obj), 201)

    async def _update(self, request: HTTPRequest, info: RequestInfo, subresource: str) -> HTTPResponse:
        accepted, body, op = await self._sent(request, info, "update")
        check_name(body, op.name)
        check_namespace(body, op.namespace)
        used = False

        async def compute(live: Object | None) -> Object:
            nonlocal used
            new = deep_copy(body) if used else body
            used = True
            return self.isolate(new, live, subresource)

        strategy = self.resource.strategy
        obj, created = await writes.update(
            self.store,
            op,
            compute,
            conditional=True,
            create_missing=strategy.allow_create_on_update and not subresource,
            may_create=self.permission(request, info, "create"),
        )
        return self.answer(request, accepted, obj, 201 if created else 200)

    def isolate(self, new: Object, live: Object | None, subresource: str) -> Object:
        """What an update through a subresource may change: through `status`, the status."""
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

    def permission(self, request: HTTPRequest, info: RequestInfo, verb: str) -> Callable[[], Awaitable[None]]:
        """Creating through PUT or apply needs leave to create."""

        async def check() -> None:
            attributes = AuthorizationAttributes(
                request.user,
                verb,
                info.group,
                info.version,
                info.resource,
                info.subresource,
                info.namespace,
                info.name,
                info.path,
            )
            decision, reason = await self.server.authorizer.authorize(attributes)
            if decision is not Decision.ALLOW:
                raise forbidden(attributes, reason)

        return check

    async def _delete_options(self, request: HTTPRequest) -> Any:
        data = await self.body(request)
        body: Object | None = None
        if data.strip():
            media = media_type(request)
            wire = None
            if media == PROTOBUF:
                wire = self.server.delete_options_wire
            try:
                body, _ = read_plain(data, media, "DeleteOptions", wire)
            except BadRequest as error:
                text = error.message.partition("(must be of type DeleteOptions): ")[2].rpartition(" (")[0]
                raise BadRequest(text or error.message) from None
            body = {} if body is None else body
            if not isinstance(body, dict):
                raise BadRequest(unreadable_type(body))
            kind, api_version = body.get("kind") or "DeleteOptions", body.get("apiVersion") or "v1"
            if kind != "DeleteOptions":
                scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
                raise BadRequest(
                    f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'
                )
            try:
                body = as_typed(GroupVersionKind("", "v1", "DeleteOptions"), body)
            except TypedDecodeError as error:
                raise BadRequest(str(error)) from None
        return parse_delete_options(request, body)

    async def _delete(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        accepted = self.accepted(request)
        options = await self._delete_options(request)
        op = self.operation(request, info, "delete", dry_run=options.dry_run, options=options.to_object())
        self.resource.strategy.deletion_asked(op)
        obj, gone = await deletion.delete(self.store, op, options)
        if not gone or self.resource.strategy.returns_deleted_object:
            return self.answer(request, accepted, obj)
        details: Object = {"name": op.name, "group": self.resource.group, "kind": self.resource.plural}
        details["uid"] = obj["metadata"].get("uid", "")
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }
        return respond(request, accepted, encode(status))

    async def _delete_collection(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        accepted = self.accepted(request)
        options = await self._delete_options(request)
        op = self.operation(request, info, "delete", dry_run=options.dry_run, options=options.to_object())
        self.resource.strategy.deletion_asked(op)
        page, _ = await collect(self, request, info)
        items = []
        for item in page.items:
            op = self.operation(request, info, "delete", dry_run=options.dry_run, options=options.to_object())
            op.name, op.collective = item.key.rpartition("/")[2], True
            try:
                await deletion.delete(self.store, op, options)
            except NotFound:
                continue
            items.append(item)
        metadata = list_metadata(self, info, page)
        if self.resource.custom and not accepted.transform:
            metadata.setdefault("continue", "")
        representation = self.store.representation(self.version, accepted, self.include(request, accepted))
        return respond(request, accepted, await representation.many(items, metadata))

    async def _subresource(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        resource, verb, name = self.resource, info.verb, info.parts[1]
        declared = self.version.subresources.get(info.parts[2])
        if declared is None or (len(info.parts) > 3 and not declared.connects):
            if resource.custom:
                raise not_found(resource.group_resource, name)
            raise NotFound("the server could not find the requested resource", details={})
        if (info.namespace != "") != resource.namespaced and not self._namespace_optional(info, True):
            return self._misplaced()
        if verb not in declared.verbs:
            if resource.custom and verb:
                raise method_not_allowed(resource.group_resource, verb)
            raise no_such_method()
        if isinstance(declared, ScaleSubresource):
            return await serve_scale(self, request, info, declared)
        if isinstance(declared, StatusSubresource):
            if verb == "get":
                return await self._get(request, info)
            if verb == "update":
                return await self._update(request, info, "status")
            return await patch_object(self, request, info, "status")
        if declared.handler is None:
            if verb == "get":
                return await self._get(request, info)
            if verb == "update":
                return await self._update(request, info, info.subresource)
            return await patch_object(self, request, info, info.subresource)
        return await answer_subresource(self, request, info, declared)


def _check_segment(name: str) -> None:
    """Names that would be something else in a path are nobody's."""
    if name in (".", ".."):
        raise BadRequest(f"Name parameter invalid: \"{name}\": may not be '{name}'")
    if "%" in name:
        raise BadRequest(f"Name parameter invalid: \"{name}\": may not contain '%'")


def no_such_method() -> MethodNotAllowed:
    """405 where not even the route exists."""
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def _not_a_list(kind: str) -> APIError:
    from kubewright.api.errors import NotAcceptable

    return NotAcceptable(
        f"you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
    )


def deprecation_warning(resource: Any, version: Version) -> str:
    """What users of a deprecated version are told."""
    if version.deprecation_warning:
        return version.deprecation_warning
    from kubewright.api.gvk import version_priority

    text = f"{resource.group}/{version.name} {resource.kind} is deprecated"
    better = [
        each.name
        for each in resource.versions
        if each.served
        and not each.deprecated
        and version_priority(each.name) < version_priority(version.name)
    ]
    if better:
        text += f"; use {resource.group}/{min(better, key=version_priority)} {resource.kind}"
    return text
