"""Types of the variables of a template, and a check of its fields, from the schemas of kinds.

Built-in kinds and classes with `@resource` have schemas; other kinds are checked by the API server only.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright import cel
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.schema import DeclarationError, Node, Options, schema_of
from kubewright.schema.generation.from_builtin import RecursiveSchema, builtin_definition, builtin_schema
from kubewright.schema.validation.cel_types import cel_type

from .expressions import Expression, TemplateError, Text

_ANY: Final = frozenset((cel.Kind.DYN, cel.Kind.ERROR, cel.Kind.PARAM, cel.Kind.OPAQUE))
_COMPARED: Final = {
    "string": frozenset((cel.Kind.STRING, cel.Kind.BYTES, cel.Kind.TIMESTAMP, cel.Kind.DURATION)),
    "integer": frozenset((cel.Kind.INT, cel.Kind.UINT)),
    "number": frozenset((cel.Kind.INT, cel.Kind.UINT, cel.Kind.DOUBLE)),
    "boolean": frozenset((cel.Kind.BOOL,)),
    "array": frozenset((cel.Kind.LIST,)),
    "object": frozenset((cel.Kind.MAP, cel.Kind.OBJECT)),
}


def schema_node(kind: type[MetaObject] | GroupVersionKind, scheme: Scheme) -> Node | None:
    """Return the schema of a kind, or `None` if it is not known."""
    cls: Any = scheme.find(kind) if isinstance(kind, GroupVersionKind) else kind
    if cls is None:
        return None
    definition = builtin_definition(cls)
    try:
        if definition is not None:
            return Node(builtin_schema(definition))
        return Node(schema_of(cls, Options(allow_floats=True)))
    except (DeclarationError, RecursiveSchema):
        return None


def object_type(node: Node | None) -> cel.Type:
    """Return the CEL type of objects of a kind; that of its metadata is not checked."""
    if node is None:
        return cel.DYN
    fields: dict[str, cel.Type] = {
        name: cel_type(child) or cel.DYN for name, child in node.properties.items()
    }
    fields |= {"apiVersion": cel.STRING, "kind": cel.STRING, "metadata": cel.DYN}
    return cel.object_type("object", fields)


def check_fields(value: Any, node: Node, path: str) -> None:
    """Raise a `TemplateError` for a field that a kind does not have, or an expression of another type."""
    if isinstance(value, dict):
        if node.preserve_unknown or node.type != "object":
            return
        for name, item in value.items():
            child = node.properties.get(name) or node.additional
            if child is None:
                if node.properties:
                    known = ", ".join(sorted(node.properties))
                    raise TemplateError(f"{path}.{name}: no such field; the fields are: {known}")
                return
            check_fields(item, child, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if node.items is not None:
                check_fields(item, node.items, f"{path}[{index}]")
    elif isinstance(value, Expression | Text):
        found = value.type.kind if isinstance(value, Expression) else cel.Kind.STRING
        expected = _COMPARED.get("" if node.int_or_string or node.preserve_unknown else node.type)
        if expected is not None and found not in _ANY and found not in expected:
            name = value.type if isinstance(value, Expression) else "string"
            raise TemplateError(f"{path}: the expression is of type {name}, the field is of type {node.type}")
