"""Schemas and protobuf messages of the built-in kinds, loaded at first use.

A schema is a structural OpenAPI v3 schema without descriptions: types, formats, required fields, list and map
types, patch merge keys and strategies, defaults of the fields that identify list elements. References name a
definition (`{"$ref": "io.k8s.api.core.v1.PodSpec"}`) and may have keywords beside them that override it.
`definitions()` maps names to definitions and loads the file of a group version when it is first needed.

Extensions of OpenAPI:

- `format: quantity` and `format: int-or-string` go with `x-kubernetes-int-or-string`. A quantity may also be
  any JSON number.
- `x-kubewright-precision: 6` marks times with microseconds.
- `x-kubewright-nulls: absent`, at the root of a kind: `null` for any field means that the field is absent, as
  in kube-apiserver. `nullable` is not repeated for every field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kubewright.api.gvk import GroupVersionKind

from .wire_messages import Messages

if TYPE_CHECKING:
    from .typed_codec import TypedCodec

Schema = dict[str, Any]
_ValueT = TypeVar("_ValueT")

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


def message_name(api_version: str, kind: str) -> str | None:
    """Return the name of a built-in kind in `wire_messages()`, from the apiVersion and kind of an object."""
    name = definition_name(GroupVersionKind.from_api_version(api_version, kind))
    return name if name in wire_messages() else None


class _Tables(Mapping[str, _ValueT]):
    """Entries by definition name; the file of a group version is loaded when one of its names is needed."""

    def __init__(self, folder: str) -> None:
        self._known: dict[str, _ValueT] = {}
        self._folder = files("kubewright.api") / folder
        self._unread = {
            entry.name.removesuffix(".json")
            for entry in self._folder.iterdir()
            if entry.name.endswith(".json")
        }

    def _read(self, home: str) -> None:
        # Two threads may read the same file; its entries are known before it counts as read.
        self._known.update(msgspec.json.decode((self._folder / f"{home}.json").read_bytes()))
        self._unread.discard(home)

    def __getitem__(self, name: str) -> _ValueT:
        found = self._known.get(name)
        if found is None:
            home = "meta.v1" if name.startswith("io.k8s.apimachinery.") else ".".join(name.split(".")[-3:-1])
            if home in self._unread:
                self._read(home)
            found = self._known[name]
        return found

    def _all(self) -> dict[str, _ValueT]:
        for home in sorted(self._unread):
            self._read(home)
        return self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


@cache
def definitions() -> Mapping[str, Schema]:
    """Return all definitions of the built-in types, by OpenAPI name."""
    return _Tables[Schema]("schemas")


@cache
def wire_messages() -> Messages:
    """Return the protobuf messages of the built-in types, by OpenAPI name."""
    return Messages(_Tables[str]("wire"))


@cache
def _typed_codec() -> TypedCodec:
    from .typed_codec import TypedCodec

    return TypedCodec(wire_messages())


def as_typed(gvk: GroupVersionKind, obj: Any) -> Any:
    """Decode and re-encode an object of a built-in kind as kube-apiserver does: see `typed_codec`.

    Return a new object. Raise `TypedDecodeError` for a value that does not fit its field and `KeyError` for
    kinds that are not built in.
    """
    return _typed_codec().normalize(definition_name(gvk), obj)


def in_type_order(gvk: GroupVersionKind, obj: Any) -> Any:
    """Return an object of a built-in kind with its fields in the order of the Go struct."""
    try:
        return _typed_codec().in_field_order(definition_name(gvk), obj)
    except KeyError:
        return obj


@cache
def _schema_of(name: str) -> Schema:
    return {**definitions()[name], "x-kubewright-nulls": "absent"}


def schema_for(gvk: GroupVersionKind) -> tuple[Schema, Mapping[str, Schema]]:
    """Return the schema of a built-in kind and the definitions that it refers to.

    Raise `KeyError` for a kind that is not built in.
    """
    try:
        return _schema_of(definition_name(gvk)), definitions()
    except KeyError:
        raise KeyError(f"{gvk} is not a built-in kind with a schema") from None


__all__ = [
    "as_typed",
    "definition_name",
    "definitions",
    "message_name",
    "module_of",
    "schema_for",
    "wire_messages",
]
