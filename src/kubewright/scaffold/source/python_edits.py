"""Add imports and definitions to the source of a Python module, and rewrite its imports.

The text that exists is kept, including comments and formatting: only import statements are changed, and new
definitions are appended. Imports stay in the order of isort, as ruff checks it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from kubewright.scaffold.errors import ScaffoldError

LINE_LENGTH: Final = 110


@dataclass(frozen=True)
class Import:
    """One import statement of a module: `from <dots><module> import <names>`, or `import <names>`."""

    level: int
    module: str
    names: tuple[str, ...]
    """Imported names, with ` as alias`."""
    is_from: bool = True

    @property
    def source(self) -> tuple[bool, int, str]:
        """What the statement imports from; statements with the same source can be merged."""
        return (self.is_from, self.level, self.module if self.is_from else self.names[0])

    def sort_key(self, first_party: str) -> tuple[int, bool, int, str]:
        """Position of the statement among others."""
        top = (self.module or self.names[0]).partition(".")[0].partition(" ")[0]
        if self.level:
            section = 4
        elif top == "__future__":
            section = 0
        elif top in sys.stdlib_module_names:
            section = 1
        else:
            section = 3 if top == first_party else 2
        name = self.module if self.is_from else self.names[0]
        return (section, self.is_from, -self.level, name.lower())

    def render(self) -> str:
        """Return the statement in one line, or with one name per line if it is too long."""
        if not self.is_from:
            return f"import {', '.join(self.names)}"
        names = sorted(set(self.names), key=_name_key)
        start = f"from {'.' * self.level}{self.module} import "
        line = start + ", ".join(names)
        if len(line) <= LINE_LENGTH:
            return line
        return start + "(\n" + "".join(f"    {name},\n" for name in names) + ")"


def _name_key(name: str) -> tuple[int, str, str]:
    """Order of isort: constants, classes, then variables."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return (kind, name.lower(), name)


@dataclass(frozen=True)
class _Statement:
    """An import statement with its lines (from 0, the last exclusive)."""

    value: Import
    first: int
    last: int


def parse(text: str, name: str) -> ast.Module:
    """Return the syntax tree of a module; `name` is for the error message."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise ScaffoldError(
            f"{name}:{error.lineno}: {error.msg}; correct it first, nothing was written"
        ) from None


def _import_statements(tree: ast.Module) -> list[_Statement]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = tuple(
                f"{each.name} as {each.asname}" if each.asname else each.name for each in node.names
            )
            value = (
                Import(node.level, node.module or "", names)
                if isinstance(node, ast.ImportFrom)
                else Import(0, "", names, is_from=False)
            )
            found.append(_Statement(value, node.lineno - 1, node.end_lineno or node.lineno))
    return found


def extend_source(text: str, addition: str, *, name: str, first_party: str = "") -> str:
    """Return a module with the imports and top-level definitions of `addition` that it does not have."""
    tree, added = parse(text, name), parse(addition, name)
    defined = _defined_names(tree)
    present = {ast.unparse(node) for node in tree.body}
    lines = addition.splitlines(keepends=True)
    blocks = []
    for node in added.body[_has_docstring(added) :]:
        if isinstance(node, ast.Import | ast.ImportFrom) or ast.unparse(node) in present:
            continue
        if _names_of(node) & defined:
            continue
        blocks.append(
            (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef), _block(lines, node))
        )
    result = text
    for statement in _import_statements(added):
        result = add_import(result, statement.value, name=name, first_party=first_party)
    for is_definition, block in blocks:
        gap = "\n\n" if is_definition or _ends_with_definition(result) else ""
        result = result.rstrip("\n") + "\n" + gap + block
    return result


def _has_docstring(tree: ast.Module) -> bool:
    return ast.get_docstring(tree) is not None


def _names_of(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {each.id for each in node.targets if isinstance(each, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def _defined_names(tree: ast.Module) -> set[str]:
    return {name for node in tree.body for name in _names_of(node)}


def _block(lines: list[str], node: ast.stmt) -> str:
    """Return the lines of a statement, with its decorators and the comments directly above it."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return "".join(lines[first : node.end_lineno]).rstrip("\n") + "\n"


def _ends_with_definition(text: str) -> bool:
    body = ast.parse(text).body
    return bool(body) and isinstance(body[-1], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def add_import(text: str, wanted: Import, *, name: str, first_party: str = "") -> str:
    """Return a module with an import, merged with an existing statement or inserted in order."""
    statements = _import_statements(parse(text, name))
    lines = text.splitlines(keepends=True)
    existing = {
        imported for each in statements if each.value.source == wanted.source for imported in each.value.names
    }
    missing = tuple(each for each in wanted.names if each not in existing)
    if not missing:
        return text
    for each in statements:
        if wanted.is_from and each.value.source == wanted.source and "#" not in "".join(_slice(lines, each)):
            merged = replace(each.value, names=(*each.value.names, *missing))
            return "".join([*lines[: each.first], merged.render() + "\n", *lines[each.last :]])
    return _insert(lines, statements, replace(wanted, names=missing), first_party)


def _slice(lines: list[str], statement: _Statement) -> list[str]:
    return lines[statement.first : statement.last]


def _insert(lines: list[str], statements: list[_Statement], wanted: Import, first_party: str) -> str:
    key = wanted.sort_key(first_party)
    line = wanted.render() + "\n"
    if not statements:
        body = ast.parse("".join(lines)).body
        docstring = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        place = body[0].end_lineno or 0 if docstring else 0
        return "".join([*lines[:place], *(["\n"] if place else []), line, *lines[place:]])
    before = [each for each in statements if each.value.sort_key(first_party) <= key]
    if before:
        place, neighbour = before[-1].last, before[-1]
    else:
        place, neighbour = statements[0].first, statements[0]
    same_section = neighbour.value.sort_key(first_party)[0] == key[0]
    following = next((each for each in statements if each.first >= place), None)
    joins_next = following is not None and following.value.sort_key(first_party)[0] == key[0]
    if before:
        new = line if same_section else f"\n{line}"
        if not same_section and joins_next:  # the blank line between the sections exists
            place += 1
            new = line
    else:
        new = line if same_section else f"{line}\n"
    return "".join([*lines[:place], new, *lines[place:]])


def sort_imports(text: str, *, name: str, first_party: str = "") -> str:
    """Return a module whose imports, which have no other lines between them, are merged and in order."""
    statements = _import_statements(parse(text, name))
    if not statements:
        return text
    merged: dict[tuple[bool, int, str], Import] = {}
    for each in statements:
        found = merged.get(each.value.source)
        names = each.value.names if found is None else (*found.names, *each.value.names)
        merged[each.value.source] = replace(each.value, names=names)
    ordered = sorted(merged.values(), key=lambda each: each.sort_key(first_party))
    block = ""
    for number, value in enumerate(ordered):
        if number and value.sort_key(first_party)[0] != ordered[number - 1].sort_key(first_party)[0]:
            block += "\n"
        block += value.render() + "\n"
    lines = text.splitlines(keepends=True)
    before, after = "".join(lines[: statements[0].first]), "".join(lines[statements[-1].last :])
    return f"{before}{block}{after.rstrip()}\n" if after.strip() else f"{before}{block}"


def rewrite_imports(
    text: str, transform: Callable[[Import], list[Import]], *, name: str, first_party: str = ""
) -> str:
    """Return a module whose import statements are replaced by those that `transform` returns.

    Statements that change are removed and inserted again in order.
    """
    lines = text.splitlines(keepends=True)
    wanted: list[Import] = []
    for each in reversed(_import_statements(parse(text, name))):
        new = transform(each.value)
        if new == [each.value]:
            continue
        wanted.extend(new)
        del lines[each.first : each.last]
        around = lines[max(each.first - 1, 0) : each.first + 1]
        if around == ["\n", "\n"]:  # the statement was a section of its own
            del lines[each.first]
    result = "".join(lines)
    for statement in wanted:
        result = add_import(result, statement, name=name, first_party=first_party)
    return _collapse_blank_lines(result, name) if wanted else text


def _collapse_blank_lines(text: str, name: str) -> str:
    """Remove blank lines within the imports that removed statements left behind."""
    statements = _import_statements(parse(text, name))
    lines = text.splitlines(keepends=True)
    for before, after in reversed(list(pairwise(statements))):
        between = lines[before.last : after.first]
        if len(between) > 1 and all(line == "\n" for line in between):
            del lines[before.last + 1 : after.first]
    return "".join(lines)
