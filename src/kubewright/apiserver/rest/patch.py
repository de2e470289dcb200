"""PATCH requests: from the body of a patch to the object that is written.

The four kinds of patch are in `patching`. Here is what surrounds them: which kinds a resource takes, what
the result has to look like, and what a client is told about fields that nobody knows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.builtin_schemas import in_type_order
from kubewright.api.errors import APIError, BadRequest, UnsupportedMediaType, internal_error
from kubewright.api.go_format import format_value
from kubewright.api.gvk import GroupVersion, GroupVersionKind
from kubewright.apiserver.encoding.negotiation import encode
from kubewright.apiserver.encoding.request_body import (
    check_name,
    check_namespace,
    check_typed,
    encode_as_shown,
    report,
    shape,
    strict_patch_error,
    type_problem,
)
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.objects import Object, deep_copy
from kubewright.apiserver.strategy import Operation

from . import writes
from .options import parse_write_options
from .patch_body import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    PatchBody,
    patch_invalid,
    unsupported_patch,
)

if TYPE_CHECKING:
    from .endpoint import ResourceEndpoint


async def patch_object(
    endpoint: ResourceEndpoint, request: HTTPRequest, info: RequestInfo, subresource: str
) -> HTTPResponse:
    """Patch an object, or one of its subresources."""
    accepted = endpoint.accepted(request)
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if media not in endpoint.resource.patch_types:
        if not endpoint.resource.custom:
            raise UnsupportedMediaType("415: Unsupported Media Type", details={})
        raise unsupported_patch(endpoint.resource.patch_types)
    applying = media == APPLY_PATCH
    options = parse_write_options(request, "PatchOptions", apply=applying)
    data = await endpoint.body(request)
    try:
        patch = PatchBody(media, data, endpoint.version.schema)
    except BadRequest:
        if not applying:
            await endpoint.store.read(info.namespace, info.name)  # what is missing is said first
        raise
    if not endpoint.resource.custom and media in (STRATEGIC_PATCH, APPLY_PATCH):
        patch.body = _with_whole_numbers(patch.body)
    op = endpoint.operation(
        request,
        info,
        "patch",
        dry_run=options.dry_run,
        options=options.to_object("PatchOptions"),
        manager=options.field_manager,
    )
    validation = options.field_validation

    async def compute(live: Object | None) -> Object:
        if applying:
            new = await _applied(endpoint, op, patch.body, live, subresource, bool(options.force))
            _report_repeated(request, patch, validation)
        else:
            assert live is not None
            new = patch.apply(live)
        return _patched(endpoint, op, deep_copy(new), live, patch, validation, subresource, applying)

    obj, created = await writes.update(
        endpoint.store,
        op,
        compute,
        create_missing=applying and not subresource,
        may_create=endpoint.permission(request, info, "create"),
        own_fields=not applying,
    )
    return endpoint.answer(request, accepted, obj, 201 if created else 200)


def _report_repeated(request: HTTPRequest, patch: PatchBody, validation: str) -> None:
    """Keys that an applied configuration has twice; conflicts are said before."""
    if patch.repeated and validation == "Strict":
        listed = "".join(f"\n  {text}" for text in patch.repeated)
        complaint = f"error converting YAML to JSON: yaml: unmarshal errors:{listed}"
        raise BadRequest(f"error strict decoding YAML: {complaint}")
    if validation == "Warn":
        for text in patch.repeated:
            if text not in request.warnings:
                request.warn(text)


async def _applied(
    endpoint: ResourceEndpoint,
    op: Operation,
    config: Object,
    live: Object | None,
    subresource: str,
    force: bool,
) -> Object:
    metadata = config.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    given = (metadata or {}).get("name")
    if given or live is None:
        check_name(config, op.name)
    config = {**config, "metadata": {**(metadata or {}), "name": op.name}}
    wanted, now = config, datetime.now(UTC)
    new = await endpoint.store.own(
        endpoint.version,
        subresource,
        lambda owner: owner.apply(live, wanted, op.field_manager, now, force=force),
    )
    if live is None:
        new = {**new, "metadata": {**new["metadata"]}}
        if endpoint.resource.namespaced:
            new["metadata"].setdefault("namespace", op.namespace)
    return new


def _patched(
    endpoint: ResourceEndpoint,
    op: Operation,
    new: Object,
    live: Object | None,
    patch: PatchBody,
    validation: str,
    subresource: str,
    applying: bool,
) -> Object:
    """Read the result of a patch as if it had been sent."""
    request = op.request
    assert request is not None
    api_version = endpoint.plain.api_version
    problem = type_problem(new)
    if problem:
        raise patch_invalid(_shown(endpoint, patch, new), problem)
    if not endpoint.resource.custom:
        if patch.kind in (JSON_PATCH, MERGE_PATCH):
            _check_still_itself(endpoint, patch, new)
        new["apiVersion"], new["kind"] = api_version, endpoint.resource.kind
    elif not new.get("kind"):
        shown = _shown(endpoint, patch, new)
        raise patch_invalid(shown, f"Object 'Kind' is missing in '{shown}'")
    elif not new.get("apiVersion"):
        raise internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    before = _shown(endpoint, patch, new) if validation == "Strict" and not applying else ""
    try:
        unknown = shape(
            new,
            endpoint.resource,
            endpoint.version,
            endpoint.resource.kind,
            keep_nulls=applying and endpoint.resource.custom,
        )
    except BadRequest as error:
        converted = getattr(error.__cause__, "converted", "")
        if applying:
            if endpoint.resource.custom or not converted:
                raise
            raise _inconvertible(endpoint, patch.body, converted) from None
        if patch.kind == STRATEGIC_PATCH and converted:
            raise patch_invalid(format_value(patch.body), converted) from None
        shown = _shown(endpoint, patch, new)
        raise patch_invalid(shown, str(error.message).partition(": ")[2]) from None
    if endpoint.resource.custom and new["apiVersion"] != api_version:
        unknown += _unknown_elsewhere(endpoint, new)
    if (unknown or patch.repeated) and not applying and validation != "Ignore":
        if validation == "Strict":
            shown = format_value(patch.body) if patch.kind == STRATEGIC_PATCH else before
            raise strict_patch_error(shown, patch.repeated + unknown)
        report(
            patch.repeated,
            unknown,
            endpoint.version.name,
            endpoint.resource.kind,
            validation,
            request.warn,
        )
    check_name(new, op.name)
    check_namespace(new, op.namespace)
    return endpoint.isolate(new, live, subresource)


def _unknown_elsewhere(endpoint: ResourceEndpoint, patched: Object) -> list[str]:
    """Nothing is known of the fields that an object has in a version that there is not."""
    group, version = GroupVersion.parse(patched["apiVersion"])
    resource = endpoint.resource
    if (group, patched["kind"]) != (resource.group, resource.kind) or resource.version(version) is not None:
        return []
    return [f'unknown field "{name}"' for name in patched if name not in ("apiVersion", "kind", "metadata")]


def _with_whole_numbers(value: Any) -> Any:
    """Typed kinds take 2.0 for 2 where plain data becomes theirs without being written as JSON in between."""
    if type(value) is dict:
        return {name: _with_whole_numbers(item) for name, item in value.items()}
    if type(value) is list:
        return [_with_whole_numbers(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 1 << 63 else value


def _shown(endpoint: ResourceEndpoint, patch: PatchBody, patched: Object) -> str:
    """A patched object as errors show it."""
    resource = endpoint.resource
    if resource.custom:
        return encode_as_shown(patched, True)
    gvk = GroupVersionKind(resource.group, endpoint.version.name, resource.kind)
    return encode(patch.as_written(dict(sorted(in_type_order(gvk, patched).items())))).decode()


def _inconvertible(endpoint: ResourceEndpoint, config: Object, why: str) -> APIError:
    """500 for an applied configuration that fits the schema, but not the type."""
    metadata, kind = config.get("metadata") or {}, endpoint.resource.kind
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    gvk = f"{endpoint.resource.group}/{endpoint.version.name}, Kind={kind}"
    return APIError(
        f"failed to convert new object ({name}; {gvk}) to proper version: "
        f"unable to convert unstructured object to {gvk}: {why}",
        code=500,
    )


def _check_still_itself(endpoint: ResourceEndpoint, patch: PatchBody, patched: Object) -> None:
    """A patch may not turn a typed object into one of another kind; other versions are the same kind."""
    try:
        check_typed(dict(patched), endpoint.plain.api_version, endpoint.resource.kind, endpoint.version.name)
    except BadRequest as error:
        text = error.message.partition(": ")[2]
        if text:
            raise patch_invalid(_shown(endpoint, patch, patched), text) from None
