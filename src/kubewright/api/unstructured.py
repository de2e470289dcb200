"""`Unstructured`: an object of any kind as a dict.

For kinds without a class, and for code that handles all kinds. It is a mapping over `raw`, with JSON names;
common fields have properties, and `metadata` is a view with the field names of `ObjectMeta`, so that helpers
work for typed and unstructured objects:

    app = Unstructured({"apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "web"}})
    app.set_nested("spec", "replicas", value=3)
    app.get_nested("spec", "template", "image", of=str, default="latest")
    app.metadata.finalizers = ["example.com/cleanup"]

The object refers to `raw` and does not copy it; `copy()` returns a deep copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final, Self, TypeVar, cast, overload

import msgspec

from .gvk import GroupVersionKind
from .meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from .presence import copy_value
from .selectors.field_paths import Key, nested_delete, nested_get, nested_set
from .values.times import format_time, parse_time

T = TypeVar("T")

_WIRE_NAMES: Final = dict(zip(ObjectMeta.__struct_fields__, ObjectMeta.__struct_encode_fields__, strict=True))
_TIMES: Final = ("creation_timestamp", "deletion_timestamp")
_STRUCT_LISTS: Final[dict[str, type]] = {
    "owner_references": OwnerReference,
    "managed_fields": ManagedFieldsEntry,
}


class MetadataView:
    """View of the `metadata` of a dict with the field names of `ObjectMeta`.

    Maps and lists of strings are those of the object; owner references and managed fields are converted to
    structs, so assign a new list to change them. Assigning `None` removes a field.
    """

    __slots__ = ("_raw",)

    _raw: dict[str, Any]

    def __init__(self, raw: dict[str, Any]) -> None:
        object.__setattr__(self, "_raw", raw)

    def __getattr__(self, name: str) -> Any:
        wire = _WIRE_NAMES.get(name)
        if wire is None:
            raise AttributeError(f"metadata has no field {name!r}")
        value = (self._raw.get("metadata") or {}).get(wire)
        if value is None:
            return None
        if name in _TIMES:
            return parse_time(value)
        struct = _STRUCT_LISTS.get(name)
        return value if struct is None else msgspec.convert(value, list[struct], strict=False)  # type: ignore[valid-type]

    def __setattr__(self, name: str, value: Any) -> None:
        wire = _WIRE_NAMES.get(name)
        if wire is None:
            raise AttributeError(f"metadata has no field {name!r}")
        if value is None:
            (self._raw.get("metadata") or {}).pop(wire, None)
            return
        if isinstance(value, datetime):
            value = format_time(value)
        elif name in _STRUCT_LISTS:
            value = msgspec.to_builtins(value)
        if self._raw.get("metadata") is None:
            self._raw["metadata"] = {}
        self._raw["metadata"][wire] = value

    def __repr__(self) -> str:
        return repr(msgspec.convert(self._raw.get("metadata") or {}, ObjectMeta, strict=False))


def _text_property(wire: str, doc: str) -> Any:
    def read(self: Unstructured) -> str:
        return (self.raw.get("metadata") or {}).get(wire) or ""

    def write(self: Unstructured, value: str) -> None:
        self.set_nested("metadata", wire, value=value)

    return property(read, write, doc=doc)


class Unstructured(MutableMapping[str, Any]):
    """An object of any kind; `raw` is its dict."""

    def __init__(self, raw: dict[str, Any] | None = None) -> None:
        self.raw: dict[str, Any] = {} if raw is None else raw

    @classmethod
    def new(cls, gvk: GroupVersionKind, name: str = "", *, namespace: str = "") -> Self:
        """Create an object of this kind with a name and namespace."""
        metadata = {key: value for key, value in (("name", name), ("namespace", namespace)) if value}
        return cls({"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata})

    @property
    def api_version(self) -> str:
        """The apiVersion, or an empty string."""
        return self.raw.get("apiVersion") or ""

    @api_version.setter
    def api_version(self, value: str) -> None:
        self.raw["apiVersion"] = value

    @property
    def kind(self) -> str:
        """The kind, or an empty string."""
        return self.raw.get("kind") or ""

    @kind.setter
    def kind(self, value: str) -> None:
        self.raw["kind"] = value

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind."""
        return GroupVersionKind.from_api_version(self.api_version, self.kind)

    @gvk.setter
    def gvk(self, value: GroupVersionKind) -> None:
        self.raw["apiVersion"], self.raw["kind"] = value.api_version, value.kind

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata with the field names of `ObjectMeta`; see `MetadataView`."""
        return cast(ObjectMeta, MetadataView(self.raw))

    name: str = _text_property("name", "The name, or an empty string.")
    generate_name: str = _text_property("generateName", "The prefix of a generated name, or an empty string.")
    namespace: str = _text_property("namespace", "The namespace, or an empty string.")
    uid: str = _text_property("uid", "The uid, or an empty string.")
    resource_version: str = _text_property("resourceVersion", "The resource version, or an empty string.")

    @property
    def labels(self) -> dict[str, str] | None:
        """The labels, not a copy."""
        labels: dict[str, str] | None = self.get_nested("metadata", "labels")
        return labels

    @labels.setter
    def labels(self, value: dict[str, str] | None) -> None:
        self.metadata.labels = value

    @property
    def annotations(self) -> dict[str, str] | None:
        """The annotations, not a copy."""
        annotations: dict[str, str] | None = self.get_nested("metadata", "annotations")
        return annotations

    @annotations.setter
    def annotations(self, value: dict[str, str] | None) -> None:
        self.metadata.annotations = value

    @property
    def is_list(self) -> bool:
        """Whether the object is a list."""
        return isinstance(self.raw.get("items"), list)

    def items_of_list(self) -> Iterator[Unstructured]:
        """Iterate over the items of a list as objects."""
        for item in self.raw.get("items") or ():
            yield Unstructured(item)

    @overload
    def get_nested(self, *keys: Key, default: Any = None) -> Any: ...
    @overload
    def get_nested(self, *keys: Key, of: type[T], default: None = None) -> T | None: ...
    @overload
    def get_nested(self, *keys: Key, of: type[T], default: T) -> T: ...
    def get_nested(self, *keys: Key, default: Any = None, of: Any = None) -> Any:
        """Return the value at the path `keys`, or `default` if it does not exist.

        Raises `NestedTypeError` if it cannot exist, because the path leads through a value that is not a map
        or list, or if it is not of the type `of`; see `nested_get`.
        """
        return nested_get(self.raw, keys, default, of=of)

    def set_nested(self, *keys: Key, value: Any) -> None:
        """Set the value at the path `keys`; missing maps are created."""
        nested_set(self.raw, keys, value)

    def delete_nested(self, *keys: Key) -> bool:
        """Delete the value at the path `keys`; return whether it existed."""
        return nested_delete(self.raw, keys)

    def copy(self) -> Self:
        """Return a deep copy with the same base."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.raw = copy_value(self.raw)
        return new

    def __getitem__(self, key: str) -> Any:
        return self.raw[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.raw[key] = value

    def __delitem__(self, key: str) -> None:
        del self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Unstructured):
            return self.raw == other.raw
        return self.raw == other if isinstance(other, Mapping) else NotImplemented

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"

    def __to_wire__(self) -> dict[str, Any]:
        return self.raw

    @classmethod
    def __from_wire__(cls, value: Any) -> Self:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, got {type(value).__name__}")
        return cls(value)
