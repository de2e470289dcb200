"""Values with CEL expressions: `${schema.spec.replicas}`, `"${schema.metadata.name}-config"`.

A string that consists of one expression becomes the value of the expression, of any type; an expression
within other text becomes text. An expression that returns `optional.none()` removes the field:
`${schema.spec.?nodeName}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubewright import cel

OMITTED: Final = object()
"""Value of an expression that removes its field."""


class TemplateError(ValueError):
    """A template is not valid; the message has the file, the field and the reason."""


@dataclass(frozen=True)
class Expression:
    """A compiled expression, and where it is."""

    path: str
    source: str
    type: cel.Type
    references: frozenset[str]
    program: cel.Program = field(repr=False)

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value as JSON data, or `OMITTED`; raise `CelError` with the field."""
        try:
            value = self.program(variables)
            if isinstance(value, cel.Optional) and not value.has_value:
                return OMITTED
            return cel.to_json(value)
        except (cel.CelError, cel.CostExceeded) as error:
            raise cel.CelError(f"{self.path}: {error}") from None


@dataclass(frozen=True)
class Text:
    """Text with expressions."""

    parts: tuple[str | Expression, ...]

    def evaluate(self, variables: Mapping[str, Any]) -> str:
        """Return the text; raise `CelError` for a value that is not a scalar."""
        return "".join(
            each if isinstance(each, str) else self._formatted(each, each.evaluate(variables))
            for each in self.parts
        )

    def _formatted(self, expression: Expression, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise cel.CelError(f"{expression.path}: ${{{expression.source}}} is not a string, number or boolean")


Compile = Callable[[str, str], Expression]
"""Compiles the text of an expression at a path."""


def compile_value(value: Any, path: str, compile_: Compile) -> Any:
    """Return a copy of JSON data in which strings with expressions are `Expression`s and `Text`s."""
    if isinstance(value, dict):
        return {name: compile_value(item, f"{path}.{name}", compile_) for name, item in value.items()}
    if isinstance(value, list):
        return [compile_value(item, f"{path}[{index}]", compile_) for index, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    parts = [
        compile_(text, path) if is_expression else text
        for text, is_expression in split_expressions(value, path)
    ]
    return parts[0] if len(parts) == 1 else Text(tuple(parts))


def evaluate(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return JSON data with the values of all expressions."""
    if isinstance(value, dict):
        items = {name: evaluate(item, variables) for name, item in value.items()}
        return {name: item for name, item in items.items() if item is not OMITTED}
    if isinstance(value, list):
        return [item for each in value if (item := evaluate(each, variables)) is not OMITTED]
    if isinstance(value, Expression | Text):
        return value.evaluate(variables)
    return value


def expressions_in(value: Any) -> Iterator[Expression]:
    """Return all expressions of a compiled value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from expressions_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from expressions_in(item)
    elif isinstance(value, Text):
        yield from (each for each in value.parts if isinstance(each, Expression))
    elif isinstance(value, Expression):
        yield value


def split_expressions(text: str, path: str) -> Iterator[tuple[str, bool]]:
    """Return the parts of a text, and whether each is an expression."""
    position = 0
    while True:
        start = text.find("${", position)
        if start < 0:
            if position < len(text):
                yield text[position:], False
            return
        if start > position:
            yield text[position:start], False
        end = _end_of(text, start + 2)
        if end < 0:
            raise TemplateError(f"{path}: the expression {text[start:]!r} has no closing brace")
        yield text[start + 2 : end].strip(), True
        position = end + 1


def _end_of(text: str, position: int) -> int:
    """Return the position of the closing brace, not counting braces in strings and nested ones."""
    depth, quote = 0, ""
    while position < len(text):
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            if depth == 0:
                return position
            depth -= 1
        position += 1
    return -1
