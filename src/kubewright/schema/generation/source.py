"""Field docs and line numbers of a class, read from its source file.

A field is documented by a string below it, or by `#:` comments above or beside it:

    size: int
    \"\"\"How many.\"\"\"

    #: Who reads it.
    reader: str

Each source file is parsed once. Classes without source (made at run time) have no field docs and no lines.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from kubewright.schema.structural import Schema


@dataclass(frozen=True)
class ClassSource:
    """Location of a class and the docs of its fields."""

    file: str = ""
    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)
    docs: Mapping[str, str] = field(default_factory=dict)

    def where(self, name: str | None = None) -> str:
        """Return `file:line` of a field, or of the class."""
        line = self.lines.get(name, self.line) if name else self.line
        return f"{self.file}:{line}" if self.file else ""


_NONE = ClassSource()


def source_of(cls: type) -> ClassSource:
    """Return the parsed source of a class; empty if it has none."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not file or not file.endswith(".py"):
        return _NONE
    return _classes(file).get(cls.__qualname__, ClassSource(file=file))


@cache
def _classes(file: str) -> dict[str, ClassSource]:
    try:
        with open(file, encoding="utf-8") as handle:
            text = handle.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    found: dict[str, ClassSource] = {}
    _collect(tree.body, "", file, text.splitlines(), found)
    return found


def _collect(
    body: list[ast.stmt], prefix: str, file: str, text: list[str], found: dict[str, ClassSource]
) -> None:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            name = prefix + statement.name
            found[name] = _read_class(statement, file, text)
            _collect(statement.body, name + ".", file, text, found)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(statement.body, f"{prefix}{statement.name}.<locals>.", file, text, found)
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            _collect(statement.body, prefix, file, text, found)


def _read_class(node: ast.ClassDef, file: str, text: list[str]) -> ClassSource:
    lines: dict[str, int] = {}
    docs: dict[str, str] = {}
    previous: str | None = None
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            previous = statement.target.id
            lines[previous] = statement.lineno
            comment = _comment(statement, text)
            if comment:
                docs[previous] = comment
            continue
        if (
            previous
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            docs[previous] = inspect.cleandoc(statement.value.value)
        previous = None
    return ClassSource(file, node.lineno, lines, docs)


def _comment(statement: ast.AnnAssign, text: list[str]) -> str:
    """Return the `#:` comment beside a field or in the lines directly above it."""
    last = (statement.end_lineno or statement.lineno) - 1
    _, mark, beside = text[last][statement.end_col_offset or 0 :].partition("#:")
    if mark:
        return beside.strip()
    above: list[str] = []
    index = statement.lineno - 2
    while index >= 0 and text[index].lstrip().startswith("#:"):
        above.insert(0, text[index].lstrip()[2:].strip())
        index -= 1
    return "\n".join(above)


def limit_descriptions(schema: Schema, length: int) -> None:
    """Shorten every description in a schema, in place, to at most `length` characters; 0 removes them."""
    description = schema.get("description")
    if description is not None:
        short = shorten(description, length)
        if short:
            schema["description"] = short
        else:
            del schema["description"]
    for child in schema.get("properties", {}).values():
        limit_descriptions(child, length)
    for keyword in ("items", "additionalProperties"):
        child = schema.get(keyword)
        if isinstance(child, dict):
            limit_descriptions(child, length)


def shorten(text: str, length: int) -> str:
    """Return the longest prefix of at most `length` characters that ends at a sentence or word."""
    if len(text) <= length:
        return text
    if length <= 0:
        return ""
    head = text[: length + 1]
    for end in range(length, 0, -1):
        if text[end - 1] in ".!?" and (head[end : end + 1] or " ").isspace():
            return text[:end]
    space = max(head.rfind(" "), head.rfind("\n"))
    return text[:space].rstrip() if space > 0 else text[:length]
