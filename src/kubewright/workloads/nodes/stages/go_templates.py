"""Templates of Stage objects: the part of Go's text/template that kwok's stages use.

Actions: pipelines, variables, `range`, `if`, `with`, `else`, `end`, comments and trim markers. Functions of
Go: `and`, `or`, `not`, `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `index`, `len`, `print`, `printf`. The functions
of kwok are given when a template is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Functions = Mapping[str, Callable[..., Any]]

_ACTION: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)"""
    r"""|(?P<variable>\$[A-Za-z0-9_]*)|(?P<field>\.[A-Za-z0-9_]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<sign>:=|=|\||\(|\)|,|\.))""",
    re.ASCII,
)


class TemplateError(ValueError):
    """A template cannot be parsed or executed."""


class Template:
    """A parsed template."""

    def __init__(self, text: str) -> None:
        self._body, rest, _ = _parse_block(_split(text), 0)
        if rest != -1:
            raise TemplateError("unexpected {{ end }} or {{ else }}")

    def execute(self, data: Any, functions: Functions) -> str:
        """Return the output for some data."""
        output: list[str] = []
        scope = _Scope({"$": data}, {**_GO_FUNCTIONS, **functions})
        for node in self._body:
            node(output, scope, data)
        return "".join(output)


class _Scope:
    """Variables of a block, and the functions."""

    def __init__(self, variables: dict[str, Any], functions: Functions, parent: _Scope | None = None) -> None:
        self.variables, self.functions, self.parent = variables, functions, parent

    def child(self) -> _Scope:
        return _Scope({}, self.functions, self)

    def get(self, name: str) -> Any:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        raise TemplateError(f"undefined variable {name}")

    def assign(self, name: str, value: Any) -> None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.variables:
                scope.variables[name] = value
                return
            scope = scope.parent
        raise TemplateError(f"undefined variable {name}")


_Node = Callable[[list[str], _Scope, Any], None]
_Pipeline = Callable[[_Scope, Any], Any]


def _split(text: str) -> list[tuple[str, str]]:
    """Split a template into texts and actions."""
    parts: list[tuple[str, str]] = []
    position, trim = 0, False
    for match in _ACTION.finditer(text):
        before = text[position : match.start()]
        if trim:
            before = before.lstrip()
        if match.group(1):
            before = before.rstrip()
        if before:
            parts.append(("text", before))
        action = match.group(2).strip()
        if not action.startswith("/*"):
            parts.append(("action", action))
        position, trim = match.end(), bool(match.group(3))
    rest = text[position:].lstrip() if trim else text[position:]
    return [*parts, ("text", rest)] if rest else parts


def _parse_block(parts: list[tuple[str, str]], position: int) -> tuple[list[_Node], int, str]:
    """Parse until `end` or `else`; return the nodes, the position of that action (-1 at the end) and it."""
    nodes: list[_Node] = []
    while position < len(parts):
        kind, text = parts[position]
        word = text.split(None, 1)[0] if kind == "action" and text else ""
        if kind == "text":
            nodes.append(_text(text))
        elif word in ("end", "else"):
            return nodes, position, text
        elif word in ("if", "range", "with"):
            node, position = _parse_control(parts, position, word, text[len(word) :])
            nodes.append(node)
        elif text:
            nodes.append(_Action(text))
        position += 1
    return nodes, -1, ""


def _parse_control(parts: list[tuple[str, str]], position: int, word: str, text: str) -> tuple[_Node, int]:
    body, position, action = _parse_block(parts, position + 1)
    otherwise: list[_Node] = []
    if action.startswith("else"):
        rest = action[4:].strip()
        if rest:
            inner, position = _parse_control(parts, position, rest.split(None, 1)[0], rest.split(None, 1)[1])
            otherwise = [inner]
            action = "end"
        else:
            otherwise, position, action = _parse_block(parts, position + 1)
    if position == -1 or action != "end":
        raise TemplateError(f"{{{{ {word} }}}} without {{{{ end }}}}")
    pipeline = _Action(text)
    control = {"if": _if, "with": _with, "range": _range}[word]
    return control(pipeline, body, otherwise), position


def _text(text: str) -> _Node:
    return lambda output, scope, data: output.append(text)


def _run(nodes: Sequence[_Node], output: list[str], scope: _Scope, data: Any) -> None:
    for node in nodes:
        node(output, scope, data)


def _if(condition: _Action, body: list[_Node], otherwise: list[_Node]) -> _Node:
    def node(output: list[str], scope: _Scope, data: Any) -> None:
        inner = scope.child()
        _run(body if condition.value(inner, data) else otherwise, output, inner, data)

    return node


def _with(condition: _Action, body: list[_Node], otherwise: list[_Node]) -> _Node:
    def node(output: list[str], scope: _Scope, data: Any) -> None:
        inner = scope.child()
        value = condition.value(inner, data)
        _run(body if value else otherwise, output, inner, value if value else data)

    return node


def _range(condition: _Action, body: list[_Node], otherwise: list[_Node]) -> _Node:
    names, condition.names = condition.names, []

    def node(output: list[str], scope: _Scope, data: Any) -> None:
        value = condition.value(scope.child(), data)
        if isinstance(value, dict):
            pairs: list[tuple[Any, Any]] = sorted(value.items())
        else:
            pairs = list(enumerate(value or ()))
        for index, item in pairs:
            inner = scope.child()
            if len(names) == 1:
                inner.variables[names[0]] = item
            elif names:
                inner.variables.update({names[0]: index, names[1]: item})
            _run(body, output, inner, item)
        if not pairs:
            _run(otherwise, output, scope.child(), data)

    return node


class _Action:
    """One pipeline, with the variables that it declares or assigns."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, bool]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise TemplateError(f"cannot parse {{{{ {text} }}}} at {text[position:]!r}")
            kind = match.lastgroup or ""
            spaced = match.start(kind) > position or position == 0
            self._tokens.append((kind, match.group(kind), spaced))
            position = match.end()
        self._position = 0
        self.names: list[str] = []
        self._declares = False
        signs = [token[1] for token in self._tokens]
        for sign in (":=", "="):
            if sign in signs:
                end = signs.index(sign)
                self.names = [token[1] for token in self._tokens[:end] if token[0] == "variable"]
                self._declares = sign == ":="
                self._position = end + 1
                break
        self._pipeline = self._parse_pipeline()
        if self._position < len(self._tokens):
            raise TemplateError(f"unexpected {self._tokens[self._position][1]!r} in {{{{ {text} }}}}")

    def __call__(self, output: list[str], scope: _Scope, data: Any) -> None:
        value = self.value(scope, data)
        if not self.names:
            output.append(_printed(value))

    def value(self, scope: _Scope, data: Any) -> Any:
        """Evaluate the pipeline, and set the variables."""
        value = self._pipeline(scope, data)
        for name in self.names:
            if self._declares:
                scope.variables[name] = value
            else:
                scope.assign(name, value)
        return value

    def _parse_pipeline(self) -> _Pipeline:
        stages = [self._parse_command()]
        while self._position < len(self._tokens) and self._tokens[self._position][1] == "|":
            self._position += 1
            stages.append(self._parse_command())

        def evaluate(scope: _Scope, data: Any) -> Any:
            value = stages[0](scope, data, [])
            for stage in stages[1:]:
                value = stage(scope, data, [value])
            return value

        return evaluate

    def _parse_command(self) -> Callable[[_Scope, Any, list[Any]], Any]:
        operands: list[_Pipeline] = []
        function = ""
        while self._position < len(self._tokens):
            kind, value, _ = self._tokens[self._position]
            if value in ("|", ")"):
                break
            if kind == "name" and not operands and not function and value not in ("true", "false", "nil"):
                function = value
                self._position += 1
                continue
            operands.append(self._parse_operand())
        if not function and not operands:
            raise TemplateError(f"missing value in {{{{ {self._text} }}}}")

        def evaluate(scope: _Scope, data: Any, piped: list[Any]) -> Any:
            if not function:
                return operands[0](scope, data)
            found = scope.functions.get(function)
            if found is None:
                raise TemplateError(f"function {function!r} is not defined")
            try:
                return found(*(operand(scope, data) for operand in operands), *piped)
            except (TypeError, ValueError, LookupError) as error:
                raise TemplateError(f"error calling {function}: {error}") from None

        return evaluate

    def _parse_operand(self) -> _Pipeline:
        kind, value, _ = self._tokens[self._position]
        self._position += 1
        if kind == "text":
            constant: Any = value[1:-1] if value.startswith("`") else json.loads(value)
            return lambda scope, data: constant
        if kind == "number":
            number = float(value) if "." in value else int(value)
            return lambda scope, data: number
        if value == "(":
            inner = self._parse_pipeline()
            if self._position >= len(self._tokens) or self._tokens[self._position][1] != ")":
                raise TemplateError(f"missing ) in {{{{ {self._text} }}}}")
            self._position += 1
            return self._fields(inner)
        if kind == "variable":
            return self._fields(lambda scope, data: scope.get(value))
        if kind == "field":
            return self._fields(lambda scope, data: _attribute(data, value[1:]))
        if value == ".":
            return lambda scope, data: data
        if kind == "name" and value in ("true", "false", "nil"):
            return lambda scope, data: {"true": True, "false": False}.get(value)
        if kind == "name":
            return lambda scope, data: scope.functions[value]()
        raise TemplateError(f"unexpected {value!r} in {{{{ {self._text} }}}}")

    def _fields(self, base: _Pipeline) -> _Pipeline:
        names: list[str] = []
        while self._position < len(self._tokens):
            kind, value, spaced = self._tokens[self._position]
            if kind != "field" or spaced:
                break
            names.append(value[1:])
            self._position += 1
        if not names:
            return base

        def evaluate(scope: _Scope, data: Any) -> Any:
            value = base(scope, data)
            for name in names:
                value = _attribute(value, name)
            return value

        return evaluate


def _attribute(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _printed(value: Any) -> str:
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _and(*values: Any) -> Any:
    return next((value for value in values if not value), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif value is not None:
            value = value[int(key)]
    return value


def _printf(text: str, *values: Any) -> str:
    python = re.sub(r"%[vd]", "%s", text)
    return python.replace("%q", '"%s"') % tuple(_printed(value) for value in values)


_GO_FUNCTIONS: Final[Functions] = {
    "and": _and,
    "or": _or,
    "not": lambda value: not value,
    "eq": lambda first, *others: any(first == other for other in others),
    "ne": lambda first, second: first != second,
    "lt": lambda first, second: first < second,
    "le": lambda first, second: first <= second,
    "gt": lambda first, second: first > second,
    "ge": lambda first, second: first >= second,
    "index": _index,
    "len": lambda value: len(value or ()),
    "print": lambda *values: "".join(map(_printed, values)),
    "printf": _printf,
}
