"""Function declarations: overloads with types and implementations.

A function is a name with overloads; an overload has an id (costs are keyed by it), the types of its arguments
and its result, and a Python implementation. Libraries declare overloads as text:

    overload("charAt", "string_char_at_int", "string.(int) -> string", char_at)

A type before the dot makes it a method. Single capitals are type parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from kubewright.cel.checking import types as t
from kubewright.cel.checking.types import Kind, Type
from kubewright.cel.values import (
    DurationValue,
    MapList,
    Opaque,
    Optional,
    SetList,
    TimestampValue,
    TypeValue,
    UInt,
)

Implementation = Callable[..., Any]

_SCALARS: Final = {
    "dyn": t.DYN,
    "null": t.NULL,
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "timestamp": t.TIMESTAMP,
    "duration": t.DURATION,
    "type": t.TYPE,
}
_WORD: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.]*[A-Za-z0-9_]|[A-Za-z])\s*")


class Overload:
    """One overload of a function."""

    __slots__ = ("args", "function", "generic", "id", "impl", "matchers", "member", "result")

    def __init__(
        self,
        function: str,
        id: str,
        member: bool,
        args: tuple[Type, ...],
        result: Type,
        impl: Implementation | None,
    ) -> None:
        self.function = function
        self.id = id
        self.member = member
        self.args = args
        self.result = result
        self.impl = impl
        self.generic = frozenset().union(*map(_params, args), _params(result))
        self.matchers = tuple(map(matcher, args))

    def accepts(self, values: Iterable[Any]) -> bool:
        """Return whether the run-time types of these values match the arguments."""
        return all(match is None or match(value) for match, value in zip(self.matchers, values, strict=True))

    def __repr__(self) -> str:
        return f"Overload({self.id})"


class FunctionTable:
    """All functions of an environment by name."""

    __slots__ = ("_functions",)

    def __init__(self, overloads: Iterable[Overload]) -> None:
        self._functions: dict[str, list[Overload]] = {}
        for item in overloads:
            self._functions.setdefault(item.function, []).append(item)

    def find(self, name: str) -> list[Overload] | None:
        """Return the overloads of a function."""
        return self._functions.get(name)


def overload(function: str, id: str, signature: str, impl: Implementation | None = None) -> Overload:
    """Return an overload declared by its signature."""
    left, _, result = signature.partition("->")
    member, args = _arguments(left)
    return Overload(function, id, member, args, read_type(result)[0], impl)


def _arguments(text: str) -> tuple[bool, tuple[Type, ...]]:
    text = text.strip()
    args: list[Type] = []
    member = not text.startswith("(")
    if member:
        first, rest = read_type(text)
        args.append(first)
        text = rest.lstrip()
        assert text.startswith(".("), text
        text = text[1:]
    text = text[1:].strip()
    while not text.startswith(")"):
        item, text = read_type(text.lstrip(", "))
        args.append(item)
        text = text.strip()
    return member, tuple(args)


def read_type(text: str) -> tuple[Type, str]:
    """Parse a type at the start of a text; return it and the rest."""
    match = _WORD.match(text)
    assert match, text
    name, rest = match[1], text[match.end() :]
    if name.endswith("."):
        name, rest = name[:-1], "." + rest
    params: list[Type] = []
    if rest.startswith("(") and name in ("list", "map", "optional", "type"):
        rest = rest[1:]
        while not rest.startswith(")"):
            param, rest = read_type(rest.lstrip(", "))
            params.append(param)
            rest = rest.lstrip()
        rest = rest[1:]
    if name == "list":
        return t.list_type(params[0]), rest
    if name == "map":
        return t.map_type(params[0], params[1]), rest
    if name == "optional":
        return t.optional_type(params[0]), rest
    if name == "type" and params:
        return t.type_of(params[0]), rest
    if name in _SCALARS:
        return _SCALARS[name], rest
    if len(name) == 1 and name.isupper():
        return t.param_type(name), rest
    return t.opaque_type(name), rest


def _params(item: Type) -> frozenset[str]:
    if item.kind is Kind.PARAM:
        return frozenset({item.name})
    return frozenset().union(*map(_params, item.params))


def matcher(item: Type) -> Callable[[Any], bool] | None:
    """Return a predicate for values of this type, or `None` if every value matches."""
    if item.kind is Kind.OPAQUE:
        if item.name == "optional_type":
            return lambda value: isinstance(value, Optional)
        name = item.name
        return lambda value: isinstance(value, Opaque) and value.cel_type.name == name
    if item.kind in (Kind.DYN, Kind.PARAM, Kind.ERROR):
        return None
    classes = _CLASSES[item.kind]
    return lambda value: type(value) in classes


_CLASSES: Final[dict[Kind, tuple[type, ...]]] = {
    Kind.NULL: (type(None),),
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.UINT: (UInt,),
    Kind.DOUBLE: (float,),
    Kind.STRING: (str,),
    Kind.BYTES: (bytes,),
    Kind.TIMESTAMP: (TimestampValue,),
    Kind.DURATION: (DurationValue,),
    Kind.LIST: (list, SetList, MapList),
    Kind.MAP: (dict,),
    Kind.OBJECT: (dict,),
    Kind.TYPE: (TypeValue,),
}
