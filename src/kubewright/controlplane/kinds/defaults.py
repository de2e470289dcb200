"""Default values as tables from field paths to values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.apiserver.objects import Object


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

    __slots__ = ("_table",)

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = [(*_split(path), value) for path, value in table.items()]

    def __call__(self, obj: Object) -> None:
        """Set the defaults of an object, in place."""
        for parents, name, value in self._table:
            for parent in _objects(obj, parents):
                if callable(value):
                    for child in _objects(parent, (name,)):
                        value(child)
                elif isinstance(value, IfEmpty):
                    if not parent.get(name):
                        parent[name] = _copy(value.value)
                elif parent.get(name) is None:
                    parent[name] = _copy(value)


def _split(path: str) -> tuple[tuple[str, ...], str]:
    *parents, name = path.split(".")
    return tuple(parents), name


def _objects(obj: Object, names: tuple[str, ...]) -> Iterator[Object]:
    """Yield the objects at a path below `obj`."""
    if not names:
        yield obj
        return
    name = names[0]
    if name.endswith("[*]"):
        for item in obj.get(name[:-3]) or ():
            yield from _objects(item, names[1:])
        return
    child = obj.get(name)
    if isinstance(child, dict):
        yield from _objects(child, names[1:])


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


Default = Callable[[Object], None]
