"""Schemas and protobuf messages of the built-in kinds, loaded at first use.

A schema is a structural OpenAPI v3 schema without descriptions: types, formats, required fields, list and map
types, patch merge keys and strategies, defaults of the fields that identify list elements. References name a
definition (`{"$ref": "io.k8s.api.core.v1.PodSpec"}`) and may have keywords beside them that override it.
`definitions()` maps names to definitions of the newest version; `builtin_types` has those of others.

Extensions of OpenAPI:

- `format: quantity` and `format: int-or-string` go with `x-kubernetes-int-or-string`. A quantity may also be
  any JSON number.
- `x-kubewright-precision: 6` marks times with microseconds.
- `x-kubewright-nulls: absent`, at the root of a kind: `null` for any field means that the field is absent, as
  in kube-apiserver. `nullable` is not repeated for every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion

from .types import types_of
from .wire_messages import Messages

Schema = dict[str, Any]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_PREFIXES: Final = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_GROUPS: Final = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}
_META_KINDS: Final = frozenset(("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"))
_KINDS_OF_ALL_GROUPS: Final = frozenset(("DeleteOptions", "WatchEvent"))
"""Kinds that every group version has: a client of `apps/v1` sends `apps/v1, Kind=DeleteOptions`."""


def _short_group(group: str) -> str:
    return _GROUPS.get(group) or group.partition(".")[0]


def module_of(gvk: GroupVersionKind) -> str:
    """Return the module of the class of a built-in kind, such as `kubewright.api.rbac.v1`."""
    group = _short_group(gvk.group)
    return f"kubewright.api.{'resources' if group == 'resource' else group}.{gvk.version}"


@lru_cache(maxsize=1024)
def definition_name(gvk: GroupVersionKind) -> str:
    """Return the OpenAPI definition name of a built-in kind."""
    if (
        gvk.kind in _KINDS_OF_ALL_GROUPS
        or gvk.group == "meta.k8s.io"
        or (not gvk.group and gvk.kind in _META_KINDS)
    ):
        return _META + gvk.kind
    group = _short_group(gvk.group)
    return f"{_PREFIXES.get(group, f'io.k8s.api.{group}')}.{gvk.version}.{gvk.kind}"


def message_name(api_version: str, kind: str, version: KubernetesVersion = NEWEST) -> str | None:
    """Return the name of the message of a built-in kind, from the apiVersion and kind of an object."""
    name = definition_name(GroupVersionKind.from_api_version(api_version, kind))
    return name if name in types_of(version).messages else None


def definitions() -> Mapping[str, Schema]:
    """Return all definitions of the built-in types, by OpenAPI name."""
    return types_of(NEWEST).definitions


def wire_messages() -> Messages:
    """Return the protobuf messages of the built-in types, by OpenAPI name."""
    return types_of(NEWEST).messages


def as_typed(gvk: GroupVersionKind, obj: Any, version: KubernetesVersion = NEWEST) -> Any:
    """Decode and re-encode an object of a built-in kind as kube-apiserver does: see `typed_codec`.

    Return a new object. Raise `TypedDecodeError` for a value that does not fit its field and `KeyError` for
    kinds that are not built in.
    """
    return types_of(version).codec.normalize(definition_name(gvk), obj)


def in_type_order(gvk: GroupVersionKind, obj: Any) -> Any:
    """Return an object of a built-in kind with its fields in the order of the Go struct."""
    try:
        return types_of(NEWEST).codec.in_field_order(definition_name(gvk), obj)
    except KeyError:
        return obj


@cache
def _schema_of(name: str, version: KubernetesVersion) -> Schema:
    return {**types_of(version).definitions[name], "x-kubewright-nulls": "absent"}


def schema_for(
    gvk: GroupVersionKind, version: KubernetesVersion = NEWEST
) -> tuple[Schema, Mapping[str, Schema]]:
    """Return the schema of a built-in kind and the definitions that it refers to.

    Raise `KeyError` for a kind that is not built in.
    """
    try:
        return _schema_of(definition_name(gvk), version), types_of(version).definitions
    except KeyError:
        raise KeyError(f"{gvk} is not a built-in kind with a schema") from None
