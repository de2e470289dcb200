"""Python types for the schemas of a CustomResourceDefinition.

`TypeBuilder` walks a structural schema and collects the classes and imports of a module. For every node it
chooses the Python type with the closest schema and compares the two: each keyword that does not follow from
the type becomes a marker, or `SchemaKeywords` if it has none (`oneOf`, `not`, bounds of an int-or-string).
The schema that Kubewright generates from the classes is therefore the original one.

Objects become classes that are named after their field. Equal schemas share a class; a different schema with
the same name is named after its parent as well. Schemas of built-in types (conditions, label selectors,
resource requirements) become these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubewright.api.markers import __all__ as MARKER_NAMES  # noqa: N812
from kubewright.scaffold.source.python_source import (
    WIDTH,
    Expression,
    Group,
    Text,
    call,
    docstring,
    flat,
    prefixed,
    quote,
    render,
    suffixed,
    value,
)
from kubewright.schema.generation.from_builtin import INT_OR_STRING, QUANTITY, RAW, TIME

from .builtin_types import find_builtin_type
from .keyword_markers import keyword_markers
from .python_names import camel_case, class_name, field_names, is_builtin, singular

Schema = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_ANY: Final[Schema] = {_PRESERVE: True}
_IMPORTED: Final = {
    **dict.fromkeys(("Any", "Annotated", "Literal"), "typing"),
    **dict.fromkeys(MARKER_NAMES, "kubewright.api"),
    **dict.fromkeys(
        (
            *("Column", "CustomResource", "IntOrString", "MetaObject", "ObjectMeta", "Quantity", "RawObject"),
            *("Scale", "Spec", "Status", "Struct", "Time", "WebhookConversion", "field", "resource"),
        ),
        "kubewright.api",
    ),
}
"""Names that generated code imports, with their modules."""
_LONGEST_LITERAL: Final = 60
"""Number of characters above which a `Literal` becomes an alias."""
_SCALAR_DEFAULTS: Final = {
    "str": str,
    "int": int,
    "Int32": int,
    "Integer": int,
    "bool": bool,
    "Number": int | float,
    "IntOrString": int | str,
}


@dataclass(frozen=True)
class TypeExpression:
    """A Python type, its markers, and the class to construct an empty value with, if there is one."""

    type: Expression
    markers: tuple[Expression, ...] = ()
    empty: str | None = None


@dataclass
class TypeBuilder:
    """Collects the classes and imports of one module."""

    classes: list[str] = field(default_factory=list)
    """Source of the classes; a class follows the classes that it uses."""
    imports: dict[str, set[str]] = field(default_factory=dict)
    _names: dict[str, bytes | None] = field(default_factory=dict)
    _empty: set[str] = field(default_factory=set)
    """Classes without required fields."""
    _literals: set[str] = field(default_factory=set)
    """Aliases of `Literal` types."""

    def reserve(self, name: str) -> None:
        """Exclude a name from the names of generated classes."""
        self._names.setdefault(name, None)

    def is_reserved(self, name: str) -> bool:
        """Return whether generated code may need the name for something else."""
        return name in _IMPORTED or is_builtin(name)

    def can_be_empty(self, name: str) -> bool:
        """Return whether a type has an empty value: a class without required fields, or any object."""
        return name in self._empty or name == "RawObject"

    def use(self, name: str, module: str | None = None) -> str:
        """Import a name and return it."""
        self.imports.setdefault(module or _IMPORTED[name], set()).add(name)
        return name

    def marker(self, name: str, *items: Expression) -> Expression:
        """Return a marker with arguments, or a constant marker without any."""
        self.use(name)
        return call(name, *items) if items else name

    def annotated(self, type_: TypeExpression, *, optional: bool = False) -> Expression:
        """Return the annotation for a type with markers, with `| None` if it is optional."""
        base = suffixed(type_.type, " | None") if optional else type_.type
        return call(self.use("Annotated") + "[", base, *type_.markers) if type_.markers else base

    def type_of(
        self, schema: Mapping[str, Any], name: str, parent: str, *, with_default: bool = True
    ) -> TypeExpression:
        """Return the type of a value; a class for it is named after the field `name` of the class `parent`.

        A default in the schema becomes a marker, unless it becomes the default of a field.
        """
        rest = _without_empty(schema)
        nullable = rest.pop("nullable", False)
        has_default = "default" in rest
        default = rest.pop("default", None)
        base, made, empty = self._base(schema, rest, name, parent, has_default=has_default)
        markers = keyword_markers(rest, made, self.marker)
        if has_default and with_default:
            markers.append(self.marker("Default", value(default)))
        if nullable:
            markers.append(self.marker("Nullable"))
            base = suffixed(base, " | None")
        return TypeExpression(base, tuple(markers), empty)

    def _base(
        self, schema: Mapping[str, Any], rest: Schema, name: str, parent: str, *, has_default: bool
    ) -> tuple[Expression, Schema, str | None]:
        """Return a type, the schema that Kubewright generates for it, and its class if it can be empty."""
        kind = rest.get("type")
        if rest.get(_INT_OR_STRING):
            if rest == QUANTITY:
                return self.use("Quantity"), QUANTITY, None
            return self.use("IntOrString"), INT_OR_STRING, None
        if kind == "array" and isinstance(rest.get("items"), Mapping):
            items = self.type_of(rest["items"], singular(name), parent)
            return call("list[", self.annotated(items)), {"type": kind, "items": rest["items"]}, None
        if kind == "object":
            return self._object(schema, rest, name, parent)
        if kind in ("string", "integer", "boolean", "number"):
            return *self._scalar(rest, kind, name, parent, has_default=has_default), None
        if kind is None and rest.get(_PRESERVE):
            return self.use("Any"), _ANY, None
        return call(self.use("Annotated") + "[", self.use("Any"), self.marker("Schemaless")), {}, None

    def _scalar(
        self, rest: Schema, kind: str, name: str, parent: str, *, has_default: bool
    ) -> tuple[Expression, Schema]:
        words = rest.get("enum")
        expected = {"string": str, "integer": int, "boolean": bool}.get(kind)
        if words and expected and all(type(word) is expected for word in words):
            literal = call(self.use("Literal") + "[", *(value(word) for word in dict.fromkeys(words)))
            made: Schema = {"type": kind, "enum": words}
            if len(flat(literal)) <= _LONGEST_LITERAL:
                return literal, made
            return self._alias(literal, class_name(name), parent), made
        if kind == "string":
            if rest == TIME and not has_default:
                return self.use("Time"), TIME
            if rest.keys() == {"type", "format"} and rest["format"] == "byte" and not has_default:
                return "bytes", rest
            return "str", {"type": kind}
        if kind == "integer":
            form = rest.get("format")
            known: dict[str | None, str] = {"int32": "Int32", None: "Integer"}
            if form in known:
                return self.use(known[form]), {"type": kind, **({"format": form} if form else {})}
            return "int", {"type": kind, "format": "int64"}
        if kind == "number":
            return self.use("Number"), {"type": kind}
        return "bool", {"type": kind}

    def _alias(self, literal: Expression, name: str, parent: str) -> str:
        """Add an alias for a long type and return its name."""
        text = flat(literal)
        unique, is_new = self._unique_name(name, parent, text.encode())
        if is_new:
            self.classes.append(render(prefixed(literal, f"{unique} = ")) + "\n")
            self._literals.add(unique)
        return unique

    def _unique_name(self, name: str, parent: str, identity: bytes) -> tuple[str, bool]:
        """Return a name for a class or alias, and whether it is not defined yet."""
        unique = name
        if self.is_reserved(unique) or self._names.get(unique, identity) != identity:
            unique = parent + name
        number = 2
        while self.is_reserved(unique) or self._names.get(unique, identity) != identity:
            unique, number = f"{parent}{name}{number}", number + 1
        is_new = unique not in self._names
        self._names[unique] = identity
        return unique, is_new

    def _object(
        self, schema: Mapping[str, Any], rest: Schema, name: str, parent: str
    ) -> tuple[Expression, Schema, str | None]:
        additional = rest.get("additionalProperties")
        if not rest.get("properties") and additional is not None:
            if isinstance(additional, Mapping) and additional:
                inner = self.annotated(self.type_of(additional, singular(name), parent))
                return (
                    call("dict[", "str", inner),
                    {"type": "object", "additionalProperties": additional},
                    None,
                )
            made = {"type": "object", "additionalProperties": _ANY}
            return call("dict[", "str", self.use("Any")), made, None
        if not rest.get("properties"):
            if rest.get(_PRESERVE):
                return self.use("RawObject"), RAW, None
            if name == "metadata" and rest == {"type": "object"}:
                return self.use("ObjectMeta"), rest, None
        elif builtin := self._builtin(rest):
            return builtin, rest, None
        cls = self.struct(schema, class_name(name), parent)
        return cls, rest, cls if cls in self._empty else None

    def _builtin(self, rest: Schema) -> str | None:
        found = find_builtin_type(rest)
        if found is None:
            return None
        module, name = found
        if name in self._names and name not in self.imports.get(module, ()):
            return None
        self.reserve(name)
        return self.use(name, module)

    def struct(self, schema: Mapping[str, Any], name: str, parent: str, *, base: str = "Struct") -> str:
        """Add the class of an object and return its name."""
        rest = _without_empty(schema)
        rest = {key: item for key, item in rest.items() if key not in ("default", "nullable")}
        identity = msgspec.json.encode([rest, bool(schema.get("description"))], order="sorted")
        unique, is_new = self._unique_name(name, parent, identity)
        if not is_new:
            return unique
        lines = self.fields(schema, unique)
        text = self.class_source(
            unique,
            self.use(base),
            lines,
            markers=self.class_markers(rest),
            description=schema.get("description", ""),
        )
        self.classes.append(text)
        return unique

    def class_markers(self, rest: Schema) -> list[Expression]:
        """Return the markers of a class for the keywords that do not follow from its fields."""
        declared = rest.get("properties") or {}
        undeclared = [name for name in rest.get("required") or () if name not in declared]
        own = {key: item for key, item in rest.items() if key not in ("properties", "required", "type")}
        if undeclared:
            own["required"] = undeclared
        return keyword_markers(own, {}, self.marker, of_class=True)

    def class_source(
        self,
        name: str,
        base: str,
        fields: str,
        *,
        markers: list[Expression],
        description: str,
        head: str = "",
    ) -> str:
        """Return the source of a class."""
        if markers:
            head += render(call("@" + self.use("mark"), *markers)) + "\n"
        doc = docstring(description)
        blank = "\n" if doc and fields else ""
        body = f"{doc}{blank}{fields}" or "    pass\n"
        return f"{head}{render(call(f'class {name}', base), suffix=':')}\n{body}"

    def fields(self, schema: Mapping[str, Any], cls: str) -> str:
        """Return the source of the fields of a class."""
        properties: dict[str, Schema] = schema.get("properties") or {}
        required = set(schema.get("required") or ())
        names = field_names(properties)
        parts = [
            self.field(child, wire, names[wire], cls, required=wire in required)
            for wire, child in properties.items()
        ]
        if not any(wire in required and "default" not in child for wire, child in properties.items()):
            self._empty.add(cls)
        return "".join(parts)

    def field(self, child: Schema, wire: str, name: str, cls: str, *, required: bool) -> str:
        """Return the source of one field with its docstring."""
        type_ = self.type_of(child, wire, cls, with_default=False)
        default, annotation = self._assigned(type_, child, required=required)
        right: Expression | None = default
        if camel_case(name) != wire:
            argument = f"name={quote(wire)}"
            if default is None:
                right = call(self.use("field"), argument)
            elif isinstance(default, Group) and default.open == "field(":
                right = call("field", *default.items, argument)
            else:
                right = call(self.use("field"), prefixed(default, "default="), argument)
        doc = docstring(child["description"]) if child.get("description") else ""
        return _field_line(name, annotation, right) + doc

    def _assigned(
        self, type_: TypeExpression, child: Schema, *, required: bool
    ) -> tuple[Expression | None, Expression]:
        """Return the default of a field in Python, if it has one, and its annotation."""
        nullable = child.get("nullable", False)
        if "default" not in child:
            if required:
                return None, self.annotated(type_)
            return "None", self.annotated(type_, optional=not nullable)
        default = child["default"]
        in_python = self._python_default(type_, child, default)
        markers = type_.markers
        if required or in_python is None or not isinstance(default, str | int | float):
            markers = (*markers, self.marker("Default", value(default)))
        if required:
            markers = (*markers, self.marker("Required"))
        with_markers = TypeExpression(type_.type, markers, type_.empty)
        if in_python is None:
            return "None", self.annotated(with_markers, optional=not nullable)
        return in_python, self.annotated(with_markers)

    def _python_default(self, type_: TypeExpression, child: Schema, default: Any) -> Expression | None:
        """Return the default as a Python expression, or `None` if only the server can apply it."""
        base = flat(type_.type).removesuffix(" | None")
        accepted = _SCALAR_DEFAULTS.get(base)
        is_literal = base.startswith("Literal[") or base in self._literals
        if accepted is not None or is_literal:
            if is_literal and default not in child.get("enum", ()):
                return None
            if accepted is not None and not isinstance(default, accepted):
                return None
            # bool is a subclass of int.
            if isinstance(default, bool) and accepted not in (bool, None):
                return None
            return value(default)
        if default == [] and base.startswith("list["):
            return call(self.use("field"), "default_factory=list")
        if default == {} and base.startswith("dict["):
            return call(self.use("field"), "default_factory=dict")
        if default == {} and type_.empty is not None:
            return call(self.use("field"), f"default_factory={type_.empty}")
        return None


def _field_line(name: str, annotation: Expression, right: Expression | None) -> str:
    indent = "    "
    left = prefixed(annotation, f"{name}: ")
    if right is None:
        return f"{indent}{render(left, indent)}\n"
    default = flat(right)
    start = indent + flat(left)
    if isinstance(left, Group) and len(start) + 4 > WIDTH:
        return f"{indent}{render(left, indent, f' = {default}')}\n"
    splits = isinstance(right, Group) and len(start) + 3 + len(right.open) <= WIDTH
    if len(start) + 3 + len(default) > WIDTH and not splits and len(default) + 8 <= WIDTH:
        return f"{start} = (\n{indent * 2}{default}\n{indent})\n"
    if isinstance(right, Text) and len(start) + 3 + len(default) > WIDTH:
        # Adjacent literals need parentheses; without them, all but the first are statements of their own.
        return f"{start} = (\n{indent * 2}{render(right, indent * 2)}\n{indent})\n"
    return f"{indent}{render(prefixed(right, flat(left) + ' = '), indent)}\n"


def _without_empty(schema: Mapping[str, Any]) -> Schema:
    """Return a schema without the description and without keywords that have no effect."""
    return {
        key: item
        for key, item in schema.items()
        if key != "description"
        and not (key in ("properties", "required", "x-kubernetes-validations") and not item)
        and not (key.startswith("x-kubernetes-") and item is False)
    }
