"""Names of definitions by group; a lookup costs the same with any number of definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .conditions import is_true

Definition = dict[str, Any]


class NameIndex:
    """The accepted names of all definitions, and the definitions that wait for a name."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str, str], set[str]] = {}
        """Definitions by group, category (`resource` or `kind`) and name."""
        self._held: dict[str, list[tuple[str, str, str]]] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def put(self, crd: Definition) -> None:
        """Index the current state of a definition."""
        name, group = crd["metadata"]["name"], crd["spec"]["group"]
        self.discard(name)
        keys = self._held[name] = list(_keys(crd, group))
        for key in keys:
            self._owners.setdefault(key, set()).add(name)
        if not is_true(crd, "NamesAccepted"):
            self._waiting.setdefault(group, {})[name] = None

    def discard(self, name: str) -> None:
        """Remove a definition."""
        for key in self._held.pop(name, ()):
            owners = self._owners[key]
            owners.discard(name)
            if not owners:
                del self._owners[key]
        group = name.partition(".")[2]
        waiting = self._waiting.get(group)
        if waiting is not None:
            waiting.pop(name, None)
            if not waiting:
                del self._waiting[group]

    def waiting(self, group: str) -> list[str]:
        """Return the definitions of a group whose names are not accepted."""
        return list(self._waiting.get(group) or ())

    def taken_by_others(self, crd: Definition) -> TakenNames:
        """Return the names that a definition cannot have."""
        return TakenNames(self, crd["spec"]["group"], crd["metadata"]["name"])

    def has_other_owner(self, key: tuple[str, str, str], name: str) -> bool:
        """Return whether a definition other than `name` has a name."""
        owners = self._owners.get(key)
        return owners is not None and (len(owners) > 1 or name not in owners)


class TakenNames:
    """The names of one group that other definitions have."""

    def __init__(self, index: NameIndex, group: str, definition: str) -> None:
        self._index = index
        self._group = group
        self._definition = definition

    def has(self, category: str, value: str) -> bool:
        """Return whether a `resource` name or a `kind` is taken."""
        return self._index.has_other_owner((self._group, category, value), self._definition)


def _keys(crd: Definition, group: str) -> Iterator[tuple[str, str, str]]:
    names = (crd.get("status") or {}).get("acceptedNames") or {}
    resources = (names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ()))
    for value in dict.fromkeys(resources):
        yield group, "resource", value
    for value in dict.fromkeys((names.get("kind") or "", names.get("listKind") or "")):
        yield group, "kind", value
