"""Partial objects: some fields of a class and no others, for server-side apply.

The sender of an apply request owns the fields that it sends. A typed object sends the fields that were set,
and needs its required fields. `partial` contains exactly the given fields:

    partial(Deployment,
        metadata={"name": "web", "namespace": "default"},
        spec=partial(DeploymentSpec, replicas=0, paused=False))

Names are those of the class and are checked. A nested value may be another `partial`, a struct, or a dict of
field names. `None` omits a field. apiVersion and kind are those of the class.
"""

from __future__ import annotations

import types
from difflib import get_close_matches
from functools import cache
from typing import Any, Union, get_args, get_origin

import msgspec

from .encoding.codec import to_plain
from .objects import Object, Struct
from .unstructured import Unstructured


class PartialError(TypeError):
    """The class has no such field."""


class Partial(Unstructured):
    """Some fields of a class, with their JSON names; `type` is the class."""

    type: type[Struct]

    def __repr__(self) -> str:
        return f"partial({self.type.__name__}, {self.raw!r})"


def partial(of: type[Struct], /, **fields: Any) -> Partial:
    """Create a partial object of the class `of` with these fields."""
    raw: dict[str, Any] = {}
    if issubclass(of, Object) and of.gvk is not None:
        raw["apiVersion"], raw["kind"] = of.gvk.api_version, of.gvk.kind
    raw.update(_checked(of, fields, of.__name__))
    made = Partial(raw)
    made.type = of
    return made


@cache
def _fields(of: type[Struct]) -> dict[str, tuple[str, Any]]:
    """Return JSON name and type of each field, by Python name and by JSON name."""
    known: dict[str, tuple[str, Any]] = {}
    for field in msgspec.structs.fields(of):
        known[field.encode_name] = known[field.name] = (field.encode_name, field.type)
    return known


def _checked(of: type[Struct], fields: dict[str, Any], path: str) -> dict[str, Any]:
    known = _fields(of)
    raw: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in known:
            close = get_close_matches(name, of.__struct_fields__, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(of.__struct_fields__)}"
            raise PartialError(f"{path} has no field {name!r}{hint}")
        wire, type_ = known[name]
        if value is not None:
            raw[wire] = _value(value, type_, f"{path}.{name}")
    return raw


def _value(value: Any, type_: Any, path: str) -> Any:
    if isinstance(value, Unstructured):
        return value.raw
    if isinstance(value, dict):
        struct = _find(type_, msgspec.Struct)
        if struct is not None:
            return _checked(struct, value, path)
        item = _item_type(type_, dict)
        return {key: _value(one, item, f"{path}[{key!r}]") for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        item = _item_type(type_, list)
        return [_value(one, item, f"{path}[{index}]") for index, one in enumerate(value)]
    return to_plain(value)


def _alternatives(type_: Any) -> tuple[Any, ...]:
    """Return the members of a union, without annotations."""
    while hasattr(type_, "__metadata__"):
        type_ = type_.__origin__
    if get_origin(type_) in (Union, types.UnionType):
        return tuple(one for member in get_args(type_) for one in _alternatives(member))
    return (type_,)


def _find(type_: Any, base: type) -> Any:
    for one in _alternatives(type_):
        plain = get_origin(one) or one
        if isinstance(plain, type) and issubclass(plain, base):
            return plain
    return None


def _item_type(type_: Any, container: type) -> Any:
    for one in _alternatives(type_):
        if get_origin(one) is container:
            return get_args(one)[-1]
    return Any
