"""Base classes of API types: structs with snake_case fields in Python and camelCase fields in JSON.

Rules for built-in types and custom resources:

- Structs are keyword-only. A field that was set is encoded, also if its value equals the default; one that
  was not set is omitted, and reading it returns the default (`presence`). `None` is the same as not set.
- `Object` is the base of all types with `apiVersion` and `kind`, and sets both from its class.
- A decoded object keeps the bytes that it was decoded from (`base_of`). An update sends the difference to
  them, so fields that the class does not have are never lost.
- Decoding never validates: markers in `Annotated` describe the schema and are ignored by the codec.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import msgspec
from msgspec import field as field
from msgspec.structs import astuple

from .annotations import namespace_annotations
from .gvk import GroupVersionKind
from .presence import copy_value, delete_field, install, settled, take_defaults, tracked_defaults, values


class _StructMeta(msgspec.StructMeta):
    """Make every struct keyword-only, which msgspec does not inherit, check classes of users, track presence.

    The types of this package are generated with the default `None`, or decode what they need of an object;
    those with other defaults that are sent declare `presence=True`.
    """

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        presence: bool = False,
        **config: Any,
    ) -> Any:
        config.setdefault("kw_only", True)
        scope = sys._getframe(1)
        # The types of this package are generated or tested; checking them would slow down their import.
        if not namespace.get("__module__", "").startswith("kubewright."):
            from .declaring.class_checks import check_class

            check_class(name, bases, namespace, scope)
            namespace.setdefault("__delattr__", delete_field)
            # Every position of an array is encoded.
            presence = not config.get("array_like", False)
        if not presence:
            return super().__new__(mcls, name, bases, namespace, **config)
        taken = take_defaults(namespace, namespace_annotations(namespace), scope)
        cls = super().__new__(mcls, name, bases, namespace, **config)
        if taken or tracked_defaults(cls):
            install(cls, taken, keep_equality="__eq__" in namespace)
        return cls


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, metaclass=_StructMeta, rename="camel", omit_defaults=True, gc=False):
    """Base of all API types."""

    def copy(self) -> Self:
        """Return a deep copy."""
        new: Self = copy_value(self)
        return new

    def __repr__(self) -> str:
        return "".join(_repr_parts(self))

    def __rich_repr__(self) -> Iterator[tuple[str, Any, Any]]:  # type: ignore[override]
        for name, value in values(self):
            yield name, value, None


class Spec(Struct):
    """Base of the desired state of a custom resource."""


class Status(Struct):
    """Base of the observed state of a custom resource."""


class Object(Struct, dict=True, gc=True):
    """Base of all types with `apiVersion` and `kind`.

    `gvk` is the kind of the class, or `None` for abstract bases.
    """

    gvk: ClassVar[GroupVersionKind | None] = None

    api_version: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.kind:
            gvk = type(self).gvk
            if gvk is not None:
                self.api_version = gvk.api_version
                self.kind = gvk.kind


ObjectT = TypeVar("ObjectT", bound=Object)


def base_of(obj: object) -> bytes | None:
    """Return the bytes that a typed or unstructured object was decoded from, or `None`."""
    return obj.__dict__.get("_base")


def set_base(obj: object, raw: bytes | None) -> None:
    """Set the bytes of the server's version of `obj`."""
    if raw is None:
        obj.__dict__.pop("_base", None)
    else:
        obj.__dict__["_base"] = raw


def _repr_parts(struct: msgspec.Struct) -> Iterator[str]:
    """Yield the fields that were set or differ from their default, without the kind of the class."""
    cls = type(struct)
    yield f"{cls.__name__}("
    names = cls.__struct_fields__
    first_default = len(names) - len(cls.__struct_defaults__)
    gvk = cls.gvk if issubclass(cls, Object) else None
    implied = {} if gvk is None else {"api_version": gvk.api_version, "kind": gvk.kind}
    separator = ""
    for position, (name, value) in enumerate(zip(names, astuple(struct), strict=True)):
        if position >= first_default and _is_default(
            value, cls.__struct_defaults__[position - first_default]
        ):
            continue
        if name in implied and value == implied[name]:
            continue
        value = settled(value)
        if value is msgspec.UNSET:
            continue
        yield f"{separator}{name}={value!r}"
        separator = ", "
    yield ")"


def _is_default(value: Any, default: Any) -> bool:
    if default is msgspec.NODEFAULT:
        return False
    factory = getattr(default, "factory", None)
    return bool(type(value) is type(default) and value == default) if factory is None else value == factory()
