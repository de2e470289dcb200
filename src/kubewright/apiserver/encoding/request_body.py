"""Request bodies: bytes in JSON, YAML or protobuf to plain data, with the complaints that Kubernetes has.

Besides the object, reading gives the *strictness* problems (unknown and duplicate fields); whether they are
errors, warnings or nothing is up to the request's `fieldValidation`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from kubewright.api.builtin_resources import definition_name, resource_of_kind
from kubewright.api.errors import APIError, BadRequest, Invalid, UnsupportedMediaType
from kubewright.api.gvk import GroupVersion, GroupVersionKind
from kubewright.api.typed_codec import TypedDecodeError
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Resource, Version
from kubewright.apiserver.rest.object_schema import read
from kubewright.schema.duplicates import duplicate_fields as exact_duplicates
from kubewright.schema.duplicates import field_paths, merged_duplicates
from kubewright.schema.validation.metadata import METADATA_FIELDS, MetadataError
from kubewright.schema.version import TooDeepError

from .json_errors import json_complaint
from .negotiation import JSON, MEDIA_TYPES, PROTOBUF, YAML, encode
from .yaml import load_yaml

_decode = msgspec.json.Decoder().decode

_PARAMETERS = re.compile(
    r"""(?:;\s*[\w!#$%&'*+.^`|~-]+=(?:[\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*")\s*)*;?\s*"""
)


def media_type(request: HTTPRequest) -> str:
    """The media type of the body; none is JSON, and one with broken parameters is unknown as a whole."""
    header = request.headers.get("Content-Type", "")
    kind, separator, rest = header.partition(";")
    if separator and not _PARAMETERS.fullmatch(separator + rest):
        return header
    return kind.strip().lower() or JSON


def duplicate_fields(data: bytes, obj: Any) -> list[str]:
    """Paths of fields that a JSON body has twice.

    Decoding keeps one of two equal keys, so re-encoding has fewer quotation marks than the body: a cheap test
    that spares almost every request the exact search.
    """
    if data.count(b'"') == encode(obj).count(b'"'):
        return []
    try:
        return exact_duplicates(data)
    except ValueError:
        return []


def excerpt(data: bytes) -> str:
    """The beginning of a body, for a message; hexadecimal unless it looks like an object."""
    if not data:
        return "<empty>"
    if data.lstrip()[:1] == b"{":
        shown = data[:30].decode("utf-8", "replace")
        return f"{shown} ..." if len(data) > 30 else shown
    return f"{data[:30].hex()} ..." if len(data) > 30 else data.hex()


def unrecognized(kind: str, why: str, data: bytes) -> BadRequest:
    """400 for a body that is no object of any kind."""
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({excerpt(data)})"
    )


def read_plain(data: bytes, media: str, kind: str, wire: Any = None) -> tuple[Any, list[str]]:
    """Plain data of a body, and complaints about repeated keys (for JSON see `duplicate_fields`)."""
    if media == JSON:
        try:
            return _decode(data), []
        except (msgspec.DecodeError, RecursionError) as error:
            why = f"couldn't get version/kind; json parse error: {json_complaint(data, error)}"
            raise unrecognized(kind, why, data) from None
    if media == YAML:
        try:
            obj, duplicates = load_yaml(data)
        except yaml.YAMLError as error:
            raise unrecognized(kind, str(error), data) from None
        return obj, duplicates
    if media == PROTOBUF and wire is not None:
        try:
            return wire.decode(data), []
        except ValueError as error:
            raise unrecognized(kind, str(error), data) from None
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}"
    )


_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def unreadable_type(value: Any) -> str:
    """Why plain data that is no object has no kind."""
    shown = {str: "string", list: "array", bool: "bool", type(None): "null"}.get(type(value), "number")
    return (
        f"couldn't get version/kind; json parse error: json: cannot unmarshal {shown} into Go value "
        f"of type {_TYPE_META}"
    )


def read_object(
    data: bytes,
    media: str,
    resource: Resource,
    version: Version,
    *,
    validation: str,
    warn: Any,
    wire: Any = None,
    kind: str = "",
) -> Object:
    """A body as an object of this resource and version: checked, pruned and defaulted.

    `validation` is the request's fieldValidation; `warn` takes warnings. `kind` stands in for the resource's
    own where a subresource speaks another.
    """
    kind = kind or resource.kind
    read, duplicates = read_plain(data, media, kind, wire)
    if read is not None and type(read) is not dict:
        raise unrecognized(kind, unreadable_type(read), data)
    obj: Object = read or {}
    repeats = duplicate_fields(data, obj) if media == JSON else ()
    if repeats and not resource.custom:
        obj = merged_duplicates(data)
    check_type(obj, resource, version, kind, data)
    problems = shape(obj, resource, version, kind)
    if validation != "Ignore":
        if media == JSON:
            repeated = [f'duplicate field "{path}"' for path in repeats]
            if not resource.custom and len(repeated) + len(problems) > 1:
                repeated, problems = in_order(data, [*repeated, *problems]), []
        else:
            repeated = duplicates
        report(repeated, problems, version.name, kind, validation, warn, yaml_body=media == YAML)
    return obj


_OLD_EVICTION = "policy/v1beta1"
"""Evictions were asked for so before there was a v1, and still are: the server reads both alike."""


def read_typed(
    data: bytes,
    media: str,
    gvk: GroupVersionKind,
    checks: Any,
    *,
    validation: str,
    warn: Any,
    wire: Any = None,
) -> Object:
    """A body as an object of a built-in kind that is no resource of its own (a TokenRequest, an Eviction)."""
    obj, duplicates = read_plain(data, media, gvk.kind, wire)
    obj = {} if obj is None else obj
    problem = type_problem(obj) if type(obj) is dict else unreadable_type(obj)
    if problem:
        raise unrecognized(gvk.kind, problem, data)
    repeated = duplicates
    if media == JSON and validation != "Ignore":
        repeated = [f'duplicate field "{path}"' for path in duplicate_fields(data, obj)]
    if gvk.kind == "Eviction" and obj.get("apiVersion") == _OLD_EVICTION:
        obj["apiVersion"] = gvk.api_version
    check_typed(obj, gvk.api_version, gvk.kind, gvk.version)
    try:
        unknown = [f'unknown field "{path}"' for path in checks.decode(obj)]
    except (MetadataError, TooDeepError, TypedDecodeError) as error:
        raise BadRequest(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}'
        ) from None
    if validation != "Ignore":
        report(repeated, unknown, gvk.version, gvk.kind, validation, warn, yaml_body=media == YAML)
    return obj


def check_type(obj: Object, resource: Resource, version: Version, kind: str, data: bytes) -> None:
    """`apiVersion` and `kind` must be those of the endpoint; typed kinds may leave them out."""
    api_version = str(GroupVersion(resource.group, version.name))
    given_kind, given = obj.get("kind"), obj.get("apiVersion")
    if given_kind == kind and given == api_version:
        return
    problem = type_problem(obj)
    if problem:
        raise unrecognized(kind, problem, data)
    if resource.custom:
        if not given_kind:
            text = data.decode("utf-8", "replace")
            raise unrecognized(kind, f"Object 'Kind' is missing in '{text}'", data)
        if given != api_version:
            raise BadRequest(
                f"the API version in the data ({given or ''}) does not match "
                f"the expected API version ({api_version})"
            )
        return
    check_typed(obj, api_version, kind, version.name)


def type_problem(obj: Object) -> str:
    """Why `apiVersion` and `kind` of an object cannot be read at all: they have to be text, and the former
    the version of a group. Empty if they can."""
    for name in ("apiVersion", "kind"):
        value = obj.get(name)
        if value is not None and type(value) is not str:
            word = {bool: "bool", list: "array", dict: "object"}.get(type(value), "number")
            problem = f"json: cannot unmarshal {word} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {problem}"
    given = obj.get("apiVersion") or ""
    return f"unexpected GroupVersion string: {given}" if given.count("/") > 1 else ""


_RETIRED = {
    "admissionregistration.k8s.io": ("v1beta1",),
    "apiextensions.k8s.io": ("v1beta1",),
    "apiregistration.k8s.io": ("v1beta1",),
    "apps": ("v1beta1", "v1beta2"),
    "authentication.k8s.io": ("v1alpha1", "v1beta1"),
    "authorization.k8s.io": ("v1beta1",),
    "batch": ("v1beta1",),
    "certificates.k8s.io": ("v1beta1",),
    "coordination.k8s.io": ("v1beta1",),
    "discovery.k8s.io": ("v1beta1",),
    "events.k8s.io": ("v1beta1",),
    "flowcontrol.apiserver.k8s.io": ("v1beta1", "v1beta2", "v1beta3"),
    "networking.k8s.io": ("v1beta1",),
    "node.k8s.io": ("v1alpha1", "v1beta1"),
    "policy": ("v1beta1",),
    "rbac.authorization.k8s.io": ("v1alpha1", "v1beta1"),
    "scheduling.k8s.io": ("v1beta1",),
    "storage.k8s.io": ("v1alpha1", "v1beta1"),
}
"""Versions that are no longer served, but that a server still knows how to read."""
_LATER = {
    ("apps", "v1beta1"): ("DaemonSet", "ReplicaSet"),
    ("authentication.k8s.io", "v1alpha1"): ("TokenRequest", "TokenReview"),
    ("authentication.k8s.io", "v1beta1"): ("TokenRequest",),
    ("batch", "v1beta1"): ("Job",),
    ("networking.k8s.io", "v1beta1"): ("NetworkPolicy",),
    ("storage.k8s.io", "v1alpha1"): ("CSIDriver", "CSINode", "StorageClass"),
}
"""Kinds that those versions never had."""
_MOVED = {
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Ingress": "networking.k8s.io",
    "NetworkPolicy": "networking.k8s.io",
    "ReplicaSet": "apps",
    "Scale": "autoscaling",
}
"""Kinds that began in `extensions/v1beta1`, and the group where they are now."""


def _same_kind_elsewhere(gvk: GroupVersionKind, group: str) -> bool:
    """Whether an object of this kind could be read, if it were not sent to the wrong version."""
    if gvk.group == "extensions":
        return gvk.version == "v1beta1" and _MOVED.get(gvk.kind) == group
    if gvk.group != group:
        return False
    if gvk.kind in _LATER.get((group, gvk.version), ()):
        return False
    return resource_of_kind(gvk) is not None or gvk.version in _RETIRED.get(group, ())


def _is_known(gvk: GroupVersionKind) -> bool:
    """Whether there is such a kind, or a list of such a kind."""
    if resource_of_kind(gvk) is not None or gvk == ("", "v1", "List"):
        return True
    item = gvk._replace(kind=gvk.kind.removesuffix("List"))
    return item != gvk and resource_of_kind(item) is not None


_SCHEMES = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}


def _scheme(group: str) -> str:
    """What the server of a group, of those that Kubernetes is made of, calls its table of kinds."""
    return _SCHEMES.get(group, "pkg/api/legacyscheme/scheme.go:30")


def check_typed(obj: Object, api_version: str, kind: str, version: str) -> None:
    """Refuse an object that says it is of another kind; what it does not say is filled in."""
    given_kind, given = obj.get("kind") or kind, obj.get("apiVersion") or api_version
    if given_kind != kind or given != api_version:
        shown = version if given == api_version else given.rpartition("/")[2]
        gvk = GroupVersionKind.from_api_version(given, given_kind)
        if given_kind == kind and _same_kind_elsewhere(gvk, GroupVersion.parse(api_version).group):
            raise BadRequest(
                f"the API version in the data ({given}) does not match "
                f"the expected API version ({api_version})"
            )
        scheme = _scheme(GroupVersion.parse(api_version).group)
        if _is_known(gvk) and scheme == _scheme(gvk.group):
            wanted = definition_name(GroupVersionKind.from_api_version(api_version, kind)).split(".")[-3]
            raise BadRequest(
                f'{given_kind} in version "{shown}" cannot be handled as a {kind}: converting '
                f"({shown}.{given_kind}) to ({wanted}.{kind}): unknown conversion"
            )
        raise BadRequest(
            f'{given_kind} in version "{shown}" cannot be handled as a {kind}: no kind "{given_kind}" is '
            f'registered for version "{given}" in scheme "{scheme}"'
        )
    obj["apiVersion"] = api_version
    obj["kind"] = kind


def shape(
    obj: Object, resource: Resource, version: Version, kind: str, *, keep_nulls: bool = False
) -> list[str]:
    """Coerce metadata, prune, default; returns one complaint per unknown field, in order."""
    metadata = obj.get("metadata")
    if not resource.custom and type(metadata) is dict and metadata.get("managedFields") == []:
        # An empty list asks to forget all owners; one empty entry says the same and is not left out.
        metadata["managedFields"] = [{}]
    try:
        unknown = read(obj, version, resource, keep_nulls=keep_nulls)
    except (MetadataError, TooDeepError, TypedDecodeError) as error:
        text = str(error)
        if not resource.custom and isinstance(error, MetadataError):
            text = text.replace("Go struct field ObjectMeta.", "Go struct field ObjectMeta.metadata.")
        raise BadRequest(
            f'{kind} in version "{version.name}" cannot be handled as a {kind}: {text}'
        ) from error
    return [f'unknown field "{path}"' for path in unknown]


def report(
    repeated: list[str],
    unknown: list[str],
    version: str,
    kind: str,
    validation: str,
    warn: Any,
    *,
    yaml_body: bool = False,
) -> None:
    """Turn strictness problems into warnings, or into a 400."""
    if not repeated and not unknown:
        return
    if validation == "Strict":
        if yaml_body and repeated:
            listed = ["yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in repeated), *unknown]
        else:
            listed = repeated + unknown
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
            + ", ".join(listed)
        )
    for text in (*repeated, *unknown):
        warn(text)


def encode_as_shown(obj: Object, custom: bool) -> str:
    """An object as errors show it: keys in order, but metadata of typed kinds in the order of its type."""
    if custom:
        return msgspec.json.encode(obj, order="sorted").decode()
    shown = dict(sorted(obj.items()))
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        shown["metadata"] = {name: metadata[name] for name in METADATA_FIELDS if name in metadata} | metadata
    return encode(shown).decode()


def in_order(data: bytes, problems: list[str]) -> list[str]:
    """Problems with the fields of a JSON body, in the order in which a reader meets them."""
    places = {path: place for place, path in enumerate(field_paths(data))}
    return sorted(
        problems, key=lambda text: places.get(text.partition('"')[2].rpartition('"')[0], len(places))
    )


def strict_patch_error(shown: str, problems: list[str]) -> APIError:
    """422 for a patch whose result has unknown or repeated fields, under Strict validation."""
    from kubewright.api.gvk import GroupKind
    from kubewright.schema import field_errors as fe

    error = fe.invalid("patch", shown, "strict decoding error: " + ", ".join(problems))
    return Invalid(f'{GroupKind("", "")} "" is invalid: {error}', details={"causes": [error.cause()]})


def check_namespace(obj: Object, namespace: str) -> None:
    """An object may name no other namespace than the URL."""
    given = obj["metadata"].get("namespace")
    if given and namespace and given != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(obj: Object, name: str) -> None:
    """An object has to have the name that the URL has."""
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
