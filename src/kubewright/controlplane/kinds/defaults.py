"""Default values as tables from field paths to values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.apiserver.resources.objects import Object

_Path = tuple[tuple[str, bool], ...]
"""Names of fields, and whether each is a list whose items are meant."""


@dataclass(frozen=True)
class IfEmpty:
    """A default that also replaces an empty string, an empty list, 0 and false."""

    value: Any


class Defaults:
    """Set default values by field path, in the order of the table.

        Defaults({"spec.suspend": False, "spec.type": IfEmpty("ClusterIP"), "spec.ports[*].protocol": "TCP"})

    A field is set if it is absent and the object that contains it exists. A function in place of a value is
    called with the object at the path.
    """

    __slots__ = ("_groups",)

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._groups: list[tuple[_Path, list[tuple[str, Any]]]] = []
        for path, value in table.items():
            *parents, name = path.split(".")
            if callable(value):
                parents, name = path.split("."), ""
            where = tuple((part.removesuffix("[*]"), part.endswith("[*]")) for part in parents)
            if not self._groups or self._groups[-1][0] != where:
                self._groups.append((where, []))
            self._groups[-1][1].append((name, value))

    def __call__(self, obj: Object) -> None:
        """Set the defaults of an object, in place."""
        for path, fields in self._groups:
            _visit(obj, path, fields)


def _visit(obj: Object, path: _Path, fields: list[tuple[str, Any]]) -> None:
    if path:
        name, is_list = path[0]
        child = obj.get(name)
        if is_list:
            for item in child or ():
                _visit(item, path[1:], fields)
        elif isinstance(child, dict):
            _visit(child, path[1:], fields)
        return
    for name, value in fields:
        if callable(value):
            value(obj)
        elif isinstance(value, IfEmpty):
            if not obj.get(name):
                obj[name] = _copy(value.value)
        elif obj.get(name) is None:
            obj[name] = _copy(value)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
