"""Types for checking, with sizes for cost estimation.

A `Type` is a kind with a name and parameters: `list(string)` has kind LIST and one parameter. Objects have
named fields, which may be a function so that only the used part of a large or recursive schema is converted.
A type also has properties from the schema: `max_size` (maximum characters, items or entries), `min_json`
(bytes of the smallest serialized value) and how lists are compared (`list_type` atomic, set or map). Two
types are equal if kind, name and parameters are; sizes are ignored.

Property names that are not CEL identifiers are escaped: `a-b` is `self.a__dash__b`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kubewright.cel.costs import limits


class Kind(IntEnum):
    """Kinds of types."""

    ERROR = 0
    DYN = 1
    NULL = 2
    BOOL = 3
    INT = 4
    UINT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    TIMESTAMP = 9
    DURATION = 10
    LIST = 11
    MAP = 12
    OBJECT = 13
    OPAQUE = 14
    TYPE = 15
    PARAM = 16


SCALARS: Final = frozenset({Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.TIMESTAMP, Kind.DURATION})


class Field(NamedTuple):
    """A field of an object: its key in the data and its type."""

    key: str
    type: Type


Fields = Mapping[str, "Type"]


class Type:
    """A CEL type; created by the functions of this module."""

    __slots__ = (
        "_declared",
        "_fields",
        "_needs_conversion",
        "kind",
        "list_keys",
        "list_type",
        "max_size",
        "min_json",
        "name",
        "null_fields",
        "open",
        "params",
    )

    def __init__(
        self,
        kind: Kind,
        name: str,
        params: tuple[Type, ...] = (),
        *,
        fields: Fields | Callable[[], Fields] | None = None,
        max_size: int | None = None,
        min_json: int = 1,
        list_type: str = "atomic",
        list_keys: tuple[str, ...] = (),
        open_fields: bool = False,
        null_fields: frozenset[str] = frozenset(),
    ) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.max_size = max_size
        self.min_json = min_json
        self.list_type = list_type
        self.list_keys = list_keys
        self.open = open_fields
        self.null_fields = null_fields
        self._declared = fields
        self._fields: dict[str, Field] | None = None
        self._needs_conversion: bool | None = None

    @property
    def fields(self) -> dict[str, Field]:
        """The fields of an object by their escaped names."""
        if self._fields is None:
            declared = self._declared() if callable(self._declared) else self._declared or {}
            fields: dict[str, Field] = {}
            for key, child in declared.items():
                name = escape(key)
                if name is not None:
                    fields[name] = Field(key, child)
            self._fields = fields
        return self._fields

    def field(self, name: str) -> Field | None:
        """Return the field called `name` in an expression; keywords need no escape."""
        found = self.fields.get(name)
        if found is None and name in RESERVED:
            found = self.fields.get(f"__{name}__")
        if found is None and self.open:
            return Field(name, DYN)
        return found

    def same(self, other: Type) -> bool:
        """Return whether both types are identical."""
        if self is other:
            return True
        if self.kind != other.kind or self.name != other.name or len(self.params) != len(other.params):
            return False
        return all(mine.same(theirs) for mine, theirs in zip(self.params, other.params, strict=True))

    @property
    def needs_conversion(self) -> bool:
        """Whether decoded JSON of this type differs anywhere from its CEL value."""
        if self._needs_conversion is None:
            self._needs_conversion = _needs_conversion(self, set())
        return self._needs_conversion

    def __str__(self) -> str:
        if self.kind is Kind.ERROR:
            return "!error!"
        if self.kind is Kind.NULL:
            return "null"
        if self.kind is Kind.TIMESTAMP:
            return "timestamp"
        if self.kind is Kind.DURATION:
            return "duration"
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"

    def __repr__(self) -> str:
        return f"<cel {self}>"


def _needs_conversion(root: Type, seen: set[int]) -> bool:
    if root.kind in (Kind.TIMESTAMP, Kind.DURATION, Kind.BYTES, Kind.DOUBLE):
        return True
    if root.kind is Kind.LIST and root.list_type != "atomic":
        return True
    if id(root) in seen:
        return False
    seen.add(id(root))
    if root.kind is Kind.OBJECT:
        return any(_needs_conversion(field.type, seen) for field in root.fields.values())
    return any(_needs_conversion(param, seen) for param in root.params)


ERROR: Final = Type(Kind.ERROR, "!error!")
DYN: Final = Type(Kind.DYN, "dyn")
NULL: Final = Type(Kind.NULL, "null_type", min_json=4)
BOOL: Final = Type(Kind.BOOL, "bool", min_json=limits.MIN_BOOL_SIZE)
INT: Final = Type(Kind.INT, "int", min_json=limits.MIN_NUMBER_SIZE)
UINT: Final = Type(Kind.UINT, "uint", min_json=limits.MIN_NUMBER_SIZE)
DOUBLE: Final = Type(Kind.DOUBLE, "double", min_json=limits.MIN_NUMBER_SIZE)
STRING: Final = Type(Kind.STRING, "string", min_json=limits.MIN_STRING_SIZE)
BYTES: Final = Type(Kind.BYTES, "bytes", min_json=limits.MIN_STRING_SIZE)
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp", min_json=limits.MIN_DATETIME_SIZE)
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration", min_json=limits.MIN_DURATION_SIZE)
TYPE: Final = Type(Kind.TYPE, "type")
MAP_KEY: Final = Type(Kind.STRING, "string", max_size=0, min_json=limits.MIN_STRING_SIZE)
"""The key of a schema's map. Kubernetes does not count the size of keys."""


def string_type(max_size: int | None = None) -> Type:
    """A string of at most `max_size` bytes; Kubernetes counts four for each character of maxLength."""
    return Type(Kind.STRING, "string", max_size=max_size, min_json=limits.MIN_STRING_SIZE)


def bytes_type(max_size: int | None = None) -> Type:
    """Bytes, base64 in the data (format byte)."""
    return Type(Kind.BYTES, "bytes", max_size=max_size, min_json=limits.MIN_STRING_SIZE)


def timestamp_type(*, date: bool = False) -> Type:
    """A date-time (or date) string in the data."""
    size = limits.DATE_SIZE if date else limits.MAX_DATETIME_SIZE
    least = limits.DATE_SIZE if date else limits.MIN_DATETIME_SIZE
    return Type(Kind.TIMESTAMP, "google.protobuf.Timestamp", max_size=size, min_json=least)


def duration_type() -> Type:
    """A duration string in the data."""
    return Type(
        Kind.DURATION,
        "google.protobuf.Duration",
        max_size=limits.MAX_DURATION_SIZE,
        min_json=limits.MIN_DURATION_SIZE,
    )


def int_or_string_type(max_size: int | None = None) -> Type:
    """An `x-kubernetes-int-or-string` value: checked at run time only."""
    size = limits.MAX_STRING_SIZE if max_size is None else max_size
    return Type(Kind.DYN, "dyn", max_size=size)


def list_type(
    item: Type, max_size: int | None = None, *, kind: str = "atomic", keys: tuple[str, ...] = ()
) -> Type:
    """A list; `kind` set or map makes `==` ignore order and `+` merge, as such lists do in Kubernetes."""
    return Type(
        Kind.LIST,
        "list",
        (item,),
        max_size=max_size,
        min_json=limits.MIN_CONTAINER_SIZE,
        list_type=kind,
        list_keys=keys,
    )


def map_type(key: Type, value: Type, max_size: int | None = None) -> Type:
    """A map; a schema's additionalProperties is `map_type(MAP_KEY, value, maxProperties)`."""
    return Type(Kind.MAP, "map", (key, value), max_size=max_size, min_json=limits.MIN_CONTAINER_SIZE)


def object_type(
    name: str,
    fields: Fields | Callable[[], Fields],
    *,
    min_json: int = limits.MIN_CONTAINER_SIZE,
    open_fields: bool = False,
    null_fields: frozenset[str] = frozenset(),
) -> Type:
    """Return an object type with these fields, by their unescaped names.

    With `open_fields`, undeclared fields are dyn. A field that is null is absent unless it is one of
    `null_fields`.
    """
    return Type(
        Kind.OBJECT,
        name,
        fields=fields,
        max_size=0,
        min_json=min_json,
        open_fields=open_fields,
        null_fields=null_fields,
    )


def find_message(messages: Mapping[str, Type], name: str) -> Type | None:
    """Return the object type of this name; below an open object, any dotted name is an open object."""
    found = messages.get(name)
    if found is None and "." in name:
        root = messages.get(name.partition(".")[0])
        if root is not None and root.open:
            return object_type(name, {}, open_fields=True)
    return found


def optional_type(value: Type) -> Type:
    """A value that may be absent."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def opaque_type(name: str, *params: Type) -> Type:
    """A type known only to functions, such as kubernetes.URL."""
    return Type(Kind.OPAQUE, name, params)


def type_of(value: Type) -> Type:
    """The type of a type name used as a value."""
    return Type(Kind.TYPE, "type", (value,))


def param_type(name: str) -> Type:
    """A type parameter of a function declaration."""
    return Type(Kind.PARAM, name)


def is_optional(value: Type) -> bool:
    """Whether this is `optional_type(...)`."""
    return value.kind is Kind.OPAQUE and value.name == "optional_type"


RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"),
        *("if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TO_ESCAPE: Final = re.compile(r"__|[.\-/]")
_ESCAPED: Final = re.compile(r"__(underscores|dot|dash|slash)__")
_PLAIN: Final = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def escape(name: str) -> str | None:
    """Return the CEL identifier of a property name, or `None` if it cannot be escaped."""
    if name in RESERVED:
        return f"__{name}__"
    escaped = _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], name)
    return escaped if _NAME.match(escaped) else None


def unescape(name: str) -> str:
    """Return the property name of an identifier."""
    inner = name[2:-2]
    if name == f"__{inner}__" and inner in RESERVED:
        return inner
    return _ESCAPED.sub(lambda match: _PLAIN[match[1]], name)
