"""Attribute access to the status of a custom resource: an empty status is created when it is first read.

A reconciler can then write `shop.status.phase = "Open"` for an object that has no status yet. The encoded
object does not change by reading: the slot holds a `presence.DefaultValue`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from kubewright.api.annotations import own_annotations
from kubewright.api.presence import DefaultValue

_factories: dict[type, Callable[[], Any] | None] = {}


class StatusDescriptor:
    """Wraps the slot of the field `status`; msgspec itself reads and writes the slot directly."""

    def __init__(self, slot: Any, base: type) -> None:
        self._slot = slot
        self._base = base

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self._slot
        value = self._slot.__get__(obj, owner)
        if value is None:
            cls = type(obj)
            if cls not in _factories:
                _factories[cls] = _status_factory(cls, self._base)
            factory = _factories[cls]
            if factory is not None:
                value = DefaultValue(factory, factory())
                self._slot.__set__(obj, value)
        return value.value if type(value) is DefaultValue else value

    def __set__(self, obj: Any, value: Any) -> None:
        self._slot.__set__(obj, value)

    def __delete__(self, obj: Any) -> None:
        self._slot.__set__(obj, None)


def _status_factory(cls: type, base: type) -> Callable[[], Any] | None:
    """The status type of a custom resource, if it can be constructed without arguments.

    `CustomResource[Spec, Status | None]` and a field that the class declares itself stay `None`.
    """
    declared: Any = None
    for each in cls.__mro__:
        if each is base:
            break
        if "status" in own_annotations(each):
            return None
        for parent in vars(each).get("__orig_bases__", ()):
            if typing.get_origin(parent) is base:
                declared = typing.get_args(parent)[1]
    if isinstance(declared, typing.TypeVar):
        (field,) = (each for each in msgspec.structs.fields(cls) if each.name == "status")
        options = [each for each in typing.get_args(field.type) if each is not types.NoneType]
        declared = options[0] if len(options) == 1 else None
    constructor = typing.get_origin(declared) or declared
    if not isinstance(constructor, type) or constructor in (types.NoneType, types.UnionType):
        return None
    if issubclass(constructor, msgspec.Struct) and any(
        each.required for each in msgspec.structs.fields(constructor)
    ):
        return None
    return constructor
