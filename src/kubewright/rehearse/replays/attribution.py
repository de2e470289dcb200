"""Which client has made a change, from the managed fields of the object before and after it.

Each write updates the time of the entry of its field manager. Within the same second an entry may stay as it
is; then the manager that owns the changed fields has made the change. A deletion leaves no trace: it is that
of the owner of the last finalizers if there were some, otherwise it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubewright.patch import merge_patch

Object = Mapping[str, Any]
_SERVER = frozenset(("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"))


def writers(before: Object | None, after: Object) -> frozenset[str]:
    """Return the field managers that can have made a change; empty if that is unknown."""
    old, new = _entries(before or {}), _entries(after)
    changed = {
        identity[0]
        for identity, entry in new.items()
        if identity not in old or old[identity].get("time") != entry.get("time")
    }
    if changed or before is None:
        return frozenset(changed)
    paths = list(changed_paths(before, after))
    return frozenset(
        identity[0]
        for identity, entry in (*new.items(), *old.items())
        if any(_owns(entry.get("fieldsV1") or {}, path) for path in paths)
    )


def finalizer_owners(obj: Object) -> frozenset[str]:
    """Return the field managers that own finalizers of an object."""
    return frozenset(
        identity[0]
        for identity, entry in _entries(obj).items()
        if _owns(entry.get("fieldsV1") or {}, ("metadata", "finalizers"))
    )


def is_of(managers: Iterable[str], names: Iterable[str]) -> bool:
    """Whether one of the field managers is an operator: its name, or that of one of its functions."""
    wanted = tuple(names)
    return any(each == name or each.startswith(f"{name}/") for each in managers for name in wanted)


def changed_paths(before: Object, after: Object) -> Iterator[tuple[str, ...]]:
    """Return the fields that differ, without those that the server maintains; a list is one field."""
    yield from _leaves(essential_diff(before, after), ())


def essential_diff(before: Object, after: Object) -> dict[str, Any]:
    """Return a merge patch without what the server maintains."""
    return merge_patch.diff(_without_server_fields(before), _without_server_fields(after))


def _without_server_fields(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name not in _SERVER}}


def _leaves(patch: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(patch, dict) and patch:
        for name, value in patch.items():
            yield from _leaves(value, (*path, name))
    elif path:
        yield path


def _entries(obj: Object) -> dict[tuple[str, str, str, str], Mapping[str, Any]]:
    found = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        names = ("manager", "operation", "subresource", "apiVersion")
        identity = tuple(str(entry.get(name) or "") for name in names)
        found[identity[0], identity[1], identity[2], identity[3]] = entry
    return found


def _owns(fields: Any, path: tuple[str, ...]) -> bool:
    """Whether a field set contains a field, or a part of it."""
    for name in path:
        if not isinstance(fields, dict):
            return False
        if f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
        if not fields:
            return True
    return True
