"""The `scale` subresource: an `autoscaling/v1` Scale in front of three fields of the parent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api import go_format
from kubewright.api.errors import APIError, BadRequest, NotAcceptable, conflict, internal_error, invalid
from kubewright.api.field_paths import SimplePath
from kubewright.api.go_format import format_value
from kubewright.api.gvk import GroupKind, GroupResource, GroupVersionKind
from kubewright.apiserver.encoding.negotiation import ResponseFormat, encode, respond
from kubewright.apiserver.encoding.representation import partial
from kubewright.apiserver.encoding.request_body import (
    check_name,
    check_namespace,
    check_typed,
    encode_as_shown,
    media_type,
    read_plain,
    report,
    strict_patch_error,
)
from kubewright.apiserver.encoding.tables import TablePrinter
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.objects import Object, deep_copy
from kubewright.apiserver.resource import CUSTOM_PATCH_TYPES, TableColumn, Version
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.subresource import ScaleSubresource
from kubewright.patch import FieldManager, from_scale, to_scale
from kubewright.patch.field_set import fields_path
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.columns import CREATED_DESCRIPTION
from kubewright.schema.structural import Node

from . import writes
from .options import parse_write_options
from .patch_body import APPLY_PATCH, STRATEGIC_PATCH, PatchBody, patch_invalid, unsupported_patch

if TYPE_CHECKING:
    from .endpoint import ResourceEndpoint

_MAX = (1 << 31) - 1
SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_UNREADABLE = (
    "no kind is registered for the type v1.Scale in scheme "
    '"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781"'
)
"""What is said of any body that is not a Scale, where the scaled resource is a custom one."""


def scale_of(
    endpoint: ResourceEndpoint, declared: ScaleSubresource, obj: Object, *, before_update: bool = False
) -> Object:
    """The Scale of an object. A missing replica count is an error, except where it is about to be written."""
    metadata = obj["metadata"]
    shown = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in metadata
    }
    replicas = SimplePath.parse(declared.spec_replicas_path).get(obj)
    if replicas is None:
        if declared.default_replicas is None and not before_update:
            raise internal_error(f'the spec replicas field "{declared.spec_replicas_path}" does not exist')
        replicas = declared.default_replicas
    status: Object = {"replicas": SimplePath.parse(declared.status_replicas_path).get(obj) or 0}
    if declared.selector is not None:
        selector = declared.selector(obj)
    elif declared.label_selector_path:
        selector = SimplePath.parse(declared.label_selector_path).get(obj) or ""
    else:
        selector = ""
    if selector:
        status["selector"] = selector
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {},
        "status": status,
    }
    if replicas:
        scale["spec"]["replicas"] = replicas
    return scale


def _paths(endpoint: ResourceEndpoint, declared: ScaleSubresource) -> dict[str, Any]:
    names = declared.spec_replicas_path.strip(".").split(".")
    resource = endpoint.resource
    return {
        endpoint.store.representation(version).api_version: fields_path(*names)
        for version in resource.versions
    }


async def serve_scale(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo, declared: ScaleSubresource
) -> HTTPResponse:
    """GET, PUT and PATCH of a Scale."""
    accepted = endpoint.accepted(request)
    store, version = endpoint.store, endpoint.version
    namespace = info.namespace if endpoint.resource.namespaced else ""
    if info.verb == "get":
        obj = await store.get_object(version, namespace, info.parts[1])
        return _answer(endpoint, request, accepted, scale_of(endpoint, declared, obj))
    media = media_type(request)
    patch: PatchBody | None = None
    body: Object = {}
    if info.verb == "patch":
        if media not in CUSTOM_PATCH_TYPES and media not in endpoint.resource.patch_types:
            raise unsupported_patch(endpoint.resource.patch_types)
        options = parse_write_options(request, "PatchOptions", apply=media == APPLY_PATCH)
        patch = PatchBody(media, await endpoint.body(request), None)
    else:
        options = parse_write_options(request, "UpdateOptions")
        data = await endpoint.body(request)
        try:
            body = _read(data, media, declared, options.field_validation, request)
        except BadRequest:
            if endpoint.resource.custom:
                raise BadRequest(_UNREADABLE) from None
            raise
        check_name(body, info.parts[1])
        check_namespace(body, namespace)
    op = endpoint.operation(
        request,
        info,
        "patch" if patch else "update",
        dry_run=options.dry_run,
        options=options.to_object("PatchOptions" if patch else "UpdateOptions"),
        manager=options.field_manager,
    )

    applying = patch is not None and patch.kind == APPLY_PATCH
    if patch is not None and applying and not isinstance(patch.body, dict):
        raise BadRequest("error decoding YAML: the patch must be an object")

    async def compute(live: Object | None) -> Object:
        assert live is not None
        before = scale_of(endpoint, declared, live, before_update=True)
        owners: list[Object] = []
        if patch is None:
            wanted = body
        elif applying:
            wanted, owners = _applied(endpoint, declared, op, live, patch.body, bool(options.force))
        else:
            entries = to_scale(live["metadata"].get("managedFields") or [], _paths(endpoint, declared))
            if entries:
                before["metadata"]["managedFields"] = entries
            wanted = patch.apply(before)
            problem = _kind_problem(wanted, endpoint.resource.custom) or _replicas_problem(wanted)
            if problem:
                raise patch_invalid(_shown(wanted), problem)
            _report_unknown(wanted, patch, options.field_validation, request)
            check_name(wanted, op.name)
            check_namespace(wanted, op.namespace)
        metadata = wanted.get("metadata") or {}
        replicas = (wanted.get("spec") or {}).get("replicas") or 0
        checks = version.checks if endpoint.resource.custom else None
        if replicas < 0 and (checks is None or checks.scale is None):
            raise _negative(endpoint, declared, op.name, replicas)
        new: Object = deep_copy(live)
        if endpoint.resource.strategy.track_managed_fields:
            tracked = owners if applying else _owners(endpoint, declared, op, live, replicas)
            new["metadata"]["managedFields"] = tracked
        SimplePath.parse(declared.spec_replicas_path).set(new, replicas)
        if patch is None or "resourceVersion" in (patch.body if isinstance(patch.body, dict) else {}).get(
            "metadata", {}
        ):
            given = metadata.get("resourceVersion")
            if given:
                new["metadata"]["resourceVersion"] = given
        uid, found = metadata.get("uid"), live["metadata"].get("uid", "")
        if uid and uid != found:
            if patch is None:
                raise writes.uid_conflict(store, op, uid, found)
            if not endpoint.resource.custom:
                raise _another(endpoint, op.name, uid, found)
        return new

    def show(obj: Object) -> Object:
        return scale_of(endpoint, declared, obj, before_update=True)

    def take_off(scale: Object, obj: Object) -> Object:
        new: Object = deep_copy(obj)
        SimplePath.parse(declared.spec_replicas_path).set(new, (scale.get("spec") or {}).get("replicas", 0))
        return new

    kind = declared.kind or SCALE
    obj, _ = await writes.update(
        store, op, compute, own_fields=False, guise=writes.AdmissionView(kind, show, take_off)
    )
    return _answer(endpoint, request, accepted, scale_of(endpoint, declared, obj))


def _answer(
    endpoint: ResourceEndpoint, request: HTTPRequest, accepted: ResponseFormat, scale: Object
) -> HTTPResponse:
    """A Scale in the form that was asked for."""
    if accepted.transform == "Table":
        maker = TablePrinter(endpoint.resource, _SHOWN, endpoint.include(request, accepted))
        if not endpoint.resource.custom:
            name, *counts, age = maker.definitions
            maker.definitions = [{**name, "format": ""}, *counts, {**age, "type": "string"}]
        metadata = {"resourceVersion": scale["metadata"].get("resourceVersion", "")}
        return respond(request, accepted, encode(maker.table([scale], metadata, accepted.version)))
    if accepted.transform == "PartialObjectMetadataList":
        kind = "*v1.Scale" if endpoint.resource.custom else "*autoscaling.Scale"
        raise NotAcceptable(
            f"you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
        )
    if accepted.transform:
        return respond(request, accepted, encode(partial(scale, accepted.version)))
    return respond(request, accepted, encode(scale))


def _read(
    data: bytes, media: str, declared: ScaleSubresource, validation: str, request: HTTPRequest
) -> Object:
    """The Scale in a body."""
    read, _ = read_plain(data, media, "Scale", declared.wire)
    if not isinstance(read, dict):
        raise BadRequest("the object provided is unrecognized (must be of type Scale)")
    check_typed(read, SCALE.api_version, SCALE.kind, SCALE.version)
    problem = _replicas_problem(read)
    if problem:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {problem}')
    if validation != "Ignore":
        report([], _unknown(read), SCALE.version, SCALE.kind, validation, request.warn)
    read["metadata"] = read.get("metadata") or {}
    return read


def _replicas_problem(scale: Object) -> str:
    """What keeps the wanted replicas of a Scale from being a number, or nothing."""
    spec = scale.get("spec")
    if spec is not None and not isinstance(spec, dict):
        what = go_format.json_type_name(spec)
        return f"json: cannot unmarshal {what} into Go struct field Scale.spec of type v1.ScaleSpec"
    replicas = (spec or {}).get("replicas")
    if replicas is None or (type(replicas) is int and abs(replicas) <= _MAX):
        return ""
    what = go_format.json_type_name(replicas)
    if what == "number":
        what = f"number {replicas}"
    return f"json: cannot unmarshal {what} into Go struct field ScaleSpec.spec.replicas of type int32"


def _shown(scale: Object) -> str:
    spec = scale.get("spec")
    ordered = dict(sorted(spec.items())) if isinstance(spec, dict) else spec
    return encode_as_shown({**scale, "spec": ordered}, False)


def _kind_problem(scale: Object, custom: bool) -> str:
    """What a patch made of the type of a Scale, if that is another one."""
    kind, version = scale.get("kind"), scale.get("apiVersion")
    if (kind, version) == (SCALE.kind, SCALE.api_version):
        return ""
    scheme = "k8s.io/client-go/scale/util.go:146" if custom else "pkg/api/legacyscheme/scheme.go:30"
    return f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"'


def _unknown(scale: Object) -> list[str]:
    """One complaint for each field that a Scale does not have."""
    strangers = [name for name in scale if name not in _NODE.properties]
    for part in ("spec", "status"):
        inside = scale.get(part)
        if isinstance(inside, dict):
            strangers += [
                f"{part}.{name}" for name in inside if name not in _NODE.properties[part].properties
            ]
    return [f'unknown field "{name}"' for name in sorted(strangers)]


def _report_unknown(wanted: Object, patch: PatchBody, validation: str, request: HTTPRequest) -> None:
    problems = _unknown(wanted) if validation != "Ignore" else []
    if problems and validation == "Strict":
        strategic = patch.kind == STRATEGIC_PATCH
        shown = format_value(patch.body) if strategic else _shown(wanted)
        raise strict_patch_error(shown, problems)
    for text in problems:
        request.warn(text)


def _manager() -> FieldManager:
    return FieldManager(SCALE.api_version, SCALE.kind, _NODE, subresource="scale", node_for=lambda _: _NODE)


def _owners(
    endpoint: ResourceEndpoint, declared: ScaleSubresource, op: Operation, live: Object, replicas: int
) -> list[Object]:
    """The managed fields of the parent after its replicas were written; a Scale without any owns nothing.

    What nobody owns of a custom resource stays without an owner.
    """
    paths = _paths(endpoint, declared)
    entries: list[Object] = live["metadata"].get("managedFields") or []
    scale = scale_of(endpoint, declared, live, before_update=True)
    owned = scale["metadata"]["managedFields"] = to_scale(entries, paths)
    if endpoint.resource.custom and not owned:
        return entries
    written: Object = deep_copy(scale)
    written["spec"] = {"replicas": replicas} if replicas else {}
    tracked = _manager().update(scale, written, op.field_manager, datetime.now(UTC))
    return from_scale(
        entries, tracked["metadata"].get("managedFields") or [], paths, endpoint.plain.api_version
    )


def _applied(
    endpoint: ResourceEndpoint,
    declared: ScaleSubresource,
    op: Operation,
    live: Object,
    config: Object,
    force: bool,
) -> tuple[Object, list[Object]]:
    """An applied Scale, and the managed fields of the parent after it; it conflicts like any other apply."""
    paths = _paths(endpoint, declared)
    entries = live["metadata"].get("managedFields") or []
    scale = scale_of(endpoint, declared, live, before_update=True)
    replicas = scale["spec"].get("replicas")
    owned = scale["metadata"]["managedFields"] = to_scale(entries, paths)
    of_its_type = (config.get("kind"), config.get("apiVersion")) == (SCALE.kind, SCALE.api_version)
    if endpoint.resource.custom and not owned and of_its_type:
        raise _unconvertible("failed to create manager for existing fields: ", "live", "/")
    applied = _manager().apply(scale, config, op.field_manager, datetime.now(UTC), force=force)
    if endpoint.resource.custom and (applied.get("spec") or {}).get("replicas") != replicas:
        raise _unconvertible("", "new", f"{op.namespace}/{op.name}")
    owners = from_scale(
        entries, applied["metadata"].get("managedFields") or [], paths, endpoint.plain.api_version
    )
    return applied, owners


_NODE = Node(
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
_SHOWN = Version(
    name="v1",
    columns=(
        TableColumn("Desired", ".spec.replicas", "integer", description="Number of desired replicas"),
        TableColumn("Available", ".status.replicas", "integer", description="Number of actual replicas"),
        TableColumn("Age", ".metadata.creationTimestamp", "date", description=CREATED_DESCRIPTION),
    ),
)


def _unconvertible(context: str, which: str, name: str) -> APIError:
    """Kubernetes cannot convert the Scale of a custom resource, which an apply that changes it needs."""
    return APIError(
        f"{context}failed to convert {which} object ({name}; autoscaling/v1, Kind=Scale) to proper version: "
        "request to convert CR to an invalid group/version: autoscaling/v1",
        code=500,
    )


def _another(endpoint: ResourceEndpoint, name: str, wanted: str, found: str) -> APIError:
    resource = endpoint.resource.group_resource
    text = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(GroupResource(resource.group, f"{resource.resource}/scale"), name, text)


def _negative(endpoint: ResourceEndpoint, declared: ScaleSubresource, name: str, replicas: int) -> APIError:
    if endpoint.resource.custom:
        error = fe.invalid(declared.spec_replicas_path, replicas, "should be a non-negative integer")
        return invalid(endpoint.resource.group_kind, name, [error])
    error = fe.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    return invalid(GroupKind("autoscaling", "Scale"), name, [error])


__all__ = ["scale_of", "serve_scale"]
