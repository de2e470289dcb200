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

A value of the hub that the spoke cannot represent is stored in an annotation of the spoke and restored in the
other direction, unless the field has been changed in between. No field is lost in a round trip.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Document = dict[str, Any]
ANNOTATION = "conversion.kubewright.io/hub-fields"
"""Annotation with the values of the hub that a spoke cannot represent."""
_MISSING: Any = object()
_TOP = ("apiVersion", "kind", "metadata")


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
            if value is not _MISSING:
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
            if value is not _MISSING:
                _set(item, hub, [{self.key: value} if self.key else value])

    def from_hub(self, document: Document) -> None:
        """Take the value from the first item."""
        for item, spoke, hub in _items(document, self.spoke, self.hub):
            values = _pop(item, hub)
            if isinstance(values, list) and values:
                first = values[0].get(self.key, _MISSING) if self.key else values[0]
                if first is not _MISSING:
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
    """A field of the hub that the spoke does not have; it is set to `value`, and preserved."""

    path: str
    value: Any

    def to_hub(self, document: Document) -> None:
        """Set the field."""
        _set_default(document, self.path, self.value)

    def from_hub(self, document: Document) -> None:
        """Remove the field."""
        _remove(document, self.path)


@dataclass(frozen=True, slots=True)
class DefaultSpoke:
    """A field of the spoke that the hub does not have; it is set to `value` in the spoke.

    Another value is lost in the hub: the stored version should have all fields.
    """

    path: str
    value: Any

    def to_hub(self, document: Document) -> None:
        """Remove the field."""
        _remove(document, self.path)

    def from_hub(self, document: Document) -> None:
        """Set the field."""
        _set_default(document, self.path, self.value)


class RuleSet:
    """The rules of one spoke. Methods take and return complete objects, as in JSON."""

    def __init__(self, rules: Sequence[FieldRule]) -> None:
        self.rules = tuple(rules)

    def to_hub(self, spoke: Document) -> Document:
        """Convert an object of the spoke."""
        hub = self._apply(spoke)
        metadata = hub.get("metadata") or {}
        stored = (metadata.get("annotations") or {}).get(ANNOTATION)
        if stored is not None:
            annotations = {name: text for name, text in metadata["annotations"].items() if name != ANNOTATION}
            hub["metadata"] = {**metadata, "annotations": annotations}
            for path, simple, full in _stored_values(stored):
                if _get(hub, path) == simple:
                    _set(hub, path, full)
        return hub

    def from_hub(self, hub: Document) -> Document:
        """Convert an object of the hub."""
        spoke = copy.deepcopy(hub)
        for rule in reversed(self.rules):
            rule.from_hub(spoke)
        again = self._apply(spoke)
        stored = [
            [path, _get(again, path), _get(hub, path)] for path in sorted(_changed(hub, again, ()), key=str)
        ]
        if stored:
            values = [
                [list(path), *([] if simple is _MISSING else [simple]), full]
                for path, simple, full in stored
                if full is not _MISSING
            ]
            metadata = spoke.setdefault("metadata", {})
            metadata["annotations"] = {
                **(metadata.get("annotations") or {}),
                ANNOTATION: json.dumps(values, separators=(",", ":")),
            }
        return spoke

    def _apply(self, spoke: Document) -> Document:
        hub = copy.deepcopy(spoke)
        for rule in self.rules:
            rule.to_hub(hub)
        return hub


def _stored_values(text: str) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Return paths, the values that a conversion of the unchanged spoke has there, and those of the hub."""
    try:
        values = json.loads(text)
        for path, *simple, full in values:
            yield tuple(path), simple[0] if simple else _MISSING, full
    except (TypeError, ValueError):
        # Users can change annotations; without valid values there is nothing to restore.
        return


def _changed(one: Any, other: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return the paths at which two documents differ, except in metadata; lists are compared as a whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            if path or name not in _TOP:
                yield from _changed(one.get(name, _MISSING), other.get(name, _MISSING), (*path, name))
    elif one is not other and one != other:
        yield path


def _list_prefix(path: str) -> str:
    return path.rpartition("[].")[0]


def _items(
    document: Document, one: str, other: str
) -> Iterable[tuple[Document, tuple[str, ...], tuple[str, ...]]]:
    """Return the objects that two paths are relative to, and the relative paths."""
    prefix = _list_prefix(one)
    items: list[Any] = [document]
    for step in prefix.split("[].") if prefix else ():
        lists = [_get(item, tuple(step.split("."))) for item in items]
        items = [item for found in lists if isinstance(found, list) for item in found]
    skip = len(prefix) + 3 if prefix else 0
    ends = tuple(one[skip:].split(".")), tuple(other[skip:].split("."))
    return [(item, *ends) for item in items if isinstance(item, dict)]


def _get(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return _MISSING
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
            return _MISSING
        parents.append(child)
    value = parents[-1].pop(path[-1], _MISSING)
    if value is not _MISSING:
        for depth in range(len(parents) - 1, 1, -1):
            if not parents[depth]:
                del parents[depth - 1][path[depth - 1]]
    return value


def _set_default(document: Document, path: str, value: Any) -> None:
    for item, relative, _ in _items(document, path, path):
        if _get(item, relative) is _MISSING:
            _set(item, relative, copy.deepcopy(value))


def _remove(document: Document, path: str) -> None:
    for item, relative, _ in _items(document, path, path):
        _pop(item, relative)


__all__ = ["DefaultHub", "DefaultSpoke", "FieldRule", "MapValues", "Move", "RuleSet", "Wrap"]
