"""Fields of a struct class with resolved types, wire names and defaults.

Type arguments of generic bases are resolved: in `class Guestbook(CustomResource[GuestbookSpec,
GuestbookStatus])` the field `spec` has the type `GuestbookSpec`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from kubewright.api.presence import tracked_defaults

NO_VALUE = msgspec.NODEFAULT


@dataclass(frozen=True)
class StructField:
    """One field; `default` is `NO_VALUE` where the field has none."""

    name: str
    wire_name: str
    type: Any
    default: Any
    owner: type
    """The class that declares it."""

    @property
    def has_default(self) -> bool:
        """Whether the field has a default, so that the constructor does not require it."""
        return self.default is not NO_VALUE


def struct_fields(cls: Any) -> list[StructField]:
    """Return the fields of a struct class, or of a generic one with type arguments, in order."""
    struct = get_origin(cls) or cls
    types: dict[str, tuple[Any, type]] = {}
    _collect(cls, {}, types)
    names: tuple[str, ...] = struct.__struct_fields__
    defaults = struct.__struct_defaults__
    padded = (NO_VALUE,) * (len(names) - len(defaults)) + tuple(defaults)
    tracked = tracked_defaults(struct)
    return [
        StructField(
            name,
            wire,
            types[name][0],
            tracked[name].create() if name in tracked else _value(default),
            types[name][1],
        )
        for name, wire, default in zip(names, struct.__struct_encode_fields__, padded, strict=True)
    ]


def _value(default: Any) -> Any:
    factory = getattr(default, "factory", None)
    return factory() if type(default).__name__ == "Factory" and factory is not None else default


def _collect(cls: Any, arguments: Mapping[Any, Any], found: dict[str, tuple[Any, type]]) -> None:
    struct = get_origin(cls) or cls
    if not issubclass(struct, msgspec.Struct) or struct is msgspec.Struct:
        return
    parameters = getattr(struct, "__parameters__", ())
    given = dict(zip(parameters, (_substitute(arg, arguments) for arg in get_args(cls)), strict=False))
    for base in vars(struct).get("__orig_bases__", struct.__bases__):
        if isinstance(get_origin(base) or base, type):
            _collect(base, given, found)
    for name, hint in inspect.get_annotations(struct, eval_str=True).items():
        if name in struct.__struct_fields__:
            found[name] = (_substitute(hint, given), struct)


def _substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return arguments.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(arguments.get(parameter, parameter) for parameter in parameters)]
