"""managedFields of bootstrap objects.

Building field managers and the schemas of built-in kinds takes longer than all other parts of a start.
Bootstrap objects have few shapes, so their field sets follow from three facts about their kinds: which
structs are part of their parent (no `.` entry), which maps are atomic, and which lists are maps. Other lists
are atomic. A test compares the result with that of the field managers.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubewright.apiserver.resources.objects import Object

_INLINE: Final = frozenset({("metadata",), ("spec",), ("spec", "priorityLevelConfiguration")})
_ATOMIC: Final = frozenset({("roleRef",)})
_LIST_KEYS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("spec", "ports"): ("port", "protocol")}
_IDENTITY: Final = frozenset({"name", "namespace", "generation"})
"""Fields of the metadata that have no manager."""


def managed_fields(body: Object, *, manager: str, time: str) -> list[Object]:
    """Return the entry of the manager that creates `body`."""
    metadata = {name: value for name, value in body["metadata"].items() if name not in _IDENTITY}
    sent = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    if metadata:
        sent["metadata"] = metadata
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": body["apiVersion"],
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _map_fields(sent, ()),
        }
    ]


def _map_fields(value: Object, path: tuple[str, ...]) -> Object:
    return {
        f"f:{name}": _fields(value[name], (*path, name)) for name in sorted(value) if value[name] is not None
    }


def _fields(value: Any, path: tuple[str, ...]) -> Object:
    if isinstance(value, dict) and path not in _ATOMIC:
        own: Object = {} if path in _INLINE else {".": {}}
        return {**own, **_map_fields(value, path)}
    keys = _LIST_KEYS.get(path)
    if keys is None:
        return {}
    return {".": {}, **{f"k:{_key(item, keys)}": {".": {}, **_map_fields(item, path)} for item in value}}


def _key(item: Object, keys: tuple[str, ...]) -> str:
    return msgspec.json.encode({key: item[key] for key in keys}).decode()
