"""Request bodies: JSON, YAML or protobuf to decoded objects, with the errors of kube-apiserver.

Decoding also yields the strict decoding errors (unknown and duplicate fields); the request's
`fieldValidation` decides whether they are errors, warnings or ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import yaml

from kubewright.api.builtin.typed_codec import TypedDecodeError
from kubewright.api.errors import APIError, BadRequest, Invalid, UnsupportedMediaType
from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionKind
from kubewright.api.values.go_format import json_type_name
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.resources import object_schema
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Resource, Version
from kubewright.apiserver.resources.subresource import Subresource
from kubewright.schema import field_errors as fe
from kubewright.schema.duplicates import duplicate_fields as find_duplicate_fields
from kubewright.schema.duplicates import field_paths, merged_duplicates
from kubewright.schema.validation.metadata import METADATA_FIELDS, MetadataError
from kubewright.schema.version import TooDeepError

from .json_errors import json_error
from .negotiation import JSON, MEDIA_TYPES, PROTOBUF, YAML, encode
from .yaml import load_yaml

Warn = Callable[[str], object]

_MAX_STRICT_ERRORS = 100
"""kube-apiserver reports no more unknown and duplicate fields of one body."""

_decode = msgspec.json.Decoder().decode
_PARAMETERS = re.compile(
    r"""(?:;\s*[\w!#$%&'*+.^`|~-]+=(?:[\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*")\s*)*;?\s*"""
)
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def media_type(request: HTTPRequest) -> str:
    """Return the media type of the body: JSON by default, the whole header if its parameters are
    malformed."""
    header = request.headers.get("Content-Type", "")
    kind, separator, rest = header.partition(";")
    if separator and not _PARAMETERS.fullmatch(separator + rest):
        return header
    return kind.strip().lower() or JSON


def decode_plain(data: bytes, media: str, kind: str, wire: Any = None) -> tuple[Any, list[str]]:
    """Decode a body to plain data; returns it with errors for duplicate YAML keys.

    For duplicate fields of JSON see `duplicate_fields`. `kind` is named in errors; `wire` decodes protobuf.
    """
    if media == JSON:
        try:
            return _decode(data), []
        except UnicodeDecodeError:
            # Go's decoder replaces invalid UTF-8.
            return decode_plain(data.decode("utf-8", "replace").encode(), media, kind)
        except (msgspec.DecodeError, RecursionError) as error:
            why = f"couldn't get version/kind; json parse error: {json_error(data, error)}"
            raise unrecognized(kind, why, data) from None
    if media == YAML:
        try:
            return load_yaml(data)
        except yaml.YAMLError as error:
            raise unrecognized(kind, str(error), data) from None
    if media == PROTOBUF and wire is not None:
        try:
            return wire.decode(data), []
        except ValueError as error:
            raise unrecognized(kind, str(error), data) from None
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}"
    )


def decode_object(
    data: bytes,
    media: str,
    resource: Resource,
    version: Version,
    *,
    validation: str,
    warn: Warn,
    wire: Any = None,
) -> Object:
    """Decode a body as an object of this resource and version: checked, pruned and defaulted.

    `validation` is the request's fieldValidation; `warn` receives warnings.
    """
    kind = resource.kind
    decoded, duplicates = decode_plain(data, media, kind, wire)
    if decoded is not None and type(decoded) is not dict:
        raise unrecognized(kind, unreadable_type(decoded), data)
    obj: Object = decoded or {}
    repeated = duplicate_fields(data, obj) if media == JSON else []
    if repeated and not resource.custom:
        obj = merged_duplicates(data)
    check_type(obj, resource, version, data)
    unknown = decode_fields(obj, resource, version, kind)
    if validation != "Ignore":
        if media == JSON:
            duplicates = [f'duplicate field "{path}"' for path in repeated]
            if not resource.custom and duplicates and unknown:
                # An unknown field that occurs twice is reported as unknown only.
                fields = set(unknown)
                duplicates = [text for text in duplicates if f"unknown{text[9:]}" not in fields]
            if not resource.custom and len(duplicates) + len(unknown) > 1:
                duplicates, unknown = in_body_order(data, [*duplicates, *unknown]), []
        report_strict_errors(duplicates, unknown, version.name, kind, validation, warn, is_yaml=media == YAML)
    return obj


def decode_builtin(
    data: bytes, media: str, resource: Resource, declared: Subresource, *, validation: str, warn: Warn
) -> Object:
    """Decode a body of a built-in kind that has no resource of its own (a TokenRequest, an Eviction)."""
    gvk = declared.kind
    assert gvk is not None
    obj, duplicates = decode_plain(data, media, gvk.kind, declared.wire)
    obj = {} if obj is None else obj
    problem = type_meta_error(obj) if type(obj) is dict else unreadable_type(obj)
    if problem:
        raise unrecognized(gvk.kind, problem, data)
    if media == JSON and validation != "Ignore":
        duplicates = [f'duplicate field "{path}"' for path in duplicate_fields(data, obj)]
    if obj.get("apiVersion") in declared.body_versions:
        obj["apiVersion"] = gvk.api_version
    check_builtin_type(obj, resource, gvk)
    try:
        unknown = [f'unknown field "{path}"' for path in declared.checks.decode(obj)]
    except (MetadataError, TooDeepError, TypedDecodeError) as error:
        raise BadRequest(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}'
        ) from None
    if validation != "Ignore":
        report_strict_errors(
            duplicates, unknown, gvk.version, gvk.kind, validation, warn, is_yaml=media == YAML
        )
    return obj


def decode_fields(
    obj: Object, resource: Resource, version: Version, kind: str, *, keep_nulls: bool = False
) -> list[str]:
    """Coerce metadata, prune and default an object; returns an error for each unknown field, in order."""
    metadata = obj.get("metadata")
    if not resource.custom and type(metadata) is dict and metadata.get("managedFields") == []:
        # An empty list resets all owners; a list with one empty entry means the same and is not omitted.
        metadata["managedFields"] = [{}]
    try:
        unknown = object_schema.decode_fields(obj, version, resource, keep_nulls=keep_nulls)
    except (MetadataError, TooDeepError, TypedDecodeError) as error:
        text = str(error)
        if not resource.custom and isinstance(error, MetadataError):
            text = text.replace("Go struct field ObjectMeta.", "Go struct field ObjectMeta.metadata.")
        raise BadRequest(
            f'{kind} in version "{version.name}" cannot be handled as a {kind}: {text}'
        ) from error
    return [f'unknown field "{path}"' for path in unknown]


def duplicate_fields(data: bytes, obj: Any) -> list[str]:
    """Return the paths of fields that a JSON body contains more than once.

    Decoding keeps one of two equal keys, so an encoded object has fewer quotation marks than its body. This
    test is cheap; only bodies that fail it are searched.
    """
    if data.count(b'"') == encode(obj).count(b'"'):
        return []
    try:
        return find_duplicate_fields(data)
    except ValueError:
        return []


def in_body_order(data: bytes, errors: list[str]) -> list[str]:
    """Sort errors about the fields of a JSON body by the position of the fields."""
    paths = [text.partition('"')[2].rpartition('"')[0] for text in errors]
    places = {path: place for place, path in enumerate(field_paths(data, set(paths)))}
    order = sorted(range(len(errors)), key=lambda at: places.get(paths[at], len(places)))
    return [errors[at] for at in order]


def check_type(obj: Object, resource: Resource, version: Version, data: bytes) -> None:
    """Check that `apiVersion` and `kind` are those of the endpoint; built-in kinds may omit them."""
    kind, api_version = resource.kind, str(GroupVersion(resource.group, version.name))
    given_kind, given = obj.get("kind"), obj.get("apiVersion")
    if given_kind == kind and given == api_version:
        return
    problem = type_meta_error(obj)
    if problem:
        raise unrecognized(kind, problem, data)
    text = data.decode("utf-8", "replace")
    if not resource.custom:
        if given and given.endswith("/") and given != "/":
            raise BadRequest(
                f'{kind} in version "" cannot be handled as a {kind}: '
                f"Object 'apiVersion' is missing in '{text}'"
            )
        check_builtin_type(obj, resource, resource.gvk(version.name))
        return
    if not given_kind:
        raise unrecognized(kind, f"Object 'Kind' is missing in '{text}'", data)
    if given != api_version:
        raise version_mismatch(given or "", api_version)


def check_builtin_type(obj: Object, resource: Resource, wanted: GroupVersionKind) -> None:
    """Check the type of a built-in object, and set what it omits."""
    kind, api_version = obj.get("kind") or wanted.kind, obj.get("apiVersion") or wanted.api_version
    if kind != wanted.kind or api_version != wanted.api_version:
        given = GroupVersionKind.from_api_version(api_version, kind)
        if not (given.group or given.version):
            given = GroupVersionKind(wanted.group, wanted.version, kind)
        if given != wanted:
            raise resource.kind_mismatch(given, wanted)
    obj["apiVersion"], obj["kind"] = wanted.api_version, kind


def type_meta_error(obj: Object) -> str:
    """Return why `apiVersion` and `kind` cannot be decoded, or an empty string."""
    for name in ("apiVersion", "kind"):
        value = obj.get(name)
        if value is not None and type(value) is not str:
            problem = (
                f"json: cannot unmarshal {json_type_name(value)} into Go struct field .{name} of type string"
            )
            return f"couldn't get version/kind; json parse error: {problem}"
    given = obj.get("apiVersion") or ""
    return f"unexpected GroupVersion string: {given}" if given.count("/") > 1 else ""


def unreadable_type(value: Any) -> str:
    """Return why plain data that is not an object has no kind."""
    return (
        f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type_name(value)} "
        f"into Go value of type {_TYPE_META}"
    )


def report_strict_errors(
    duplicates: list[str],
    unknown: list[str],
    version: str,
    kind: str,
    validation: str,
    warn: Warn,
    *,
    is_yaml: bool = False,
) -> None:
    """Report strict decoding errors: as a 400 under Strict validation, otherwise as warnings."""
    if not duplicates and not unknown:
        return
    unknown = unknown[: max(_MAX_STRICT_ERRORS - len(duplicates), 0)]
    duplicates = duplicates[:_MAX_STRICT_ERRORS]
    if validation == "Strict":
        if is_yaml and duplicates:
            listed = ["yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in duplicates), *unknown]
        else:
            listed = duplicates + unknown
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
            + ", ".join(listed)
        )
    for text in (*duplicates, *unknown):
        warn(text)


def encode_for_message(obj: Object, *, custom: bool) -> str:
    """Encode an object for an error message: sorted keys, metadata of built-in kinds in declaration order."""
    if custom:
        return msgspec.json.encode(obj, order="sorted").decode()
    shown = dict(sorted(obj.items()))
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        shown["metadata"] = {name: metadata[name] for name in METADATA_FIELDS if name in metadata} | metadata
    return encode(shown).decode()


def strict_patch_error(shown: str, errors: list[str]) -> APIError:
    """Return the 422 for a patch whose result has strict decoding errors."""
    error = fe.invalid("patch", shown, "strict decoding error: " + ", ".join(errors[:_MAX_STRICT_ERRORS]))
    return Invalid(f'{GroupKind("", "")} "" is invalid: {error}', details={"causes": [error.cause()]})


def unrecognized(kind: str, why: str, data: bytes) -> BadRequest:
    """Return the 400 for a body that is not an object of any kind."""
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_excerpt(data)})"
    )


def _excerpt(data: bytes) -> str:
    """Return the beginning of a body for a message; hexadecimal unless it starts like an object."""
    if not data:
        return "<empty>"
    if data.lstrip()[:1] == b"{":
        shown = data[:30].decode("utf-8", "replace")
        return f"{shown} ..." if len(data) > 30 else shown
    return f"{data[:30].hex()} ..." if len(data) > 30 else data.hex()


def version_mismatch(given: str, wanted: str) -> BadRequest:
    """Return the 400 for an object of another version than that of the endpoint."""
    return BadRequest(
        f"the API version in the data ({given}) does not match the expected API version ({wanted})"
    )


def check_namespace(obj: Object, namespace: str) -> None:
    """Reject an object that names another namespace than the URL."""
    given = obj["metadata"].get("namespace")
    if given and namespace and given != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(obj: Object, name: str) -> None:
    """Reject an object without the name in the URL."""
    metadata = obj.get("metadata")
    given = metadata.get("name") if isinstance(metadata, dict) else None
    if not given:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")
