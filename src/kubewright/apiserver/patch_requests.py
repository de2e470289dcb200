"""PATCH requests: from the body of a patch to the object that is written.

The four kinds of patch are in `patching`. Here is what surrounds them: which kinds a resource takes, what
the result has to look like, and what a client is told about fields that nobody knows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubewright.api.errors import BadRequest, UnsupportedMediaType

from . import writes
from .bodies import (
    check_name,
    check_namespace,
    check_typed,
    encode_as_shown,
    go_text,
    media_type,
    report,
    shape,
    strict_patch_error,
)
from .options import parse_write_options
from .patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Patch,
    patch_invalid,
    unsupported_patch,
)
from .request import Request, Response
from .requestinfo import RequestInfo
from .resource import Object, Operation
from .shaping import copied

if TYPE_CHECKING:
    from .endpoint import Endpoint


async def patch_object(endpoint: Endpoint, request: Request, info: RequestInfo, subresource: str) -> Response:
    """Patch an object, or one of its subresources."""
    accepted = endpoint.accepted(request)
    media = media_type(request)
    if media not in endpoint.resource.patch_types:
        if not endpoint.resource.custom:
            raise UnsupportedMediaType("415: Unsupported Media Type", details={})
        raise unsupported_patch(endpoint.resource.patch_types)
    applying = media == APPLY_PATCH
    options = parse_write_options(request, "PatchOptions", apply=applying)
    patch = Patch(media, await endpoint.body(request), endpoint.version.schema)
    op = endpoint.operation(
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
            new = await _applied(endpoint, op, patch.body, live, subresource, bool(options.force))
        else:
            assert live is not None
            new = patch.apply(live)
        return _patched(endpoint, op, copied(new), live, patch, validation, subresource, applying)

    obj, created = await writes.update(
        endpoint.store,
        op,
        compute,
        create_missing=applying and not subresource,
        may_create=endpoint.permission(request, info, "create"),
        own_fields=not applying,
    )
    return endpoint.answer(request, accepted, obj, 201 if created else 200)


async def _applied(
    endpoint: Endpoint, op: Operation, config: Object, live: Object | None, subresource: str, force: bool
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
    endpoint: Endpoint,
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
    api_version = endpoint.plain.api_version
    if not endpoint.resource.custom:
        if patch.kind in (JSON_PATCH, MERGE_PATCH):
            _check_still_itself(endpoint, new)
        new["apiVersion"], new["kind"] = api_version, endpoint.resource.kind
    before = encode_as_shown(new, endpoint.resource.custom) if validation == "Strict" and not applying else ""
    try:
        unknown = shape(
            new,
            endpoint.resource,
            endpoint.version,
            endpoint.resource.kind,
            keep_nulls=applying and endpoint.resource.custom,
        )
    except BadRequest as error:
        if applying:
            raise
        shown = encode_as_shown(new, endpoint.resource.custom)
        raise patch_invalid(shown, str(error.message).partition(": ")[2]) from None
    if (unknown or patch.repeated) and not applying:
        if validation == "Strict":
            shown = go_text(patch.body) if patch.kind == STRATEGIC_PATCH else before
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


def _check_still_itself(endpoint: Endpoint, patched: Object) -> None:
    """A patch may not turn a typed object into one of another kind; other versions are the same kind."""
    try:
        check_typed(dict(patched), endpoint.plain.api_version, endpoint.resource.kind, endpoint.version.name)
    except BadRequest as error:
        text = error.message.partition(": ")[2]
        if text:
            raise patch_invalid(encode_as_shown(patched, False), text) from None
