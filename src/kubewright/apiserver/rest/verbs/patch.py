"""PATCH: from a patch to the object that is stored.

`patch_body` decodes the four patch types; `PatchHandler` applies them and decodes the result as if it had
been sent, with the errors and warnings of kube-apiserver.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from kubewright.api.builtin.schemas import in_type_order
from kubewright.api.errors import APIError, BadRequest, internal_error
from kubewright.api.gvk import GroupVersion, GroupVersionKind
from kubewright.api.values.go_format import format_value
from kubewright.apiserver.encoding.negotiation import encode
from kubewright.apiserver.encoding.request_body import (
    check_builtin_type,
    check_name,
    check_namespace,
    decode_fields,
    encode_for_message,
    report_strict_errors,
    strict_patch_error,
    type_meta_error,
)
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.resource import APPLY_PATCH, STRATEGIC_PATCH, Resource
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.options import WriteOptions, parse_write_options
from kubewright.apiserver.rest.patch_body import (
    PatchBody,
    patch_invalid,
    unsupported_patch,
)
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.routing_errors import UnknownMediaType
from kubewright.apiserver.slices import run_in_worker

_IDENTITY_FIELDS = frozenset(("apiVersion", "kind", "metadata"))


def patch_media_type(request: HTTPRequest, resource: Resource) -> str:
    """Return the type of a patch; raises `UnsupportedMediaType`."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if media not in resource.patch_types:
        if not resource.custom:
            raise UnknownMediaType
        raise unsupported_patch(resource.patch_types)
    return media


class PatchHandler:
    """Serves PATCH of an object, or of a subresource that is stored with it."""

    def __init__(self, scope: EndpointScope) -> None:
        self._scope = scope

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Patch the object; an apply configuration creates it if it does not exist."""
        scope = self._scope
        response_format = scope.negotiate(request)
        media = patch_media_type(request, scope.resource)
        is_apply = media == APPLY_PATCH
        options = parse_write_options(request, "PatchOptions", apply=is_apply)
        patch = await self._decode(request, info, media)
        op = scope.write_operation(request, info, "patch", options, "PatchOptions")
        obj, created = await scope.store.updater.update(
            op,
            Patching(scope, request, op, patch, options).compute,
            allow_create=is_apply and not info.subresource,
            authorize_create=scope.authorize(request, info, "create"),
            track_fields=not is_apply,
        )
        return scope.respond(request, response_format, obj, 201 if created else 200)

    async def _decode(self, request: HTTPRequest, info: RequestInfo, media: str) -> PatchBody:
        scope = self._scope
        data = await scope.read_body(request)
        decode = partial(_decode_patch, media, data, scope)
        try:
            patch = await run_in_worker(decode) if scope.store.is_long(len(data)) else decode()
        except BadRequest:
            if media != APPLY_PATCH:
                await scope.store.read(info.namespace, info.name)  # 404 comes before 400
            raise
        return patch


def _decode_patch(media: str, data: bytes, scope: EndpointScope) -> PatchBody:
    patch = PatchBody(media, data, scope.version.schema)
    if not scope.resource.custom and media in (STRATEGIC_PATCH, APPLY_PATCH):
        patch.body = _with_whole_numbers(patch.body)
    return patch


class Patching:
    """One PATCH request of an object: computes the patched object, again for each attempt of the update."""

    def __init__(
        self,
        scope: EndpointScope,
        request: HTTPRequest,
        op: Operation,
        patch: PatchBody,
        options: WriteOptions,
    ) -> None:
        self.scope = scope
        self.resource = scope.resource
        self.request = request
        self.op = op
        self.patch = patch
        self.options = options
        self.is_apply = patch.kind == APPLY_PATCH

    async def compute(self, live: Object | None) -> Object:
        """Return the patched object, decoded and checked."""
        if self.is_apply:
            finish = partial(self._decode_applied, await self._apply_configuration(live))
        else:
            assert live is not None
            finish = partial(self._apply_patch, live)
        new = await run_in_worker(finish) if self.op.is_long else finish()
        check_name(new, self.op.name)
        check_namespace(new, self.op.namespace)
        return self.scope.restrict_to_subresource(new, live, self.op.subresource)

    def _decode_applied(self, applied: Object) -> Object:
        """Return the result of an apply, decoded and checked."""
        new: Object = deep_copy(applied)
        self._report_duplicate_keys()
        if self.scope.version.type is not None:
            _restore_empty(new, self.patch.body)
        self._check_type(new)
        self._decode_result(new)
        return new

    def _apply_patch(self, live: Object) -> Object:
        """Return the result of any other patch, decoded and checked."""
        patched = self.patch.apply(live)
        changed = self._decode_changed_fields(patched, live)
        if changed is not None:
            return changed
        new: Object = deep_copy(patched)
        self._check_type(new)
        self._decode_result(new)
        return new

    def _decode_changed_fields(self, patched: Object, live: Object) -> Object | None:
        """Decode a patched status without the fields that the patch has not changed.

        Those are stored in canonical form already, and a write of the status does not store them. Return
        `None` if the whole object has to be decoded, because of its kind or to report an error.
        """
        if (
            self.op.subresource != "status"
            or self.resource.custom
            or self.resource.strategy.status_defaults_need_spec
            or self.options.field_validation == "Strict"
        ):
            return None
        unchanged = {
            name: value
            for name, value in patched.items()
            if name not in _IDENTITY_FIELDS and live.get(name) is value
        }
        if not unchanged:
            return None
        new: Object = deep_copy({name: value for name, value in patched.items() if name not in unchanged})
        try:
            self._check_type(new)
            if decode_fields(new, self.resource, self.scope.version, self.resource.kind):
                return None
        except APIError:
            return None
        return None if self.patch.duplicates else {**new, **unchanged}

    async def _apply_configuration(self, live: Object | None) -> Object:
        scope, op, config = self.scope, self.op, self.patch.body
        metadata = config.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise BadRequest("metadata must be an object")
        if live is None or (metadata or {}).get("name"):
            check_name(config, op.name)
        config = {**config, "metadata": {**(metadata or {}), "name": op.name}}
        now, force = datetime.now(UTC), bool(self.options.force)
        new = await scope.store.track_fields(
            scope.version,
            op.subresource,
            lambda manager: manager.apply(live, config, op.field_manager, now, force=force),
            is_long=op.is_long,
        )
        if live is None:
            new = {**new, "metadata": {**new["metadata"]}}
            if self.resource.namespaced:
                new["metadata"].setdefault("namespace", op.namespace)
        return new

    def _report_duplicate_keys(self) -> None:
        """Report duplicate keys of an apply configuration; conflicts are reported before them."""
        duplicates, validation = self.patch.duplicates, self.options.field_validation
        if duplicates and validation == "Strict":
            listed = "".join(f"\n  {text}" for text in duplicates)
            error = f"error converting YAML to JSON: yaml: unmarshal errors:{listed}"
            raise BadRequest(f"error strict decoding YAML: {error}")
        if validation == "Warn":
            for text in duplicates:
                self.request.warn(text)

    def _check_type(self, new: Object) -> None:
        """Check `apiVersion` and `kind` of the result."""
        problem = type_meta_error(new)
        if problem:
            raise patch_invalid(self._message_text(new), problem)
        if not self.resource.custom:
            if self.patch.kind not in (STRATEGIC_PATCH, APPLY_PATCH):
                self._check_builtin_type(new)
            new["apiVersion"], new["kind"] = self.scope.api_version, self.resource.kind
        elif not new.get("kind"):
            shown = self._message_text(new)
            raise patch_invalid(shown, f"Object 'Kind' is missing in '{shown}'")
        elif not new.get("apiVersion"):
            raise internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")

    def _check_builtin_type(self, new: Object) -> None:
        """Reject a patch that changes the kind of a built-in object; another version is the same kind."""
        try:
            check_builtin_type(dict(new), self.resource, self.resource.gvk(self.scope.version.name))
        except BadRequest as error:
            text = error.message.partition(": ")[2]
            if text:
                raise patch_invalid(self._message_text(new), text) from None

    def _decode_result(self, new: Object) -> None:
        """Prune and default the result; report unknown fields."""
        scope, resource, patch = self.scope, self.resource, self.patch
        validation = self.options.field_validation
        before = self._message_text(new) if validation == "Strict" and not self.is_apply else ""
        try:
            unknown = decode_fields(
                new,
                resource,
                scope.version,
                resource.kind,
                keep_nulls=self.is_apply and resource.custom and scope.version.type is None,
            )
        except BadRequest as error:
            raise self._undecodable(new, error) from None
        if resource.custom and new["apiVersion"] != scope.api_version:
            unknown += self._unknown_in_version(new)
        if self.is_apply or validation == "Ignore" or not (unknown or patch.duplicates):
            return
        if validation == "Strict":
            shown = format_value(patch.body) if patch.kind == STRATEGIC_PATCH else before
            raise strict_patch_error(shown, patch.duplicates + unknown)
        report_strict_errors(
            patch.duplicates, unknown, scope.version.name, resource.kind, validation, self.request.warn
        )

    def _undecodable(self, new: Object, error: BadRequest) -> APIError:
        """Return the error for a result that does not fit the type."""
        converted = getattr(error.__cause__, "converted", "")
        if self.is_apply:
            if self.resource.custom or not converted:
                return error
            return self._unconvertible(converted)
        if self.patch.kind == STRATEGIC_PATCH and converted:
            return patch_invalid(format_value(self.patch.body), converted)
        return patch_invalid(self._message_text(new), str(error.message).partition(": ")[2])

    def _unconvertible(self, why: str) -> APIError:
        """Return the 500 for an apply configuration that fits the schema, but not the type."""
        metadata, kind = self.patch.body.get("metadata") or {}, self.resource.kind
        name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
        gvk = f"{self.resource.group}/{self.scope.version.name}, Kind={kind}"
        return APIError(
            f"failed to convert new object ({name}; {gvk}) to proper version: "
            f"unable to convert unstructured object to {gvk}: {why}",
            code=500,
        )

    def _unknown_in_version(self, new: Object) -> list[str]:
        """Return an error for each field of an object whose version is not declared."""
        group, version = GroupVersion.parse(new["apiVersion"])
        resource = self.resource
        if (group, new["kind"]) != (resource.group, resource.kind) or resource.version(version) is not None:
            return []
        return [f'unknown field "{name}"' for name in new if name not in ("apiVersion", "kind", "metadata")]

    def _message_text(self, new: Object) -> str:
        """Encode a patched object as error messages contain it."""
        if self.resource.custom:
            return encode_for_message(new, custom=True)
        gvk = GroupVersionKind(self.resource.group, self.scope.version.name, self.resource.kind)
        ordered = self.patch.in_message_order(dict(sorted(in_type_order(gvk, new).items())))
        return encode(ordered).decode()


def _restore_empty(new: Object, config: Object) -> None:
    """Replace nulls by the empty objects and lists of an apply configuration.

    Removing all fields of an object by apply leaves null, which custom resources keep; a typed object has an
    empty struct there.
    """
    for name, wanted in config.items():
        current = new.get(name)
        if type(wanted) is dict and name != "metadata":
            if current is None:
                current = new[name] = {}
            if type(current) is dict:
                _restore_empty(current, wanted)
        elif wanted == [] and current is None:
            new[name] = []


def _with_whole_numbers(value: Any) -> Any:
    """Convert 2.0 to 2: built-in types accept it where a patch is converted without JSON in between."""
    if type(value) is dict:
        return {name: _with_whole_numbers(item) for name, item in value.items()}
    if type(value) is list:
        return [_with_whole_numbers(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 1 << 63 else value
