"""The `scale` subresource: an `autoscaling/v1` Scale in front of three fields of the parent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError, BadRequest, internal_error, invalid
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.paths import SimplePath
from kubewright.patch import FieldManager, from_scale, to_scale
from kubewright.patch.fieldset import fields_path
from kubewright.schema import fielderrors as fe
from kubewright.schema.columns import CREATED_DESCRIPTION
from kubewright.schema.structural import Node

from . import writes
from .bodies import check_typed, encode_as_shown, media_type, read_plain
from .negotiation import Accepted, encode, respond
from .options import parse_write_options
from .patching import APPLY_PATCH, Patch, patch_invalid, unsupported_patch
from .representation import partial
from .request import Request, Response
from .requestinfo import RequestInfo
from .resource import CUSTOM_PATCH_TYPES, Column, Object, Operation, ScaleSubresource, Version
from .shaping import copied
from .tables import TableMaker

if TYPE_CHECKING:
    from .endpoint import Endpoint

_MAX = (1 << 31) - 1
SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


def scale_of(
    endpoint: Endpoint, declared: ScaleSubresource, obj: Object, *, before_update: bool = False
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


def _paths(endpoint: Endpoint, declared: ScaleSubresource) -> dict[str, Any]:
    names = declared.spec_replicas_path.strip(".").split(".")
    resource = endpoint.resource
    return {
        endpoint.store.representation(version).api_version: fields_path(*names)
        for version in resource.versions
    }


async def serve_scale(
    endpoint: Endpoint, request: Request, info: RequestInfo, declared: ScaleSubresource
) -> Response:
    """GET, PUT and PATCH of a Scale."""
    accepted = endpoint.accepted(request)
    store, version = endpoint.store, endpoint.version
    namespace = info.namespace if endpoint.resource.namespaced else ""
    if info.verb == "get":
        obj = await store.get_object(version, namespace, info.parts[1])
        return _answer(endpoint, request, accepted, scale_of(endpoint, declared, obj))
    media = media_type(request)
    patch: Patch | None = None
    body: Object = {}
    if info.verb == "patch":
        if media not in CUSTOM_PATCH_TYPES and media not in endpoint.resource.patch_types:
            raise unsupported_patch(endpoint.resource.patch_types)
        options = parse_write_options(request, "PatchOptions", apply=media == APPLY_PATCH)
        patch = Patch(media, await endpoint.body(request), None)
    else:
        options = parse_write_options(request, "UpdateOptions")
        read, _ = read_plain(await endpoint.body(request), media, "Scale", declared.wire)
        if not isinstance(read, dict):
            raise BadRequest("the object provided is unrecognized (must be of type Scale)")
        check_typed(read, SCALE.api_version, SCALE.kind, SCALE.version)
        body = read
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
            owners = _owned_replicas(endpoint, declared, op, live, patch.body, bool(options.force))
            wanted = {**before, "spec": patch.body.get("spec") or {}}
        else:
            wanted = patch.apply(before)
        metadata = wanted.get("metadata") or {}
        if metadata.get("name", op.name) != op.name:
            raise BadRequest(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({op.name})"
            )
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if type(replicas) is not int or replicas > _MAX:
            what = "string" if isinstance(replicas, str) else "number"
            text = f"json: cannot unmarshal {what} into Go struct field ScaleSpec.spec.replicas of type int32"
            if patch is not None:
                raise patch_invalid(encode_as_shown(wanted, False), text)
            raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {text}')
        if replicas < 0:
            raise _negative(endpoint, declared, op.name, replicas)
        new: Object = copied(live)
        if applying:
            new["metadata"]["managedFields"] = owners
        SimplePath.parse(declared.spec_replicas_path).set(new, replicas)
        if patch is None or "resourceVersion" in (patch.body if isinstance(patch.body, dict) else {}).get(
            "metadata", {}
        ):
            given = metadata.get("resourceVersion")
            if given:
                new["metadata"]["resourceVersion"] = given
        if metadata.get("uid") and metadata["uid"] != live["metadata"].get("uid"):
            raise writes.uid_conflict(store, op, metadata["uid"], live["metadata"].get("uid", ""))
        return new

    def show(obj: Object) -> Object:
        return scale_of(endpoint, declared, obj, before_update=True)

    def take_off(scale: Object, obj: Object) -> Object:
        new: Object = copied(obj)
        SimplePath.parse(declared.spec_replicas_path).set(new, (scale.get("spec") or {}).get("replicas", 0))
        return new

    kind = declared.kind or SCALE
    obj, _ = await writes.update(
        store, op, compute, own_fields=not applying, guise=writes.Guise(kind, show, take_off)
    )
    return _answer(endpoint, request, accepted, scale_of(endpoint, declared, obj))


def _answer(endpoint: Endpoint, request: Request, accepted: Accepted, scale: Object) -> Response:
    """A Scale in the form that was asked for."""
    if accepted.transform == "Table":
        maker = TableMaker(endpoint.resource, _SHOWN, endpoint.include(request, accepted))
        metadata = {"resourceVersion": scale["metadata"].get("resourceVersion", "")}
        return respond(request, accepted, encode(maker.table([scale], metadata, accepted.version)))
    if accepted.transform:
        return respond(request, accepted, encode(partial(scale, accepted.version)))
    return respond(request, accepted, encode(scale))


def _owned_replicas(
    endpoint: Endpoint, declared: ScaleSubresource, op: Operation, live: Object, config: Object, force: bool
) -> list[Object]:
    """The managed fields of the parent after an apply of its Scale, which conflicts like any other apply."""
    paths = _paths(endpoint, declared)
    entries = live["metadata"].get("managedFields") or []
    scale = scale_of(endpoint, declared, live, before_update=True)
    scale["metadata"]["managedFields"] = to_scale(entries, paths)
    manager = FieldManager(
        SCALE.api_version, SCALE.kind, _NODE, subresource="scale", node_for=lambda _: _NODE
    )
    applied = manager.apply(scale, config, op.field_manager, datetime.now(UTC), force=force)
    return from_scale(
        entries, applied["metadata"].get("managedFields") or [], paths, endpoint.plain.api_version
    )


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
        Column("Desired", "integer", description="Number of desired replicas", json_path=".spec.replicas"),
        Column("Available", "integer", description="Number of actual replicas", json_path=".status.replicas"),
        Column("Age", "date", description=CREATED_DESCRIPTION, json_path=".metadata.creationTimestamp"),
    ),
)


def _negative(endpoint: Endpoint, declared: ScaleSubresource, name: str, replicas: int) -> APIError:
    resource = endpoint.resource
    if resource.custom:
        path = declared.spec_replicas_path
        return invalid(
            resource.group_kind, name, [fe.invalid(path, replicas, "should be a non-negative integer")]
        )
    from kubewright.api.gvk import GroupKind

    error = fe.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    return invalid(GroupKind("autoscaling", "Scale"), name, [error])


__all__ = ["scale_of", "serve_scale"]
