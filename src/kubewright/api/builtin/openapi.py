"""OpenAPI definitions of the built-in types, as kube-apiserver publishes them.

The published definitions contain more than the schemas that objects are decoded and validated with: enums,
defaults of absent fields, defaults of list elements. None of that takes part in decoding, defaulting or
validation (every kind has rules of its own for these), so it is added when an OpenAPI document is built:

- an element of a list or map has its zero value as default: that of a scalar, or `{}` for an object;
- a field that is always present in JSON has its zero value as default, unless it is a pointer, list or map;
- a reference is wrapped in `allOf`, so that a default or description can be added; a few references without
  either are not wrapped;
- `enumerations.json` has the values of fields with a closed set of values, by type and field; for a list or
  map they apply to the innermost element. The source of the schemas does not contain them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion

from .types import BuiltinTypes, Schema, types_of
from .wire_messages import SCALARS

_SCALARS: Final[dict[str, Schema]] = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}
_KINDS: Final = "x-kubernetes-group-version-kind"
_ZEROS: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}

_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "autoscaling.v1.ScaleSpec": {"replicas": 0},
    "core.v1.ConfigMapEnvSource": {"name": ""},
    "core.v1.ConfigMapKeySelector": {"name": ""},
    "core.v1.ConfigMapProjection": {"name": ""},
    "core.v1.ConfigMapVolumeSource": {"name": ""},
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.ReplicationControllerSpec": {"minReadySeconds": 0},
    "core.v1.SecretEnvSource": {"name": ""},
    "core.v1.SecretKeySelector": {"name": ""},
    "core.v1.SecretProjection": {"name": ""},
    "scheduling.v1alpha2.PodGroupSpec": {"disruptionMode": "Pod"},
}
"""Defaults that do not follow from the rules above."""

_BARE: Final = {
    "apiextensions.v1.JSONSchemaProps": frozenset(
        ("additionalItems", "additionalProperties", "example", "externalDocs", "items", "not")
    ),
    "networking.v1.IngressRule": frozenset(("http",)),
}
"""References that are not wrapped in `allOf`."""


def published(
    name: str, prefix: str = "#/components/schemas/", version: KubernetesVersion = NEWEST
) -> Schema:
    """Return a definition as served under `/openapi/v3`, with references that begin with `prefix`.

    It has no descriptions, and the caller may change it. Raise `KeyError` for an unknown name.
    """
    types = types_of(version)
    source = types.definitions[name]
    if "properties" not in source:
        return _part(source, prefix, types)
    short = ".".join(name.rsplit(".", 3)[1:])
    bare = _BARE.get(short, ())
    parts: Schema = {}
    for field, part in source["properties"].items():
        parts[field] = {"$ref": prefix + part["$ref"]} if field in bare else _part(part, prefix, types)
    for field, default in chain(_DEFAULTS.get(short, {}).items(), _shown_zeros(name, types)):
        if field in parts:
            parts[field].setdefault("default", default)
    for field, values in types.enumerations.get(short, {}).items():
        part = parts.get(field)
        if part is None or not values:
            continue
        while "items" in part or "additionalProperties" in part:
            part = part.get("items") or part["additionalProperties"]
        part["enum"] = values
    made = {**_kept(source), "properties": parts}
    if _KINDS in made:
        made[_KINDS] = types.kinds_of(name, source)
    return made


def _shown_zeros(name: str, types: BuiltinTypes) -> Iterator[tuple[str, Any]]:
    """Return the fields that JSON always contains and that are not pointers, with their zero values."""
    messages = types.messages
    if name not in messages:
        source = types.definitions[name]
        for required in source.get("required") or ():
            kind = source["properties"][required].get("type")
            if kind in _ZEROS:
                yield required, _ZEROS[kind]
        return
    for field in messages[name].fields:
        if field.inline:
            yield from _shown_zeros(field.type, types)
        elif field.always and not (field.pointer or field.label):
            if field.type in "siIbd":
                yield field.name, field.zero
            elif field.type not in SCALARS and messages[field.type].shape == "object":
                yield field.name, {}


def _kept(schema: Schema) -> Schema:
    return {
        key: value
        for key, value in schema.items()
        if key != "properties"
        and key != "x-kubernetes-preserve-unknown-fields"
        and not key.startswith("x-kubewright-")
    }


def _part(schema: Schema, prefix: str, types: BuiltinTypes) -> Schema:
    """Convert a field, or a definition without fields."""
    scalar = _SCALARS.get(schema.get("format", ""))
    if scalar is not None:
        return dict(scalar)
    out = _kept(schema)
    reference = out.pop("$ref", None)
    if reference is not None:
        out["allOf"] = [{"$ref": prefix + reference}]
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _element(out[key], prefix, types)
    return out


def _element(schema: Schema, prefix: str, types: BuiltinTypes) -> Schema:
    """Convert the element type of a list or map."""
    reference = schema.get("$ref")
    if reference is not None and "properties" not in types.definitions[reference]:
        return {"$ref": prefix + reference}
    out = _part(schema, prefix, types)
    if reference is not None:
        out.setdefault("default", {})
    elif out.get("type") in _ZEROS and out.get("format", "int") in ("int", "int32", "int64"):
        out.setdefault("default", _ZEROS[out["type"]])
    return out
