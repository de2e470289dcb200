"""Expressions of Stage selectors and delays: the subset of jq that kwok's own stages use.

    .metadata.annotations["a.b/c"]
    .status.conditions.[] | select( .type == "Ready" ) | .status
    .spec.containers[0].name

An expression yields any number of values; missing fields yield null, which counts as no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<sign>==|!=|<=|>=|//|[.|()\[\]<>?]))""",
    re.ASCII,
)
Filter = Callable[[Any], list[Any]]


class ExpressionError(ValueError):
    """An expression is not supported."""


def compile_expression(text: str) -> Filter:
    """Return a function from an object to the values of an expression; raise `ExpressionError`."""
    parser = _Parser(text)
    result = parser.pipe()
    parser.expect_end()
    return result


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ExpressionError(f"cannot parse {text!r} at {text[position:]!r}")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match.group(kind)))
            position = match.end()
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position][1] if self._position < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise ExpressionError(f"{self._text!r} ends too early")
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _accept(self, sign: str) -> bool:
        if self._peek() == sign:
            self._position += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise ExpressionError(f"expected {sign!r} in {self._text!r}, not {self._peek()!r}")

    def expect_end(self) -> None:
        if self._position < len(self._tokens):
            raise ExpressionError(f"unexpected {self._peek()!r} in {self._text!r}")

    def pipe(self) -> Filter:
        first = self._alternative()
        while self._accept("|"):
            first = _piped(first, self._alternative())
        return first

    def _alternative(self) -> Filter:
        first = self._logical()
        while self._accept("//"):
            first = _alternatives(first, self._logical())
        return first

    def _logical(self) -> Filter:
        first = self._comparison()
        while self._peek() in ("and", "or"):
            operator = self._next()[1]
            first = _logical(first, self._comparison(), both=operator == "and")
        return first

    def _comparison(self) -> Filter:
        first = self._term()
        if self._peek() in ("==", "!=", "<", ">", "<=", ">="):
            operator = self._next()[1]
            return _compared(first, self._term(), operator)
        return first

    def _term(self) -> Filter:
        kind, value = self._next()
        if kind == "text":
            return _constant(json.loads(value))
        if kind == "number":
            return _constant(float(value) if "." in value else int(value))
        if value == "(":
            inner = self.pipe()
            self._expect(")")
            return inner
        if kind == "name":
            return self._function(value)
        if value == ".":
            return self._path()
        raise ExpressionError(f"unexpected {value!r} in {self._text!r}")

    def _function(self, name: str) -> Filter:
        if name in ("true", "false", "null"):
            return _constant({"true": True, "false": False, "null": None}[name])
        if name == "select":
            self._expect("(")
            condition = self.pipe()
            self._expect(")")
            return lambda value: [value] if any(_is_true(each) for each in condition(value)) else []
        if name == "not":
            return lambda value: [not _is_true(value)]
        if name == "length":
            return lambda value: [len(value) if value is not None else 0]
        raise ExpressionError(f"function {name!r} is not supported in {self._text!r}")

    def _path(self) -> Filter:
        steps: list[Filter] = []
        while True:
            token = self._tokens[self._position] if self._position < len(self._tokens) else ("", "")
            if token[0] == "name" and (not steps or self._tokens[self._position - 1][1] == "."):
                self._position += 1
                steps.append(_field(token[1]))
            elif token[0] == "text" and self._tokens[self._position - 1][1] == ".":
                self._position += 1
                steps.append(_field(json.loads(token[1])))
            elif token[1] == "[":
                self._position += 1
                steps.append(self._bracket())
            elif token[1] in (".", "?"):
                self._position += 1
            else:
                break
        result: Filter = _identity
        for step in steps:
            result = _piped(result, step)
        return result

    def _bracket(self) -> Filter:
        if self._accept("]"):
            return _all
        kind, value = self._next()
        self._expect("]")
        if kind == "text":
            return _field(json.loads(value))
        if kind == "number":
            return _item(int(value))
        raise ExpressionError(f"unexpected {value!r} in {self._text!r}")


def _identity(value: Any) -> list[Any]:
    return [value]


def _constant(constant: Any) -> Filter:
    return lambda value: [constant]


def _field(name: str) -> Filter:
    return lambda value: [value.get(name)] if isinstance(value, dict) else [None]


def _item(index: int) -> Filter:
    return lambda value: (
        [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else [None]
    )


def _all(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _piped(first: Filter, second: Filter) -> Filter:
    return lambda value: [result for each in first(value) for result in second(each)]


def _alternatives(first: Filter, second: Filter) -> Filter:
    def evaluate(value: Any) -> list[Any]:
        found = [each for each in first(value) if _is_true(each)]
        return found or second(value)

    return evaluate


def _logical(first: Filter, second: Filter, *, both: bool) -> Filter:
    def evaluate(value: Any) -> list[Any]:
        left, right = any(map(_is_true, first(value))), any(map(_is_true, second(value)))
        return [left and right if both else left or right]

    return evaluate


def _compared(first: Filter, second: Filter, operator: str) -> Filter:
    def compare(left: Any, right: Any) -> bool:
        if operator == "==":
            return bool(left == right)
        if operator == "!=":
            return bool(left != right)
        if left is None or right is None:
            return False
        return bool(
            {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[operator]
        )

    return lambda value: [compare(left, right) for right in second(value) for left in first(value)]


def _is_true(value: Any) -> bool:
    return value is not None and value is not False
