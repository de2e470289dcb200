"""Schemas of built-in types embedded in a custom resource.

The built-in classes are generated together with a table of their schemas. Embedded in a
CustomResourceDefinition such a schema differs from the published one: references are expanded, metadata is
a plain object, and keywords that only the API server's own types use are removed (merge keys,
group-version-kind, and the zero values that published schemas give as defaults of required fields).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from kubewright.api.builtin.schemas import definitions
from kubewright.schema.structural import Schema

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
QUANTITY: Final[Schema] = {**INT_OR_STRING, "pattern": QUANTITY_PATTERN}
TIME: Final[Schema] = {"format": "date-time", "type": "string"}
RAW: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRINGS: Final[Schema] = {"additionalProperties": {"type": "string"}, "type": "object"}
OBJECT_META: Final[Schema] = {"type": "object"}
OBJECT_META_EXPANDED: Final[Schema] = {
    "properties": {
        "annotations": _STRINGS,
        "finalizers": {"items": {"type": "string"}, "type": "array"},
        "labels": _STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
    "type": "object",
}
CONDITION: Final[Schema] = {
    "properties": {
        "lastTransitionTime": TIME,
        "message": {"maxLength": 32768, "type": "string"},
        "observedGeneration": {"format": "int64", "minimum": 0, "type": "integer"},
        "reason": {
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            "type": "string",
        },
        "status": {"enum": ["True", "False", "Unknown"], "type": "string"},
        "type": {
            "maxLength": 316,
            "pattern": (
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
            "type": "string",
        },
    },
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "type": "object",
}
_KNOWN: Final[dict[str, Schema]] = {
    META + "Condition": CONDITION,
    META + "Time": TIME,
    META + "MicroTime": TIME,
    META + "Duration": {"type": "string"},
    META + "FieldsV1": {"type": "object"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": RAW,
}
_DROPPED: Final = frozenset(
    {
        "default",
        "description",
        "enum",
        "x-kubernetes-group-version-kind",
        "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-unions",
    }
)
_CORE: Final = "io.k8s.api.core.v1."
_INLINE_REFERENCES: Final = frozenset(
    _CORE + name
    for name in (
        "ConfigMapEnvSource",
        "ConfigMapProjection",
        "ConfigMapVolumeSource",
        "SecretEnvSource",
        "SecretProjection",
    )
)
"""Types that inline a LocalObjectReference and are therefore atomic."""
_EMPTY_BY_DEFAULT: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_INLINE_REFERENCES, ("name",)),
    **dict.fromkeys(
        (_CORE + "LocalObjectReference", _CORE + "ConfigMapKeySelector", _CORE + "SecretKeySelector"),
        ("name",),
    ),
    _CORE + "GRPCAction": ("service",),
}
"""Optional fields whose declared default is the empty string."""
_REF_DEFAULTS: Final = frozenset((_CORE + "AzureDiskVolumeSource", name) for name in ("cachingMode", "kind"))
"""Defaults that the Go types declare by constant name; controller-gen does not write them."""
_OWN_HOMES: Final = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.",
}


class RecursiveSchema(ValueError):
    """A built-in type that contains itself; a CustomResourceDefinition cannot express it."""


def builtin_definition(cls: type) -> str | None:
    """Return the published definition name of a built-in class, or `None` for any other class."""
    if cls.__module__ == "kubewright.api.meta":
        name = META + cls.__name__
        if name not in definitions():
            name = _CORE + cls.__name__
    else:
        root, _, group_version = cls.__module__.partition("kubewright.api.")
        if root or "." not in group_version:
            return None
        group = group_version.partition(".")[0]
        home = group_version if group in _OWN_HOMES else f"io.k8s.api.{group_version}"
        name = f"{_OWN_HOMES.get(group, '')}{home}.{cls.__name__}"
    return name if name in _KNOWN or name in definitions() else None


def builtin_schema(definition: str, *, expand_meta: bool = False) -> Schema:
    """Return a fully expanded copy of the schema of a built-in type."""
    schema: Schema = msgspec.json.decode(_written_out(definition, expand_meta))
    return schema


@lru_cache(maxsize=64)
def _written_out(definition: str, expand_meta: bool) -> bytes:
    return msgspec.json.encode(_expand({"$ref": definition}, expand_meta, ()))


def _expand(schema: Schema, expand_meta: bool, above: tuple[str, ...]) -> Schema:
    name = schema.get("$ref")
    if name is not None:
        name = name.rpartition("/")[2]
        if name == META + "ObjectMeta":
            return OBJECT_META_EXPANDED if expand_meta else OBJECT_META
        if name in _KNOWN:
            return _KNOWN[name]
        if name in above:
            cycle = " -> ".join(part.rpartition(".")[2] for part in (*above[above.index(name) :], name))
            raise RecursiveSchema(cycle)
        expanded = _expand(definitions()[name], expand_meta, (*above, name))
        for field in _EMPTY_BY_DEFAULT.get(name, ()):
            expanded["properties"][field]["default"] = ""
        if name in _INLINE_REFERENCES:
            expanded["x-kubernetes-map-type"] = "atomic"
        return expanded
    out: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {
                name: _property(schema, name, child, expand_meta, above) for name, child in value.items()
            }
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            out[key] = _expand(value, expand_meta, above)
        elif key == "required":
            out[key] = sorted(value)
        elif key not in _DROPPED:
            out[key] = value
    return out


def _property(owner: Schema, name: str, child: Schema, expand_meta: bool, above: tuple[str, ...]) -> Schema:
    expanded = _expand(child, expand_meta, above)
    own = (
        "default" in child
        and name not in owner.get("required", ())
        and (above[-1], name) not in _REF_DEFAULTS
    )
    return {**expanded, "default": child["default"]} if own else expanded
