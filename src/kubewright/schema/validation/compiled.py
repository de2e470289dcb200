"""The keywords of a schema node, compiled once.

`Compiled.of(node)` is created on first use and cached on the node. Children are created on first access, so
recursive definitions cost only what is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import re2

from kubewright.schema.structural import Node

from . import formats

UNKNOWN: Final = 1
UNFILLED: Final = 2
INVALID: Final = 4
REPEATED: Final = 8

Bad = list[int]
"""Identities (`id`) of the objects and lists that contain invalid values."""
Check = Callable[[Any, Bad], int]

_PLAIN_TYPES: Final[dict[str, type]] = {"string": str, "boolean": bool}
_STRING_KEYWORDS: Final = frozenset(("maxLength", "minLength", "pattern", "format", "enum"))


def compile_pattern(pattern: str) -> Any:
    """Compile a regular expression with RE2 without logging; raise `re2.error`."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options=options)


class Compiled:
    """Compiled keywords of one node; `None` means that a keyword is absent."""

    __slots__ = (
        "_additional",
        "_children",
        "_items",
        "additional_declared",
        "all_of",
        "any_of",
        "check",
        "enum",
        "exclusive_maximum",
        "exclusive_minimum",
        "format",
        "format_check",
        "logic",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "node",
        "not_",
        "number_format",
        "number_type",
        "one_of",
        "pattern",
        "pattern_text",
        "plain",
        "types",
    )

    def __init__(self, node: Node) -> None:
        raw = node.raw
        self.node = node
        self.types: tuple[str, ...] = (node.type,) if node.type else ()
        if node.int_or_string:
            quantity = raw.get("format") == "quantity"
            self.types = ("integer", "number", "string") if quantity else ("integer", "string")
        only = self.types[0] if len(self.types) == 1 else ""
        declared = raw.get("format") or ""
        self.format: str = declared if declared and formats.known(only, declared) else ""
        self.format_check = formats.checker(self.format) if self.format else None
        self.number_type: str = only if only in ("integer", "number") else ""
        self.number_format: str = self.format if self.number_type else ""
        self.max_length: int | None = raw.get("maxLength")
        self.min_length: int | None = raw.get("minLength")
        self.pattern_text: str = raw.get("pattern") or ""
        self.pattern: Any = _pattern_search(self.pattern_text)
        self.maximum: float | None = raw.get("maximum")
        self.minimum: float | None = raw.get("minimum")
        self.exclusive_maximum: bool = raw.get("exclusiveMaximum", False)
        self.exclusive_minimum: bool = raw.get("exclusiveMinimum", False)
        self.multiple_of: float | None = raw.get("multipleOf")
        self.max_items: int | None = raw.get("maxItems")
        self.min_items: int | None = raw.get("minItems")
        self.max_properties: int | None = raw.get("maxProperties")
        self.min_properties: int | None = raw.get("minProperties")
        self.enum: list[Any] | None = raw.get("enum") or None
        self.additional_declared: Any = raw.get("additionalProperties")
        self.all_of = self._nested("allOf")
        self.any_of = self._nested("anyOf")
        self.one_of = self._nested("oneOf")
        negated = raw.get("not")
        self.not_: Compiled | None = Compiled(node.nested(negated)) if isinstance(negated, dict) else None
        self.logic = bool(self.all_of or self.any_of or self.one_of or self.not_)
        self._children: dict[str, Compiled | None] = {}
        self._additional: Compiled | bool | None = False
        self._items: Compiled | bool | None = False
        self.plain: type | None = self._plain_type()
        self.check: Check | None = None
        """The check function, created by `fast_check.check_of`."""

    @classmethod
    def of(cls, node: Node) -> Compiled:
        """Return the compiled form of a node, created once."""
        found: Compiled | None = node.extra.get("compiled")
        if found is None:
            found = node.extra["compiled"] = cls(node)
        return found

    def _nested(self, keyword: str) -> tuple[Compiled, ...]:
        return tuple(Compiled(self.node.nested(part)) for part in self.node.raw.get(keyword) or ())

    def field(self, name: str) -> Compiled | None:
        """Return the schema of field `name`, or `None` if it is not declared."""
        try:
            return self._children[name]
        except KeyError:
            node = self.node.properties.get(name)
            found = self._children[name] = Compiled.of(node) if node is not None else None
            return found

    @property
    def additional(self) -> Compiled | None:
        """The schema of map values, or `None`; `additionalProperties: true` has none."""
        if isinstance(self._additional, bool):
            node = self.node.additional if isinstance(self.additional_declared, dict) else None
            self._additional = Compiled.of(node) if node is not None else None
        return self._additional

    @property
    def items(self) -> Compiled | None:
        """The schema of list elements."""
        if isinstance(self._items, bool):
            node = self.node.items
            self._items = Compiled.of(node) if node is not None else None
        return self._items

    def _plain_type(self) -> type | None:
        """Python type for which every value is valid without further checks, or `None`."""
        if self.logic or self.node.int_or_string or self.node.type not in _PLAIN_TYPES:
            return None
        if self.format_check is not None or any(
            keyword in self.node.raw for keyword in _STRING_KEYWORDS - {"format"}
        ):
            return None
        return _PLAIN_TYPES[self.node.type]


def _pattern_search(pattern: str) -> Any:
    if not pattern:
        return None
    try:
        return compile_pattern(pattern).search
    except re2.error:
        return lambda text: None
