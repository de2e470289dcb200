"""Conversion between two versions by rules for fields, without code.

    converter = Converter(ShopV2)
    converter.spoke(
        ShopV1,
        rules=(
            Move("spec.size", "spec.replicas"),
            Wrap("spec.port", "spec.ports", key="number"),
            MapValues("spec.mode", {"fast": "Fast", "slow": "Slow"}),
            DefaultHub("spec.strategy", "Rolling"),
        ),
    )

Each rule defines both directions. The first path is that of the spoke, the second that of the hub, as in
manifests; `[]` stands for every item of a list (`spec.ports[].number`). Fields without a rule are copied.

Rules do not have to be complete: what the other version cannot represent is stored in an annotation and
restored in the other direction (`preserved_fields`). `DefaultHub` and `DefaultSpoke` declare such fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from kubewright.api.presence import copy_value

from .preserved_fields import MISSING, Document


class FieldRule(Protocol):
    """A rule for fields; changes documents in place."""

    def to_hub(self, document: Document) -> None:
        """Convert from the spoke to the hub."""

    def from_hub(self, document: Document) -> None:
        """Convert from the hub to the spoke."""


@dataclass(frozen=True, slots=True)
class Move:
    """A field that has another name or place in the hub."""

    spoke: str
    hub: str

    def __post_init__(self) -> None:
        if _list_prefix(self.spoke) != _list_prefix(self.hub):
            raise ValueError(f"Move: {self.spoke} and {self.hub} are not in the same list")

    def to_hub(self, document: Document) -> None:
        """Move the field to its place in the hub."""
        self._move(document, self.spoke, self.hub)

    def from_hub(self, document: Document) -> None:
        """Move the field to its place in the spoke."""
        self._move(document, self.hub, self.spoke)

    def _move(self, document: Document, source: str, target: str) -> None:
        for item, source_path, target_path in _items(document, source, target):
            value = _pop(item, source_path)
            if value is not MISSING:
                _set(item, target_path, value)


@dataclass(frozen=True, slots=True)
class Wrap:
    """A single value in the spoke that is a list in the hub, of objects with a field `key` or of values.

    The spoke has the first item; further ones, and further fields of it, are preserved.
    """

    spoke: str
    hub: str
    key: str = ""

    def to_hub(self, document: Document) -> None:
        """Put the value into a list."""
        for item, spoke, hub in _items(document, self.spoke, self.hub):
            value = _pop(item, spoke)
            if value is not MISSING:
                _set(item, hub, [{self.key: value} if self.key else value])

    def from_hub(self, document: Document) -> None:
        """Take the value from the first item."""
        for item, spoke, hub in _items(document, self.spoke, self.hub):
            values = _pop(item, hub)
            if isinstance(values, list) and values:
                first = values[0].get(self.key, MISSING) if self.key else values[0]
                if first is not MISSING:
                    _set(item, spoke, first)


@dataclass(frozen=True, slots=True)
class MapValues:
    """A field whose values have other names in the hub. Values that are not listed are copied."""

    path: str
    values: Mapping[str, str]
    """Values of the spoke, and the corresponding values of the hub."""

    def __post_init__(self) -> None:
        if len(set(self.values.values())) != len(self.values):
            raise ValueError(
                f"MapValues({self.path!r}): two values of the spoke have the same value in the hub"
            )

    def to_hub(self, document: Document) -> None:
        """Replace values of the spoke."""
        self._map(document, self.values)

    def from_hub(self, document: Document) -> None:
        """Replace values of the hub."""
        self._map(document, {hub: spoke for spoke, hub in self.values.items()})

    def _map(self, document: Document, values: Mapping[str, str]) -> None:
        for item, path, _ in _items(document, self.path, self.path):
            value = _get(item, path)
            if isinstance(value, str) and value in values:
                _set(item, path, values[value])


@dataclass(frozen=True, slots=True)
class DefaultHub:
    """A field that only the hub has: objects of the spoke get `value`, or the default of its schema."""

    path: str
    value: Any = MISSING

    def to_hub(self, document: Document) -> None:
        """Set the field."""
        _set_default(document, self.path, self.value)

    def from_hub(self, document: Document) -> None:
        """Remove the field."""
        _remove(document, self.path)


@dataclass(frozen=True, slots=True)
class DefaultSpoke:
    """A field that only the spoke has: objects of the hub get `value`, or the default of its schema."""

    path: str
    value: Any = MISSING

    def to_hub(self, document: Document) -> None:
        """Remove the field."""
        _remove(document, self.path)

    def from_hub(self, document: Document) -> None:
        """Set the field."""
        _set_default(document, self.path, self.value)


class RuleSet:
    """The rules of one spoke. Methods take complete objects, as in JSON, and return changed copies."""

    def __init__(self, rules: Sequence[FieldRule]) -> None:
        self.rules = tuple(rules)
        moved = [(rule.spoke, rule.hub) for rule in self.rules if isinstance(rule, Move | Wrap)]
        self._hidden_in_hub = _without_counterpart([hub for _, hub in moved], [spoke for spoke, _ in moved])
        self._hidden_in_spoke = _without_counterpart([spoke for spoke, _ in moved], [hub for _, hub in moved])

    @property
    def paths(self) -> set[str]:
        """The paths that rules name, as in manifests."""
        values = (getattr(rule, name, None) for rule in self.rules for name in ("spoke", "hub", "path"))
        return {value for value in values if isinstance(value, str)}

    def to_hub(self, spoke: Document) -> Document:
        """Convert an object of the spoke."""
        hub: Document = copy_value(spoke)
        for path in self._hidden_in_hub:
            _remove(hub, path)
        for rule in self.rules:
            rule.to_hub(hub)
        return hub

    def from_hub(self, hub: Document) -> Document:
        """Convert an object of the hub."""
        spoke: Document = copy_value(hub)
        for path in self._hidden_in_spoke:
            _remove(spoke, path)
        for rule in reversed(self.rules):
            rule.from_hub(spoke)
        return spoke


def _without_counterpart(targets: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Return the targets of moved fields at which the source version may have another field of that name."""
    return [
        target
        for target in targets
        if not any(
            f"{source}.".startswith(f"{target}.") or source.startswith(f"{target}[]") for source in sources
        )
    ]


def _list_prefix(path: str) -> str:
    return path.rpartition("[].")[0]


def _items(
    document: Document, one: str, other: str
) -> Iterable[tuple[Document, tuple[str, ...], tuple[str, ...]]]:
    """Return the objects that two paths are relative to, and the relative paths."""
    lists, first, second = _steps(one, other)
    items: list[Any] = [document]
    for step in lists:
        found = [_get(item, step) for item in items]
        items = [item for each in found if isinstance(each, list) for item in each]
    return [(item, first, second) for item in items if isinstance(item, dict)]


@lru_cache(maxsize=1024)
def _steps(one: str, other: str) -> tuple[list[tuple[str, ...]], tuple[str, ...], tuple[str, ...]]:
    """Return the steps to the lists that two paths share, and the steps of both below these lists."""
    prefix = _list_prefix(one)
    skip = len(prefix) + 3 if prefix else 0
    lists = [tuple(step.split(".")) for step in prefix.split("[].")] if prefix else []
    return lists, tuple(one[skip:].split(".")), tuple(other[skip:].split("."))


def _get(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return MISSING
        document = document[name]
    return document


def _set(document: Document, path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        child = document.get(name)
        if not isinstance(child, dict):
            child = document[name] = {}
        document = child
    document[path[-1]] = value


def _pop(document: Document, path: tuple[str, ...]) -> Any:
    """Remove a field and return its value; objects that become empty are removed, too."""
    parents = [document]
    for name in path[:-1]:
        child = parents[-1].get(name)
        if not isinstance(child, dict):
            return MISSING
        parents.append(child)
    value = parents[-1].pop(path[-1], MISSING)
    if value is not MISSING:
        for depth in range(len(parents) - 1, 1, -1):
            if not parents[depth]:
                del parents[depth - 1][path[depth - 1]]
    return value


def _set_default(document: Document, path: str, value: Any) -> None:
    if value is MISSING:
        return
    for item, relative, _ in _items(document, path, path):
        if _get(item, relative) is MISSING:
            _set(item, relative, copy_value(value))


def _remove(document: Document, path: str) -> None:
    for item, relative, _ in _items(document, path, path):
        _pop(item, relative)
