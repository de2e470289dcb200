"""Renders Helm charts: the subset of Go templates and of Helm's functions that generated charts use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Values = dict[str, Any]

_ACTION = re.compile(r"\{\{(-)?\s*(.*?)\s*(-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|`[^`]*`|\(|\)|\||:=|,|-?\d+(?:\.\d+)?(?![\w.])|\$?[A-Za-z_]\w*(?:\.\w+)*|\$(?:\.\w+)*|\.(?:\w+(?:\.\w+)*)?'
)


class TemplateError(Exception):
    """A template cannot be rendered, or calls `fail` or `required`."""


@dataclass
class Node:
    kind: str
    text: str = ""
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


def parse(source: str) -> list[Node]:
    pieces: list[tuple[str, str]] = []
    position, trim_next = 0, False
    for found in _ACTION.finditer(source):
        text = source[position : found.start()]
        text = text.lstrip() if trim_next else text
        pieces.append(("text", text.rstrip() if found.group(1) else text))
        action = found.group(2)
        if not action.startswith("/*"):
            pieces.append(("action", action))
        position, trim_next = found.end(), bool(found.group(3))
    rest = source[position:]
    pieces.append(("text", rest.lstrip() if trim_next else rest))
    nodes, end = _parse_nodes(iter(pieces), top=True)
    assert end == ""
    return nodes


def _parse_nodes(pieces: Iterator[tuple[str, str]], *, top: bool = False) -> tuple[list[Node], str]:
    nodes: list[Node] = []
    for kind, text in pieces:
        if kind == "text":
            nodes.append(Node("text", text))
            continue
        word, _, rest = text.partition(" ")
        if word in ("if", "with", "range", "define"):
            node = Node(word, rest)
            node.body, end = _parse_nodes(pieces)
            if end.startswith("else if"):
                raise TemplateError("else if is not supported by this renderer")
            if end == "else":
                node.otherwise, end = _parse_nodes(pieces)
            nodes.append(node)
        elif word == "end" or word == "else":
            return nodes, text
        else:
            nodes.append(Node("print", text))
    if not top:
        raise TemplateError("missing end")
    return nodes, ""


def is_true(value: Any) -> bool:
    return bool(value)


class Renderer:
    """Renders templates with the values of one release."""

    def __init__(self, root: Values) -> None:
        self.root = root
        self.defined: dict[str, list[Node]] = {}
        self.functions: dict[str, Callable[..., Any]] = {
            "include": lambda name, context: self.render(self.defined[name], context),
            "tpl": lambda text, context: self.render(parse(text), context),
            "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).removesuffix("\n"),
            "nindent": lambda count, text: "\n" + _indent(count, text),
            "indent": lambda count, text: _indent(count, text),
            "default": lambda other, value=None: value if is_true(value) else other,
            "quote": lambda value: json.dumps("" if value is None else _text(value)),
            "list": lambda *values: list(values),
            "join": lambda separator, values: separator.join(_text(each) for each in values),
            "printf": lambda form, *values: form % values,
            "trunc": lambda count, text: text[:count],
            "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
            "contains": lambda part, text: part in text,
            "replace": lambda old, new, text: text.replace(old, new),
            "hasKey": lambda values, key: key in (values or {}),
            "required": self._required,
            "and": lambda *values: next((each for each in values if not is_true(each)), values[-1]),
            "or": lambda *values: next((each for each in values if is_true(each)), values[-1]),
            "not": lambda value: not is_true(value),
            "eq": lambda one, *others: one in others,
        }

    @staticmethod
    def _required(message: str, value: Any = None) -> Any:
        if not is_true(value):
            raise TemplateError(message)
        return value

    def render(self, nodes: list[Node], context: Any, variables: Values | None = None) -> str:
        scope = variables if variables is not None else {"$": context}
        return "".join(self._node(node, context, scope) for node in nodes)

    def _node(self, node: Node, context: Any, scope: Values) -> str:
        if node.kind == "text":
            return node.text
        if node.kind == "define":
            self.defined[json.loads(node.text.strip())] = node.body
            return ""
        if node.kind == "print":
            variable, assigned, expression = node.text.partition(":=")
            if assigned and variable.strip().startswith("$"):
                scope[variable.strip()] = self.evaluate(expression, context, scope)
                return ""
            return _text(self.evaluate(node.text, context, scope))
        if node.kind == "range":
            return self._range(node, context, scope)
        value = self.evaluate(node.text, context, scope)
        if not is_true(value):
            return self.render(node.otherwise, context, dict(scope))
        return self.render(node.body, value if node.kind == "with" else context, scope)

    def _range(self, node: Node, context: Any, scope: Values) -> str:
        names, assigned, expression = node.text.partition(":=")
        value = self.evaluate(expression if assigned else node.text, context, scope)
        variables = [each.strip() for each in names.split(",")] if assigned else []
        pairs = sorted(value.items()) if isinstance(value, dict) else list(enumerate(value or ()))
        text = ""
        for key, item in pairs:
            bound = dict(zip(variables, (key, item) if len(variables) == 2 else (item,), strict=False))
            text += self.render(node.body, item, {**scope, **bound})
        return text

    # Expressions

    def evaluate(self, expression: str, context: Any, scope: Values) -> Any:
        tokens = _TOKEN.findall(expression)
        value, rest = self._pipeline(tokens, context, scope)
        if rest:
            raise TemplateError(f"unexpected {rest} in {expression!r}")
        return value

    def _pipeline(self, tokens: list[str], context: Any, scope: Values) -> tuple[Any, list[str]]:
        value, tokens = self._command(tokens, context, scope, ())
        while tokens and tokens[0] == "|":
            value, tokens = self._command(tokens[1:], context, scope, (value,))
        return value, tokens

    def _command(
        self, tokens: list[str], context: Any, scope: Values, piped: tuple[Any, ...]
    ) -> tuple[Any, list[str]]:
        operands: list[Any] = []
        while tokens and tokens[0] not in ("|", ")"):
            token, *tokens = tokens
            if token == "(":
                value, tokens = self._pipeline(tokens, context, scope)
                assert tokens[0] == ")"
                tokens = tokens[1:]
                operands.append(value)
            elif token in self.functions and not operands:
                operands.append(self.functions[token])
            else:
                operands.append(self._operand(token, context, scope))
        first, *arguments = operands
        if callable(first):
            return first(*arguments, *piped), tokens
        assert not arguments, operands
        return first, tokens

    def _operand(self, token: str, context: Any, scope: Values) -> Any:
        if token[0] == '"':
            return json.loads(token)
        if token[0] == "`":
            return token[1:-1]
        if re.fullmatch(r"-?\d+(\.\d+)?", token):
            return json.loads(token)
        if token in ("true", "false", "nil"):
            return {"true": True, "false": False, "nil": None}[token]
        name, *path = token.split(".")
        value = context if name == "" else scope[name]
        for step in filter(None, path):
            value = value.get(step) if isinstance(value, dict) else None
        return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _indent(count: int, text: str) -> str:
    return "\n".join(" " * count + line for line in text.split("\n"))


def merge(base: Values, change: Values) -> Values:
    merged = dict(base)
    for name, value in change.items():
        found = merged.get(name)
        merged[name] = merge(found, value) if isinstance(found, dict) and isinstance(value, dict) else value
    return merged


def render_chart(
    directory: Path, values: Values | None = None, *, release: str, namespace: str
) -> list[dict[str, Any]]:
    """Return the objects of a release of a chart, as `helm template` does."""
    chart = yaml.safe_load((directory / "Chart.yaml").read_text())
    defaults = yaml.safe_load((directory / "values.yaml").read_text())
    root: Values = {
        "Values": merge(defaults, values or {}),
        "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
    }
    renderer = Renderer(root)
    renderer.render(parse((directory / "templates/_helpers.tpl").read_text()), root)
    objects: list[dict[str, Any]] = []
    for path in sorted((directory / "templates").rglob("*.yaml")):
        text = renderer.render(parse(path.read_text()), root)
        objects += [each for each in yaml.safe_load_all(text) if each]
    renderer.render(parse((directory / "templates/NOTES.txt").read_text()), root)
    return objects
