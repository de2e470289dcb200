"""`BuiltinTypes`: schemas and protobuf messages of the built-in types of one version of Kubernetes.

The newest version has the tables in `schemas` and `wire`, one file per group version, loaded when one of its
names is needed. Other versions are the same tables without the fields that they lack (`fields` of
`kubernetes_versions.json`); types that had another form are in `kubernetes_former_types.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kubewright.api.kubernetes_version import KubernetesVersion, version_table

from .wire_messages import Messages

if TYPE_CHECKING:
    from .typed_codec import TypedCodec

Schema = dict[str, Any]
_ValueT = TypeVar("_ValueT")
_KINDS: Final = "x-kubernetes-group-version-kind"
_KINDS_OF_ALL_GROUPS: Final = frozenset(
    f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}" for kind in ("DeleteOptions", "WatchEvent")
)


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


class _FormerTables(Mapping[str, _ValueT]):
    """The entries of an older version, from those of the newest one."""

    def __init__(
        self,
        version: KubernetesVersion,
        newest: Mapping[str, _ValueT],
        section: str,
        without: Callable[[_ValueT, set[str]], _ValueT],
    ) -> None:
        self._version = version
        self._newest = newest
        self._forms: dict[str, dict[str, _ValueT]] = former_types()[section]
        self._without = without
        self._known: dict[str, _ValueT] = {}

    def __getitem__(self, name: str) -> _ValueT:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._derive(name)
        return found

    def _derive(self, name: str) -> _ValueT:
        for versions, form in self._forms.get(name, {}).items():
            if self._version.includes(versions):
                return form
        fields = version_table()["fields"].get(name, {})
        absent = {field for field, versions in fields.items() if not self._version.includes(versions)}
        newest = self._newest[name]
        return self._without(newest, absent) if absent else newest

    def __iter__(self) -> Iterator[str]:
        former = (name for name in self._forms if name not in self._newest and name in self)
        return iter((*self._newest, *former))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self[name] is not None
        except KeyError:
            return False

    def __len__(self) -> int:
        return len(list(iter(self)))


class _EnabledTables(Mapping[str, Schema]):
    """Schemas without the fields of disabled feature gates."""

    def __init__(self, schemas: Mapping[str, Schema], disabled: Mapping[str, set[str]]) -> None:
        self._schemas = schemas
        self._disabled = disabled
        self._known: dict[str, Schema] = {}

    def __getitem__(self, name: str) -> Schema:
        absent = self._disabled.get(name)
        if absent is None:
            return self._schemas[name]
        if name not in self._known:
            self._known[name] = _schema_without(self._schemas[name], absent)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)


@cache
def _newest(folder: str) -> Mapping[str, Any]:
    return _Tables[Any](folder)


@cache
def former_types() -> dict[str, Any]:
    """Return the types of older versions that cannot be derived from the newest ones."""
    text = (files("kubewright.api") / "kubernetes_former_types.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Any])


def _schema_without(schema: Schema, absent: set[str]) -> Schema:
    copy = dict(schema)
    copy["properties"] = {name: part for name, part in schema["properties"].items() if name not in absent}
    copy["required"] = [name for name in schema.get("required", ()) if name not in absent]
    return copy if copy["required"] else {key: copy[key] for key in copy if key != "required"}


def _message_without(line: str, absent: set[str]) -> str:
    return ";".join(part for part in line.split(";") if part.split(" ")[1] not in absent)


class BuiltinTypes:
    """Schemas, protobuf messages and decoding of the built-in types of a version."""

    def __init__(self, version: KubernetesVersion) -> None:
        self.version = version

    @cached_property
    def definitions(self) -> Mapping[str, Schema]:
        """The schemas, by OpenAPI name."""
        newest = _newest("schemas")
        if self.version.is_newest:
            return newest
        return _FormerTables(self.version, newest, "schemas", _schema_without)

    @cached_property
    def enabled_definitions(self) -> Mapping[str, Schema]:
        """The schemas without the fields whose feature gates are disabled by default."""
        gates = self.version.gates()
        disabled = {
            name: {field for field, gate in fields.items() if gate in gates and not gates[gate].enabled}
            for name, fields in version_table()["gated fields"].items()
        }
        return _EnabledTables(self.definitions, {name: fields for name, fields in disabled.items() if fields})

    @cached_property
    def messages(self) -> Messages:
        """The protobuf messages, by OpenAPI name."""
        newest = _newest("wire")
        if self.version.is_newest:
            return Messages(newest)
        return Messages(_FormerTables(self.version, newest, "messages", _message_without))

    @cached_property
    def codec(self) -> TypedCodec:
        """Decodes and encodes objects as kube-apiserver does."""
        from .typed_codec import TypedCodec

        return TypedCodec(self.messages)

    @cached_property
    def enumerations(self) -> Mapping[str, Mapping[str, list[str]]]:
        """The values of fields with a closed set of values, by type (`core.v1.Pod`) and field."""
        text = (files("kubewright.api") / "enumerations.json").read_bytes()
        found = msgspec.json.decode(text, type=dict[str, dict[str, list[str]]])
        if self.version.is_newest:
            return found
        for name, fields in version_table()["enumerations"].items():
            for field, forms in fields.items():
                for versions, values in forms.items():
                    if self.version.includes(versions):
                        found.setdefault(name, {})[field] = values
        return found

    def kinds_of(self, name: str, schema: Schema) -> Any:
        """Return the kinds of a definition: those of every group have the groups of the version."""
        kinds = schema.get(_KINDS)
        if name not in _KINDS_OF_ALL_GROUPS or self.version.is_newest:
            return kinds
        assert kinds is not None
        versions = version_table()["group versions"]
        return [
            kind
            for kind in kinds
            if self.version.includes(versions.get(f"{kind['group']}/{kind['version']}", ""))
        ]


@cache
def types_of(version: KubernetesVersion) -> BuiltinTypes:
    """Return the built-in types of a version."""
    return BuiltinTypes(version)
