"""The verbs of one resource at one version: from a routed request to a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import (
    APIError,
    BadRequest,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
    method_not_allowed,
    not_found,
)
from kubewright.api.gvk import GroupVersionKind

from . import deletion, writes
from .authorization import Attributes, Decision, forbidden
from .bodies import (
    check_typed,
    encode_as_shown,
    go_text,
    media_type,
    read_object,
    read_plain,
    read_typed,
    report,
    shape,
    strict_patch_error,
)
from .lists import list_collection
from .negotiation import PROTOBUF, Accepted, encode, negotiate, respond
from .options import parse_delete_options, parse_version, parse_write_options
from .patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Patch,
    patch_invalid,
    unsupported_patch,
)
from .request import Request, Response, page_not_found
from .requestinfo import RequestInfo
from .resource import (
    Object,
    Operation,
    ScaleSubresource,
    StatusSubresource,
    Subresource,
    SubresourceRequest,
    Version,
)
from .scale import serve_scale
from .shaping import copied
from .tables import TableMaker
from .watching import watch_collection

if TYPE_CHECKING:
    from .server import APIServer
    from .store import Store


class Endpoint:
    """One version of a resource."""

    def __init__(self, server: APIServer, store: Store, version: Version) -> None:
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

    async def handle(self, request: Request, info: RequestInfo) -> Response:
        """Answer a request for this resource."""
        resource, parts = self.resource, info.parts
        if request.method == "HEAD" and not resource.custom:
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
            raise no_such_method()
        if verb in self._handled_reads:
            return await self._handled(request, info, verb)
        if verb == "get":
            return await self._get(request, info)
        if verb == "list":
            return await list_collection(self, request, info)
        if verb == "watch":
            return await watch_collection(self, request, info)
        if verb in resource.handlers:
            return await self._handled(request, info, verb)
        if verb == "create":
            if named and not resource.custom:
                raise no_such_method()
            return await self._create(request, info)
        if verb == "update":
            return await self._update(request, info, "")
        if verb == "patch":
            return await self._patch(request, info, "")
        if verb == "delete":
            return await self._delete(request, info)
        return await self._delete_collection(request, info)

    def _namespace_optional(self, info: RequestInfo, named: bool) -> bool:
        """Lists and watches go across namespaces; a namespace's own path names itself."""
        if self.resource.namespaced:
            return not named and info.verb in ("list", "watch")
        return info.resource == "namespaces" and info.parts[0] == "namespaces"

    def _misplaced(self) -> Response:
        """A namespaced resource without a namespace, or the other way round."""
        if self.resource.custom:
            return page_not_found()
        if self.resource.namespaced:
            raise no_such_method()
        raise NotFound("the server could not find the requested resource", details={})

    def accepted(self, request: Request) -> Accepted:
        """The representation that a request wants."""
        return negotiate(request, protobuf=not self.resource.custom)

    def go_type(self, kind: str) -> str:
        """What a Go server calls the type of a kind of this resource."""
        if self.resource.custom:
            return "*unstructured.Unstructured" + ("List" if kind == self.resource.list_kind else "")
        home = self.version.published_as.split(".")
        return f"*{home[-2]}.{kind}" if len(home) > 1 else kind

    def include(self, request: Request, accepted: Accepted) -> str:
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

    async def _get(self, request: Request, info: RequestInfo) -> Response:
        accepted = self.accepted(request)
        if accepted.transform == "PartialObjectMetadataList":
            raise _not_a_list(self.go_type(self.resource.kind))
        if request.query:
            wanted = parse_version(request.query.get("resourceVersion"))
            if wanted:
                await self.server.feed.reach(wanted, self.server.freshness_timeout)
        item = await self.store.read(info.namespace if self.resource.namespaced else "", info.parts[1])
        representation = self.store.representation(self.version, accepted, self.include(request, accepted))
        return respond(request, accepted, await representation.one(item.value, item.mod_revision))

    def operation(self, request: Request, info: RequestInfo, verb: Any, **options: Any) -> Operation:
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

    def answer(self, request: Request, accepted: Accepted, obj: Object, status: int = 200) -> Response:
        """An object of the requested version as a response."""
        if accepted.transform:
            representation = self.store.representation(
                self.version, accepted, self.include(request, accepted)
            )
            return respond(request, accepted, representation.dump(obj), status)
        return respond(request, accepted, encode(obj), status)

    async def body(self, request: Request) -> bytes:
        """The bytes of the body, within the limit."""
        return await request.read(self.resource.body_limit or self.server.body_limit)

    async def _sent(
        self, request: Request, info: RequestInfo, verb: str
    ) -> tuple[Accepted, Object, Operation]:
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

    async def _create(self, request: Request, info: RequestInfo) -> Response:
        accepted, obj, op = await self._sent(request, info, "create")
        op.name = ""
        _check_namespace(obj, op.namespace)
        return self.answer(request, accepted, await writes.create(self.store, op, obj), 201)

    async def _update(self, request: Request, info: RequestInfo, subresource: str) -> Response:
        accepted, body, op = await self._sent(request, info, "update")
        _check_name(body, op.name)
        _check_namespace(body, op.namespace)
        used = False

        async def compute(live: Object | None) -> Object:
            nonlocal used
            new = copied(body) if used else body
            used = True
            return self.isolate(new, live, subresource)

        strategy = self.resource.strategy
        obj, created = await writes.update(
            self.store,
            op,
            compute,
            conditional=True,
            create_missing=strategy.allow_create_on_update and not subresource,
            may_create=self._permission(request, info, "create"),
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

    def _permission(self, request: Request, info: RequestInfo, verb: str) -> Callable[[], Awaitable[None]]:
        """Creating through PUT or apply needs leave to create."""

        async def check() -> None:
            attributes = Attributes(
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

    async def _patch(self, request: Request, info: RequestInfo, subresource: str) -> Response:
        accepted = self.accepted(request)
        media = media_type(request)
        if media not in self.resource.patch_types:
            if not self.resource.custom:
                raise UnsupportedMediaType("415: Unsupported Media Type", details={})
            raise unsupported_patch(self.resource.patch_types)
        applying = media == APPLY_PATCH
        options = parse_write_options(request, "PatchOptions", apply=applying)
        patch = Patch(media, await self.body(request), self.version.schema)
        op = self.operation(
            request,
            info,
            "patch",
            dry_run=options.dry_run,
            options=options.to_object("PatchOptions"),
            manager=options.field_manager,
        )
        validation = options.field_validation
        if applying:
            if patch.repeated and validation == "Strict":
                listed = "\n".join(f"  {text}" for text in patch.repeated)
                raise BadRequest(f"error strict decoding YAML: yaml: unmarshal errors:\n{listed}")
            if not isinstance(patch.body, dict):
                raise BadRequest("error decoding YAML: the patch must be an object")
            if validation == "Warn":
                for text in patch.repeated:
                    request.warn(text)

        async def compute(live: Object | None) -> Object:
            if applying:
                new = await self._applied(op, patch.body, live, subresource, bool(options.force))
            else:
                assert live is not None
                new = patch.apply(live)
            return self._patched(op, copied(new), live, patch, validation, subresource, applying)

        obj, created = await writes.update(
            self.store,
            op,
            compute,
            create_missing=applying and not subresource,
            may_create=self._permission(request, info, "create"),
            own_fields=not applying,
        )
        return self.answer(request, accepted, obj, 201 if created else 200)

    async def _applied(
        self, op: Operation, config: Object, live: Object | None, subresource: str, force: bool
    ) -> Object:
        from datetime import UTC, datetime

        metadata = config.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise BadRequest("metadata must be an object")
        given = (metadata or {}).get("name")
        if given or live is None:
            _check_name(config, op.name)
        config = {**config, "metadata": {**(metadata or {}), "name": op.name}}
        wanted, now = config, datetime.now(UTC)
        new = await self.store.own(
            self.version,
            subresource,
            lambda owner: owner.apply(live, wanted, op.field_manager, now, force=force),
        )
        if live is None:
            new = {**new, "metadata": {**new["metadata"]}}
            if self.resource.namespaced:
                new["metadata"].setdefault("namespace", op.namespace)
        return new

    def _patched(
        self,
        op: Operation,
        new: Object,
        live: Object | None,
        patch: Patch,
        validation: str,
        subresource: str,
        applying: bool,
    ) -> Object:
        """Read the result of a patch as if it had been sent."""
        request = op.request
        assert request is not None
        api_version = self.plain.api_version
        if not self.resource.custom:
            if patch.kind in (JSON_PATCH, MERGE_PATCH):
                self._check_still_itself(new)
            new["apiVersion"], new["kind"] = api_version, self.resource.kind
        before = encode_as_shown(new, self.resource.custom) if validation == "Strict" and not applying else ""
        try:
            unknown = shape(
                new,
                self.resource,
                self.version,
                self.resource.kind,
                keep_nulls=applying and self.resource.custom,
            )
        except BadRequest as error:
            if applying:
                raise
            shown = encode_as_shown(new, self.resource.custom)
            raise patch_invalid(shown, str(error.message).partition(": ")[2]) from None
        if (unknown or patch.repeated) and not applying:
            if validation == "Strict":
                shown = go_text(patch.body) if patch.kind == STRATEGIC_PATCH else before
                raise strict_patch_error(shown, patch.repeated + unknown)
            report(
                patch.repeated,
                unknown,
                self.version.name,
                self.resource.kind,
                validation,
                request.warn,
            )
        _check_name(new, op.name)
        _check_namespace(new, op.namespace)
        return self.isolate(new, live, subresource)

    def _check_still_itself(self, patched: Object) -> None:
        """A patch may not turn a typed object into one of another kind; other versions are the same kind."""
        try:
            check_typed(dict(patched), self.plain.api_version, self.resource.kind, self.version.name)
        except BadRequest as error:
            text = error.message.partition(": ")[2]
            if text:
                raise patch_invalid(encode_as_shown(patched, False), text) from None

    async def _delete_options(self, request: Request) -> Any:
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
            if not isinstance(body, dict):
                raise BadRequest("the body of a deletion must be DeleteOptions")
            kind, api_version = body.get("kind") or "DeleteOptions", body.get("apiVersion") or "v1"
            if kind != "DeleteOptions":
                scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
                raise BadRequest(
                    f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'
                )
        return parse_delete_options(request, body)

    async def _delete(self, request: Request, info: RequestInfo) -> Response:
        accepted = self.accepted(request)
        options = await self._delete_options(request)
        op = self.operation(request, info, "delete", dry_run=options.dry_run, options=options.to_object())
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

    async def _delete_collection(self, request: Request, info: RequestInfo) -> Response:
        from .lists import collect

        accepted = self.accepted(request)
        options = await self._delete_options(request)
        page, _ = await collect(self, request, info)
        items = []
        for item in page.items:
            op = self.operation(request, info, "delete", dry_run=options.dry_run, options=options.to_object())
            op.name = item.key.rpartition("/")[2]
            try:
                await deletion.delete(self.store, op, options)
            except NotFound:
                continue
            items.append(item)
        metadata: Object = {"resourceVersion": str(page.revision)}
        if self.resource.custom:
            metadata["continue"] = ""
        representation = self.store.representation(self.version, accepted, self.include(request, accepted))
        return respond(request, accepted, await representation.many(items, metadata))

    async def _handled(self, request: Request, info: RequestInfo, verb: str) -> Response:
        """A verb that a function answers."""
        accepted = self.accepted(request)
        body: Object | None = None
        if verb in ("get", "list"):
            pass
        elif self.resource.custom:
            body = await self._read_any(request, self.resource.kind, self.version.wire)
            if body is not None:
                body.setdefault("metadata", {})
        else:
            body = read_object(
                await self.body(request),
                media_type(request),
                self.resource,
                self.version,
                validation=parse_write_options(request, "CreateOptions").field_validation,
                warn=request.warn,
                wire=self.version.wire,
            )
        asked = self._asked(request, info, body, verb)
        result = await self.resource.handlers[verb](asked)
        if isinstance(result, Response):
            return result
        if accepted.transform == "Table":
            maker = TableMaker(self.resource, self.version, self.include(request, accepted))
            rows = result["items"] if verb == "list" else [result]
            return respond(request, accepted, encode(maker.table(rows, result.get("metadata") or {})))
        return respond(request, accepted, encode(result), 201 if verb == "create" else 200)

    async def _read_any(self, request: Request, kind: str, wire: Any) -> Object | None:
        data = await self.body(request)
        if not data:
            return None
        body, _ = read_plain(data, media_type(request), kind, wire)
        if body is not None and not isinstance(body, dict):
            raise BadRequest(f"the object provided is unrecognized (must be of type {kind})")
        return body

    def _asked(
        self, request: Request, info: RequestInfo, body: Object | None, verb: str
    ) -> SubresourceRequest:
        write: Any = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            request.method, verb
        )
        options = parse_write_options(request, "CreateOptions") if request.method in ("POST", "PUT") else None
        op = self.operation(
            request,
            info,
            write,
            dry_run=options.dry_run if options is not None else False,
            options=options.to_object("CreateOptions") if options is not None else {},
            manager=options.field_manager if options is not None else "",
        )
        return SubresourceRequest(
            request=request,
            resource=self.resource,
            version=self.version,
            store=self.store,
            namespace=op.namespace,
            name=op.name,
            subresource=info.subresource,
            path="/".join(info.parts[3:]),
            body=body,
            operation=op,
        )

    async def _subresource(self, request: Request, info: RequestInfo) -> Response:
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
            return await self._patch(request, info, "status")
        if declared.handler is None:
            if verb == "get":
                return await self._get(request, info)
            if verb == "update":
                return await self._update(request, info, info.subresource)
            return await self._patch(request, info, info.subresource)
        return await self._custom(request, info, declared)

    async def _custom(self, request: Request, info: RequestInfo, declared: Subresource) -> Response:
        accepted = self.accepted(request) if not declared.connects else Accepted()
        body = None
        if declared.decodes and request.method in ("POST", "PUT"):
            if declared.checks is not None and declared.kind is not None:
                body = read_typed(
                    await self.body(request),
                    media_type(request),
                    declared.kind,
                    declared.checks,
                    validation=parse_write_options(request, "CreateOptions").field_validation,
                    warn=request.warn,
                    wire=declared.wire,
                )
            else:
                kind = declared.kind.kind if declared.kind is not None else self.resource.kind
                body = await self._read_any(request, kind, declared.wire)
        asked = self._asked(request, info, body, info.verb)
        if declared.connects:
            await self._admit_connect(asked)
        elif request.method == "POST" and declared.kind is not None and asked.body is not None:
            await self._admit_creation(asked, declared.kind)
        assert declared.handler is not None
        result = await declared.handler(asked)
        if isinstance(result, Response):
            return result
        status = declared.status_code if request.method == "POST" else 200
        return respond(request, accepted, encode(result), status)

    async def _admit_connect(self, asked: SubresourceRequest) -> None:
        admission = self.server.admission
        if admission.has_mutating or admission.has_validating:
            options = {key: values[0] for key, values in asked.request.query.values.items()}
            question = writes.admission_request(self.store, asked.operation, "CONNECT", options, None)
            await admission.mutate(question)
            await admission.validate(question)

    async def _admit_creation(self, asked: SubresourceRequest, kind: GroupVersionKind) -> None:
        """A POST to a subresource creates an object of its kind: a Binding, an Eviction, a TokenRequest."""
        admission = self.server.admission
        if admission.has_mutating or admission.has_validating:
            question = writes.admission_request(self.store, asked.operation, "CREATE", asked.body, None)
            question.kind = kind
            question.definition = question.version = question.convert = question.renew = None
            await admission.mutate(question)
            asked.body = question.object
            await admission.validate(question)


def no_such_method() -> MethodNotAllowed:
    """405 where not even the route exists."""
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def _not_a_list(kind: str) -> APIError:
    from kubewright.api.errors import NotAcceptable

    return NotAcceptable(
        f"you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
    )


def _check_namespace(obj: Object, namespace: str) -> None:
    given = obj["metadata"].get("namespace")
    if given and namespace and given != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _check_name(obj: Object, name: str) -> None:
    metadata = obj.get("metadata")
    given = metadata.get("name") if isinstance(metadata, dict) else None
    if not given:
        raise _nameless(name)
    if given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _nameless(name: str) -> BadRequest:
    return BadRequest(
        f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
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
