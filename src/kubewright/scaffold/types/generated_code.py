"""Checks of types that were generated from a CustomResourceDefinition, before they are written.

The definition is input of others: its names, texts and defaults become part of Python code. So the code is
parsed and may only contain declarations, and the schema that its classes declare must be the schema of the
definition.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from types import ModuleType
from typing import Any, Final

from kubewright.api.declaring.declarations import is_resource
from kubewright.schema.generation.from_builtin import INT_OR_STRING
from kubewright.schema.generation.from_types import Options, SchemaBuilder

_EXPRESSIONS: Final = (
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Subscript,
    ast.BinOp,
    ast.BitOr,
    ast.UnaryOp,
    ast.USub,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Call,
    ast.keyword,
)
_IMPORTED: Final = ("__future__", "typing", "kubewright")
_modules = count()


class GeneratedCodeError(ValueError):
    """Generated code is not what its definition declares; nothing was written."""


def check_types(definition: Mapping[str, Any], version: str, source: str) -> None:
    """Raise `GeneratedCodeError` if the code of a version contains more or less than its schema."""
    where = f"{definition['spec']['names']['kind']} {version}"
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise GeneratedCodeError(f"{where}: the generated code cannot be parsed: {error}") from None
    for node in _statements(tree.body):
        raise GeneratedCodeError(
            f"{where}: line {getattr(node, 'lineno', 0)} of the generated code is not a declaration"
        )
    wanted = next(
        each["schema"]["openAPIV3Schema"]
        for each in definition["spec"]["versions"]
        if each["name"] == version
    )
    for path in _differences(normalized_root(_declared_schema(tree)), normalized_root(wanted), "schema"):
        raise GeneratedCodeError(
            f"{where}: {path} of the generated types is not that of the definition; "
            "declare the type by hand, or use Unstructured objects"
        )


def _statements(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what is not a declaration: imports of this package, classes, aliases, fields, docstrings."""
    for statement in body:
        expressions: list[ast.expr | ast.keyword | None] = []
        if isinstance(statement, ast.ImportFrom):
            if (statement.module or "").partition(".")[0] not in _IMPORTED or statement.level:
                yield statement
        elif isinstance(statement, ast.ClassDef):
            expressions += [*statement.bases, *statement.keywords, *statement.decorator_list]
            yield from _statements(statement.body)
        elif isinstance(statement, ast.Assign):
            expressions.append(statement.value)
        elif isinstance(statement, ast.AnnAssign):
            expressions += [statement.annotation, statement.value]
        elif isinstance(statement, ast.Expr):
            if not (isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)):
                yield statement
        elif not isinstance(statement, ast.Pass):
            yield statement
        for expression in filter(None, expressions):
            for node in ast.walk(expression):
                is_call = isinstance(node, ast.Call) and not isinstance(node.func, ast.Name)
                if is_call or not isinstance(node, _EXPRESSIONS):
                    yield node


def _declared_schema(tree: ast.Module) -> dict[str, Any]:
    """Execute declarations in a module of their own, and return the schema of their kind."""
    name = f"generated_types_{next(_modules)}"
    module = sys.modules[name] = ModuleType(name)
    try:
        # Only declarations, see _statements.
        exec(compile(tree, name, "exec"), vars(module))  # noqa: S102
        (kind,) = (each for each in vars(module).values() if is_resource(each) and each.__module__ == name)
        return SchemaBuilder(Options(allow_floats=True)).schema(kind)
    except Exception as error:
        raise GeneratedCodeError(f"the generated code does not declare a kind: {error}") from error
    finally:
        del sys.modules[name]


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif ours != theirs or type(ours) is not type(theirs):
        yield path


def normalized_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a version without what has no meaning, with the fields that every object has."""
    root: dict[str, Any] = normalized_schema(schema)
    properties = root.setdefault("properties", {})
    properties["apiVersion"] = properties["kind"] = {"type": "string"}
    properties.setdefault("metadata", {"type": "object"})
    return root


def normalized_schema(schema: Any) -> Any:
    """Return a schema without descriptions and keywords that have no effect."""
    if isinstance(schema, list):
        return [normalized_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("default", "enum", "example"):
            result[key] = value
        elif key == "properties":
            if value:
                result[key] = {name: normalized_schema(child) for name, child in value.items()}
        elif key == "required":
            if value:
                result[key] = sorted(set(value))
        elif key == "description" or value is False or (key == "x-kubernetes-validations" and not value):
            continue
        else:
            result[key] = normalized_schema(value)
    if result.get("x-kubernetes-int-or-string") and result.get("anyOf") == INT_OR_STRING["anyOf"]:
        del result["anyOf"]
    return result
