"""Example objects of a schema that together have every field, each with all of its kinds of values.

    examples = Examples(schema)
    for path, document in examples.documents():    # `spec.ports[].number`, and an object with that field
        ...
    examples.uncovered                              # fields without a valid example

The same schema always has the same examples; nothing is random. Numbers and strings get two values and their
default, enumerations and booleans all values, lists and maps none, one and two elements. Each value occurs in
an object with only the required fields, and in objects that have all fields. Objects that the schema rejects,
also by CEL rules, are left out.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from typing import Any, Final

from .structural import NO_DEFAULT, Node, Schema
from .version import SchemaVersion

Document = dict[str, Any]
_TOP: Final = ("apiVersion", "kind", "metadata")
_STRINGS: Final = (
    *("example", "other", "a", "b", "Example", "Other", "example-1", "1", "2", "a.b", "a/b", "example:1"),
    *("example.com", "https://example.com", "https://example.org/a", "a@example.com", "b@example.com"),
    *("10s", "1h", "5m", "10Gi", "500m", "50%", "0 0 * * *", "*", "1.2.3", "v1", "v1beta1"),
    *(
        "2024-01-01T00:00:00Z",
        "2025-01-01T00:00:00Z",
        "2024-01-01T00:00:00.000000Z",
        "2024-01-01",
        "2025-01-01",
    ),
    *("10.0.0.1", "10.0.0.2", "10.0.0.0/8", "10.1.0.0/16", "fd00::1", "fd00::2", "AAEC", "AAED", ""),
    *("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "6fa459ea-ee8a-3ca4-894e-db77e160355e"),
)
_INTEGERS: Final = (3, 2, 1, 0, 5, 10, 20, 60, 80, 100, 443, 1000, 8080, 30000, 30001, -1)
_NUMBERS: Final = (0.5, 1.5, 0.25, 2.5, 10.5, 100.5, 1.0, 0.0, -0.5)
_ANYTHING: Final = ({"example": {"list": [1, "a", {"b": True}]}}, {"other": None})
_MAX_VALUES: Final = 2
_MAX_TRIED: Final = 60
FULL_EXAMPLES: Final = 4
"""Number of objects with all fields."""


class Examples:
    """Examples of one version of a kind.

    `values` replaces the values of single fields, by paths such as `spec.ports[].number` and `spec.labels.*`.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        identity: Document | None = None,
        values: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._validator = SchemaVersion(copy.deepcopy(schema))
        self._identity = identity or {}
        self._given = values or {}
        self._scalars: dict[str, list[Any]] = {}
        self._without_values: set[str] = set()
        properties = {key: each for key, each in (schema.get("properties") or {}).items() if key not in _TOP}
        self._node = Node({**schema, "properties": properties})
        self.uncovered: list[str] = []
        """Fields that no valid example has, after `documents` has returned all of them."""

    def complete(self) -> list[Document]:
        """Return the valid objects that have all fields."""
        found = [self._document(self._full(self._node, "", number)) for number in range(FULL_EXAMPLES)]
        return [each for each in found if each is not None]

    def minimal(self) -> Document | None:
        """Return a valid object with required fields, fields with a default, and those that rules demand."""
        return self._document(self._minimal_value(self._node, "", 0))

    def documents(self) -> Iterator[tuple[str, Document]]:
        """Return valid objects, and the path of the field that each is an example of."""
        for document in self.complete():
            yield "", document
        known: dict[str, bool] = {}
        for path, value in self._variants(self._node, ""):
            example = self._document(value)
            known[path] = known.get(path, False) or example is not None
            if example is not None:
                yield path, example
        missing = {path for path, covered in known.items() if path and not covered}
        self.uncovered = sorted(missing | self._without_values)

    def _document(self, value: Any) -> Document | None:
        document: Document = {**copy.deepcopy(value), **copy.deepcopy(self._identity)}
        self._validator.decode(document)
        return None if self._validator.validate(document).errors else document

    def _variants(self, node: Node, path: str) -> Iterator[tuple[str, Any]]:
        """Return values of a schema that differ in one field, and the path of that field."""
        if node.nullable:
            yield path, None
        if path in self._given or not (node.properties or node.items or node.additional):
            values = self._values(node, path)
            if not values:
                self._without_values.add(path)
            for value in values:
                yield path, value
        elif node.items is not None:
            if not node.raw.get("minItems"):
                yield path, []
            padding = self._list(node, path, node.raw.get("minItems", 1), full=False)
            for below, value in self._variants(node.items, f"{path}[]"):
                yield below, [value, *padding[1:]]
            yield path, self._list(node, path, 2, full=False)
        elif node.properties:
            required = self._required(node, path)
            yield path, self._extended(node, path, required)
            if node.preserve_unknown:
                yield path, self._extended(node, path, {**required, "unknownField": [{"example": 1}]})
            for name, child in node.properties.items():
                for below, value in self._variants(child, _join(path, name)):
                    yield below, self._extended(node, path, {**required, name: value})
        elif node.additional is not None:
            yield path, {}
            for below, value in self._variants(node.additional, _join(path, "*")):
                yield below, {"example": value}
            first = self._minimal_value(node.additional, _join(path, "*"), 0)
            yield path, {"example": first, "other": self._minimal_value(node.additional, _join(path, "*"), 1)}

    def _required(self, node: Node, path: str, number: int = 0) -> Document:
        keys = [*node.required, *(["spec"] if not path and "spec" in node.properties else [])]
        return {
            name: self._minimal_value(node.properties[name], _join(path, name), number)
            for name in dict.fromkeys(keys)
            if name in node.properties
        }

    def _extended(self, node: Node, path: str, value: Document) -> Document:
        """Return an object with up to two more fields, if rules of its schema require them."""
        more = [name for name in node.properties if name not in value]
        return self._first_valid(
            node,
            (
                {
                    **value,
                    **{
                        name: self._minimal_value(node.properties[name], _join(path, name), 0)
                        for name in names
                    },
                }
                for count in (0, 1, 2)
                for names in combinations(more, count)
            ),
        )

    def _reduced(self, node: Node, value: Document, number: int) -> Document:
        """Return an object without up to two of its fields, if rules of its schema require that."""
        names = [*value]
        names = names[number % len(names) :] + names[: number % len(names)]
        return self._first_valid(
            node,
            (
                {name: each for name, each in value.items() if name not in absent}
                for count in (0, 1, 2)
                for absent in combinations(names, count)
            ),
        )

    def _first_valid(self, node: Node, values: Iterator[Document]) -> Document:
        first = next(values)
        if "x-kubernetes-validations" not in node.raw:
            return first
        validator = node.extra.get("example validator")
        if validator is None:
            schema = {"type": "object", "properties": {"value": _without_default(node.raw)}}
            validator = node.extra["example validator"] = SchemaVersion(schema)
        tried = islice(chain([first], values), _MAX_TRIED)
        return next((each for each in tried if _is_valid(validator, each)), first)

    def _minimal_value(self, node: Node, path: str, number: int) -> Any:
        if path in self._given:
            return _nth(self._values(node, path), number)
        if node.properties:
            return self._extended(node, path, self._required(node, path, number))
        if node.items is not None:
            return self._list(node, path, node.raw.get("minItems", 0), full=False, number=number)
        if node.additional is not None:
            wanted = range(node.raw.get("minProperties", 0))
            return {f"example-{n}": self._minimal_value(node.additional, _join(path, "*"), n) for n in wanted}
        return _nth(self._values(node, path), number)

    def _full(self, node: Node, path: str, number: int) -> Any:
        """Return a value with all fields, each with the value of this number."""
        if path in self._given:
            return _nth(self._values(node, path), number)
        if node.properties:
            every = {
                name: self._full(child, _join(path, name), number) for name, child in node.properties.items()
            }
            return self._reduced(node, every, number)
        if node.items is not None:
            return self._list(node, path, 2, full=True, number=number)
        if node.additional is not None:
            names = ("example", "other")
            return {
                name: self._full(node.additional, _join(path, "*"), number + n)
                for n, name in enumerate(names)
            }
        return _nth(self._values(node, path), number)

    def _list(self, node: Node, path: str, size: int, *, full: bool, number: int = 0) -> list[Any]:
        """Return a list with as many elements as it may have, with different keys."""
        assert node.items is not None
        size = max(min(size, node.raw.get("maxItems", size)), node.raw.get("minItems", 0))
        found: list[Any] = []
        keys = set()
        for n in range(number, number + max(3 * size, FULL_EXAMPLES)):
            make = self._full if full else self._minimal_value
            value = make(node.items, f"{path}[]", n)
            key = json.dumps(
                [value.get(name) for name in node.list_map_keys]
                if node.list_type == "map" and isinstance(value, dict)
                else value
                if node.list_type == "set"
                else n
            )
            if len(found) < size and key not in keys:
                found.append(value)
                keys.add(key)
        return found

    def _values(self, node: Node, path: str) -> list[Any]:
        """Return the values of a schema without fields or elements, the default last."""
        if path in self._given:
            return list(self._given[path])
        if path not in self._scalars:
            candidates = _candidates(node)
            accepted = candidates
            if "enum" not in node.raw and node.type != "boolean":
                accepts = SchemaVersion(
                    {"type": "object", "properties": {"value": _without_default(node.raw)}}
                )
                accepted = [each for each in candidates if _is_valid(accepts, each)]
                accepted = [each for each in accepted if each != node.default][:_MAX_VALUES]
                if node.default is not NO_DEFAULT and node.default is not None:
                    accepted.append(node.default)
            self._scalars[path] = accepted
        return self._scalars[path]


def _candidates(node: Node) -> list[Any]:
    raw = node.raw
    if "enum" in raw:
        return [value for value in raw["enum"] if value is not None]
    if node.int_or_string:
        return [1, "50%", "1Gi", "100m", "1", "example"]
    match node.type:
        case "boolean":
            return [True, False]
        case "integer":
            limits = [raw.get("minimum"), raw.get("maximum"), raw.get("multipleOf")]
            near = [int(each) + step for each in limits if each is not None for step in (0, 1, -1)]
            return list(dict.fromkeys((*_INTEGERS, *near)))
        case "number":
            limits = [raw.get("minimum"), raw.get("maximum"), raw.get("multipleOf")]
            near = [each + step for each in limits if each is not None for step in (0, 0.5, -0.5)]
            return list(dict.fromkeys((*_NUMBERS, *near)))
        case "string":
            length = raw.get("minLength", 0)
            return [*_STRINGS, "a" * length, "b" * length]
        case "array":
            return [["example"], [1, {"a": "b"}]]
    if node.embedded_resource:
        resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "example"}}
        return [resource, {**resource, "data": {"example": "1"}}]
    return [*_ANYTHING] if node.preserve_unknown or not node.type else [{}]


def _without_default(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in ("default", "description")}


def _is_valid(schema: SchemaVersion, value: Any) -> bool:
    document = {"value": copy.deepcopy(value)}
    schema.default(document)
    return not schema.validate(document).errors


def _nth(values: Sequence[Any], number: int) -> Any:
    return copy.deepcopy(values[number % len(values)]) if values else None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
