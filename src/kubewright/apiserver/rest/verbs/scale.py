"""The `scale` subresource: an `autoscaling/v1` Scale for three fields of an object.

A read creates the Scale from the object. A write decodes or patches a Scale, and stores the object with its
replicas as any other update; the owners of `spec.replicas` of the Scale are those of the field of the object.
Messages and limits are those of kube-apiserver, which differ between built-in and custom resources.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubewright.api.builtin.schemas import as_typed
from kubewright.api.builtin.typed_codec import TypedDecodeError
from kubewright.api.errors import APIError, BadRequest, NotAcceptable, conflict, internal_error, invalid
from kubewright.api.gvk import GroupKind, GroupResource
from kubewright.api.selectors.field_paths import SimplePath
from kubewright.api.values.go_format import format_value, json_type_name
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, respond
from kubewright.apiserver.encoding.representation import partial_object_metadata
from kubewright.apiserver.encoding.request_body import (
    check_builtin_type,
    check_name,
    check_namespace,
    decode_plain,
    encode_for_message,
    media_type,
    report_strict_errors,
    strict_patch_error,
)
from kubewright.apiserver.encoding.tables import TablePrinter
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.resource import (
    APPLY_PATCH,
    CUSTOM_PATCH_TYPES,
    STRATEGIC_PATCH,
    TableColumn,
    Version,
)
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.resources.subresource import SCALE, ScaleSubresource
from kubewright.apiserver.rest.options import WriteOptions, parse_write_options
from kubewright.apiserver.rest.patch_body import PatchBody, patch_invalid, unsupported_patch
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.patch import FieldManager, from_scale, to_scale
from kubewright.patch.path_elements import fields_path
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.columns import CREATED_DESCRIPTION
from kubewright.schema.structural import Node

from .update import AdmissionView

_MAX_REPLICAS = (1 << 31) - 1
_UNDECODABLE = (
    "no kind is registered for the type v1.Scale in scheme "
    '"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781"'
)
"""The error of custom resources for any body that is not a Scale."""


class ScaleHandler:
    """Serves GET, PUT and PATCH of the Scale of an object."""

    def __init__(self, scope: EndpointScope, declared: ScaleSubresource) -> None:
        self._scope = scope
        self._declared = declared
        self._replicas_path = SimplePath.parse(declared.spec_replicas_path)

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Read or write the Scale."""
        scope = self._scope
        response_format = scope.negotiate(request)
        namespace, name = scope.namespace(info), info.parts[1]
        if info.verb == "get":
            obj = await scope.store.get_object(scope.version, namespace, name)
            return self._respond(request, response_format, self.scale_of(obj))
        if info.verb == "patch":
            write = await self._decode_patch(request, info)
        else:
            write = await self._decode_update(request, info)
            check_name(write.body, name)
            check_namespace(write.body, namespace)
        view = AdmissionView(self._declared.kind or SCALE, self._view, self._with_replicas_of)
        obj, _ = await scope.store.updater.update(
            write.op, write.compute, track_fields=False, admission_view=view
        )
        return self._respond(request, response_format, self.scale_of(obj))

    async def _decode_patch(self, request: HTTPRequest, info: RequestInfo) -> _ScaleWrite:
        scope, media = self._scope, media_type(request)
        if media not in CUSTOM_PATCH_TYPES and media not in scope.resource.patch_types:
            raise unsupported_patch(scope.resource.patch_types)
        options = parse_write_options(request, "PatchOptions", apply=media == APPLY_PATCH)
        patch = PatchBody(media, await scope.read_body(request), None)
        op = scope.write_operation(request, info, "patch", options, "PatchOptions")
        return _ScaleWrite(self, request, op, options, patch=patch)

    async def _decode_update(self, request: HTTPRequest, info: RequestInfo) -> _ScaleWrite:
        scope = self._scope
        options = parse_write_options(request, "UpdateOptions")
        data = await scope.read_body(request)
        try:
            body = self._decode_scale(data, options.field_validation, request)
        except BadRequest:
            if scope.resource.custom:
                raise BadRequest(_UNDECODABLE) from None
            raise
        op = scope.write_operation(request, info, "update", options, "UpdateOptions")
        return _ScaleWrite(self, request, op, options, body=body)

    def _decode_scale(self, data: bytes, validation: str, request: HTTPRequest) -> Object:
        scale, _ = decode_plain(data, media_type(request), "Scale", self._declared.wire)
        if not isinstance(scale, dict):
            raise BadRequest("the object provided is unrecognized (must be of type Scale)")
        check_builtin_type(scale, self._scope.resource, SCALE)
        problem = _replicas_error(scale) or _metadata_error(scale)
        if problem:
            raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {problem}')
        if validation != "Ignore":
            errors = _unknown_fields(scale)
            report_strict_errors([], errors, SCALE.version, SCALE.kind, validation, request.warn)
        scale["metadata"] = scale.get("metadata") or {}
        return scale

    def scale_of(self, obj: Object, *, for_update: bool = False) -> Object:
        """Return the Scale of an object. Missing replicas are an error unless they are about to be
        written."""
        declared, metadata = self._declared, obj["metadata"]
        shown = {
            key: metadata[key]
            for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if key in metadata
        }
        replicas = self._replicas_path.get(obj)
        if replicas is None:
            if declared.default_replicas is None and not for_update:
                raise internal_error(
                    f'the spec replicas field "{declared.spec_replicas_path}" does not exist'
                )
            replicas = declared.default_replicas
        status: Object = {"replicas": SimplePath.parse(declared.status_replicas_path).get(obj) or 0}
        selector = ""
        if declared.selector is not None:
            selector = declared.selector(obj)
        elif declared.label_selector_path:
            selector = SimplePath.parse(declared.label_selector_path).get(obj) or ""
        if selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": shown,
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def _view(self, obj: Object) -> Object:
        return self.scale_of(obj, for_update=True)

    def _with_replicas_of(self, scale: Object, obj: Object) -> Object:
        new: Object = deep_copy(obj)
        self._replicas_path.set(new, (scale.get("spec") or {}).get("replicas", 0))
        return new

    def replicas_paths(self) -> dict[str, Any]:
        """Return the field path of the replicas in every version of the resource."""
        names = self._declared.spec_replicas_path.strip(".").split(".")
        store = self._scope.store
        return {
            store.representation(version).api_version: fields_path(*names)
            for version in self._scope.resource.versions
        }

    def _respond(self, request: HTTPRequest, response_format: ResponseFormat, scale: Object) -> HTTPResponse:
        resource = self._scope.resource
        if response_format.transform == "Table":
            include = self._scope.include_object(request, response_format)
            printer = TablePrinter(resource, _TABLE_VERSION, include)
            if not resource.custom:
                name, *counts, age = printer.definitions
                printer.definitions = [{**name, "format": ""}, *counts, {**age, "type": "string"}]
            metadata = {"resourceVersion": scale["metadata"].get("resourceVersion", "")}
            table = printer.table([scale], metadata, response_format.version)
            return respond(request, response_format, encode(table))
        if response_format.transform == "PartialObjectMetadataList":
            kind = "*v1.Scale" if resource.custom else "*autoscaling.Scale"
            raise NotAcceptable(
                f"you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
            )
        if response_format.transform:
            partial = partial_object_metadata(scale, response_format.version)
            return respond(request, response_format, encode(partial))
        return respond(request, response_format, encode(scale))


_TYPE_META = ("kind", "apiVersion")


class _ScaleWrite:
    """One PUT or PATCH of a Scale: computes the object with the new replicas."""

    def __init__(
        self,
        handler: ScaleHandler,
        request: HTTPRequest,
        op: Operation,
        options: WriteOptions,
        *,
        body: Object | None = None,
        patch: PatchBody | None = None,
    ) -> None:
        self.handler = handler
        self.scope = handler._scope
        self.resource = handler._scope.resource
        self.request = request
        self.op = op
        self.options = options
        self.body: Object = body or {}
        self.patch = patch

    async def compute(self, live: Object | None) -> Object:
        """Return the live object with the replicas of the Scale."""
        assert live is not None
        scale, managed_fields = self._scale(live)
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        checks = self.scope.version.checks if self.resource.custom else None
        if replicas < 0 and (checks is None or checks.scale is None):
            raise self._negative_replicas(replicas)
        new: Object = deep_copy(live)
        if self.resource.strategy.track_managed_fields:
            if managed_fields is None:
                managed_fields = self._track_update(live, replicas)
            new["metadata"]["managedFields"] = managed_fields
        self.handler._replicas_path.set(new, replicas)
        self._apply_preconditions(scale.get("metadata") or {}, new, live)
        return new

    def _scale(self, live: Object) -> tuple[Object, list[Object] | None]:
        """Return the wanted Scale, and the managed fields of the object if apply computed them."""
        patch = self.patch
        if patch is None:
            return self.body, None
        if patch.kind == APPLY_PATCH:
            return self._apply_configuration(live, patch.body)
        before = self.handler.scale_of(live, for_update=True)
        entries = to_scale(live["metadata"].get("managedFields") or [], self.handler.replicas_paths())
        if entries:
            before["metadata"]["managedFields"] = entries
        wanted = patch.apply(before)
        if patch.kind == STRATEGIC_PATCH:
            # The result is converted to the Go type of Scale, which does not look at the type meta.
            wanted |= {key: before[key] for key in _TYPE_META if isinstance(wanted.get(key, ""), str)}
        problem = (
            _kind_error(wanted, self.resource.custom) or _replicas_error(wanted) or _metadata_error(wanted)
        )
        if problem:
            raise patch_invalid(_message_text(wanted), problem)
        self._report_unknown(wanted, patch)
        check_name(wanted, self.op.name)
        check_namespace(wanted, self.op.namespace)
        return wanted, None

    def _apply_preconditions(self, metadata: Object, new: Object, live: Object) -> None:
        patch = self.patch
        patched = patch.body if patch is not None and isinstance(patch.body, dict) else {}
        if patch is None or "resourceVersion" in patched.get("metadata", {}):
            given = metadata.get("resourceVersion")
            if given:
                new["metadata"]["resourceVersion"] = given
        uid, found = metadata.get("uid"), live["metadata"].get("uid", "")
        if uid and uid != found:
            if patch is None:
                raise self.scope.store.updater.uid_conflict(self.op, uid, found)
            if not self.resource.custom:
                raise self._uid_conflict(uid, found)

    def _report_unknown(self, wanted: Object, patch: PatchBody) -> None:
        validation = self.options.field_validation
        errors = _unknown_fields(wanted) if validation != "Ignore" else []
        if errors and validation == "Strict":
            is_strategic = patch.kind == STRATEGIC_PATCH
            raise strict_patch_error(
                format_value(patch.body) if is_strategic else _message_text(wanted), errors
            )
        for text in errors:
            self.request.warn(text)

    def _track_update(self, live: Object, replicas: int) -> list[Object]:
        """Return the managed fields of the object after its replicas are written.

        Replicas of a custom resource that no manager owns stay without an owner.
        """
        paths = self.handler.replicas_paths()
        entries: list[Object] = live["metadata"].get("managedFields") or []
        scale = self.handler.scale_of(live, for_update=True)
        owned = scale["metadata"]["managedFields"] = to_scale(entries, paths)
        if self.resource.custom and not owned:
            return entries
        written: Object = deep_copy(scale)
        written["spec"] = {"replicas": replicas} if replicas else {}
        tracked = _field_manager().update(scale, written, self.op.field_manager, datetime.now(UTC))
        return from_scale(
            entries, tracked["metadata"].get("managedFields") or [], paths, self.scope.api_version
        )

    def _apply_configuration(self, live: Object, config: Object) -> tuple[Object, list[Object]]:
        """Return the applied Scale, and the managed fields of the object; raises on conflicts as any
        apply."""
        op, paths = self.op, self.handler.replicas_paths()
        entries = live["metadata"].get("managedFields") or []
        scale = self.handler.scale_of(live, for_update=True)
        replicas = scale["spec"].get("replicas")
        owned = scale["metadata"]["managedFields"] = to_scale(entries, paths)
        is_scale = (config.get("kind"), config.get("apiVersion")) == (SCALE.kind, SCALE.api_version)
        if self.resource.custom and not owned and is_scale:
            raise _unconvertible("failed to create manager for existing fields: ", "live", "/")
        now, force = datetime.now(UTC), bool(self.options.force)
        applied = _field_manager().apply(scale, config, op.field_manager, now, force=force)
        if self.resource.custom and (applied.get("spec") or {}).get("replicas") != replicas:
            raise _unconvertible("", "new", f"{op.namespace}/{op.name}")
        managed_fields = from_scale(
            entries, applied["metadata"].get("managedFields") or [], paths, self.scope.api_version
        )
        return applied, managed_fields

    def _uid_conflict(self, wanted: str, found: str) -> APIError:
        resource = self.resource.group_resource
        text = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        return conflict(GroupResource(resource.group, f"{resource.resource}/scale"), self.op.name, text)

    def _negative_replicas(self, replicas: int) -> APIError:
        if self.resource.custom:
            path = self.handler._declared.spec_replicas_path
            error = fe.invalid(path, replicas, "should be a non-negative integer")
            return invalid(self.resource.group_kind, self.op.name, [error])
        error = fe.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        return invalid(GroupKind("autoscaling", "Scale"), self.op.name, [error])


def _replicas_error(scale: Object) -> str:
    """Return why the wanted replicas of a Scale are not an int32, or an empty string."""
    spec = scale.get("spec")
    if spec is not None and not isinstance(spec, dict):
        kind = json_type_name(spec)
        return f"json: cannot unmarshal {kind} into Go struct field Scale.spec of type v1.ScaleSpec"
    replicas = (spec or {}).get("replicas")
    if replicas is None or (type(replicas) is int and abs(replicas) <= _MAX_REPLICAS):
        return ""
    kind = json_type_name(replicas)
    if kind == "number":
        kind = f"number {replicas}"
    return f"json: cannot unmarshal {kind} into Go struct field ScaleSpec.spec.replicas of type int32"


def _metadata_error(scale: Object) -> str:
    """Return why the metadata of a Scale cannot be decoded, or an empty string."""
    try:
        as_typed(SCALE, {"metadata": scale.get("metadata")})
    except TypedDecodeError as error:
        return str(error)
    return ""


def _kind_error(scale: Object, custom: bool) -> str:
    """Return why a patched Scale is of another kind, or an empty string."""
    kind, version = scale.get("kind"), scale.get("apiVersion")
    if (kind, version) == (SCALE.kind, SCALE.api_version):
        return ""
    scheme = "k8s.io/client-go/scale/util.go:146" if custom else "pkg/api/legacyscheme/scheme.go:30"
    return f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"'


def _unknown_fields(scale: Object) -> list[str]:
    """Return an error for each field that a Scale does not have."""
    unknown = [name for name in scale if name not in _SCHEMA.properties]
    for part in ("spec", "status"):
        fields = scale.get(part)
        if isinstance(fields, dict):
            unknown += [
                f"{part}.{name}" for name in fields if name not in _SCHEMA.properties[part].properties
            ]
    return [f'unknown field "{name}"' for name in sorted(unknown)]


def _message_text(scale: Object) -> str:
    spec = scale.get("spec")
    ordered = dict(sorted(spec.items())) if isinstance(spec, dict) else spec
    return encode_for_message({**scale, "spec": ordered}, custom=False)


def _field_manager() -> FieldManager:
    return FieldManager(
        SCALE.api_version, SCALE.kind, _SCHEMA, subresource="scale", node_for=lambda _: _SCHEMA
    )


def _unconvertible(context: str, which: str, name: str) -> APIError:
    """Return the 500 for an apply that changes the Scale of a custom resource, which kube-apiserver
    rejects."""
    return APIError(
        f"{context}failed to convert {which} object ({name}; autoscaling/v1, Kind=Scale) to proper version: "
        "request to convert CR to an invalid group/version: autoscaling/v1",
        code=500,
    )


_SCHEMA = Node(
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            "status": {
                "type": "object",
                "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
            },
        },
    }
)
_TABLE_VERSION = Version(
    name="v1",
    columns=(
        TableColumn("Desired", ".spec.replicas", "integer", description="Number of desired replicas"),
        TableColumn("Available", ".status.replicas", "integer", description="Number of actual replicas"),
        TableColumn("Age", ".metadata.creationTimestamp", "date", description=CREATED_DESCRIPTION),
    ),
)
