"""Presence: which fields of a struct were set, independent of their values.

A field with a default holds `msgspec.UNSET` in its slot until it is set by the constructor, by assignment or
by decoding. msgspec omits such a slot from its output, so what was set is encoded, also if it equals the
default, and what was not set is not. Reading the attribute returns the default:

    class ShopSpec(Spec):
        replicas: int = 1
        names: list[str] = []

    encode(ShopSpec())             # {}
    encode(ShopSpec(replicas=1))   # {"replicas":1}
    ShopSpec().replicas            # 1

The default of a list, map or struct is created when it is read, and kept as a `DefaultValue` in the slot, so
that `spec.names.append("a")` works. It is encoded once its content differs from the default (`settled`):
reading alone changes nothing.

Fields with the default `None` need no tracking: `None` and not set are the same. The exception is the marker
`Nullable`, with which `null` is a value. A field with the marker `Required` is always encoded.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from copy import copy as shallow_copy
from copy import deepcopy
from functools import partial
from operator import attrgetter, ge, gt, le, lt
from types import FrameType, UnionType
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET

from .annotations import own_annotations

_DEFAULTS: Final = "__tracked_defaults__"
_SLOT_PREFIX: Final = "_slot_"
_FIELD_TYPE: Final = type(msgspec.field())
_SCALARS: Final = frozenset({str, int, bool, float, bytes, type(None), msgspec.UnsetType})
_raw_equal: Final = msgspec.Struct.__eq__


class DefaultValue:
    """The default of an unset list, map or struct, after it was read."""

    __slots__ = ("factory", "value")

    def __init__(self, factory: Callable[[], Any], value: Any) -> None:
        self.factory = factory
        self.value = value

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, DefaultValue) else other))

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> DefaultValue:
        return DefaultValue(self.factory, deepcopy(self.value, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        # Factories are often lambdas, which cannot be pickled.
        return constant, (settled(self),)


class TrackedDefault:
    """The default of a tracked field: a constant, or a factory for values that can be changed."""

    __slots__ = ("constant", "factory")

    def __init__(self, constant: Any = None, factory: Callable[[], Any] | None = None) -> None:
        self.constant = constant
        self.factory = factory

    def create(self) -> Any:
        """Return the default, a new one if it can be changed."""
        return self.constant if self.factory is None else self.factory()


def constant(value: Any) -> Any:
    """Return the value: the factory, through `functools.partial`, of defaults that are always encoded."""
    return value


def always_sent(default: Any) -> Any:
    """Return the declaration of a field that is encoded also if it was not set."""
    return msgspec.field(default_factory=partial(constant, default))


def take_defaults(
    namespace: dict[str, Any], annotations: Mapping[str, Any], scope: FrameType
) -> dict[str, TrackedDefault]:
    """Replace the defaults of tracked fields in the namespace of a class by `UNSET`, and return them."""
    taken: dict[str, TrackedDefault] = {}
    for name, annotation in annotations.items():
        if name not in namespace or _is_class_variable(annotation):
            continue
        declared = namespace[name]
        wire_name = None
        default, factory = declared, None
        if isinstance(declared, _FIELD_TYPE):
            default, factory, wire_name = declared.default, declared.default_factory, declared.name
            if default is NODEFAULT and factory is NODEFAULT:
                continue
        flags = set(_flags(annotation, scope))
        if getattr(factory, "func", None) is constant or (default is None and "nullable" not in flags):
            continue
        if "required" in flags and default is not NODEFAULT:
            namespace[name] = msgspec.field(default_factory=partial(copy_value, default), name=wire_name)
            continue
        if factory in (None, NODEFAULT):
            mutable = isinstance(default, list | dict | set | msgspec.Struct)
            taken[name] = (
                TrackedDefault(factory=partial(copy_value, default)) if mutable else TrackedDefault(default)
            )
        else:
            taken[name] = TrackedDefault(factory=factory)
        namespace[name] = msgspec.field(default=UNSET, name=wire_name)
    return taken


def install(cls: Any, taken: Mapping[str, TrackedDefault], *, keep_equality: bool) -> None:
    """Replace the slots of tracked fields by properties that return the default of an unset field."""
    declared = own_annotations(cls)
    inherited = {name: default for name, default in tracked_defaults(cls).items() if name not in declared}
    for name, default in taken.items():
        # A field that a subclass declares again uses the slot of the base.
        slot = vars(cls).get(name) or getattr(cls, _SLOT_PREFIX + name, None) or getattr(cls, name)
        setattr(cls, _SLOT_PREFIX + name, slot)
        setattr(cls, name, _property(name, slot, default))
    setattr(cls, _DEFAULTS, {**inherited, **taken})
    if keep_equality or not taken or not cls.__struct_config__.eq:
        return
    cls.__eq__ = _equal
    if cls.__struct_config__.frozen:
        cls.__hash__ = _hash
    if cls.__struct_config__.order:
        for operation in (lt, le, gt, ge):
            setattr(cls, f"__{operation.__name__}__", _comparison(operation))


def tracked_defaults(cls: type) -> Mapping[str, TrackedDefault]:
    """Return the defaults of the tracked fields of a struct class, by Python name."""
    found: Mapping[str, TrackedDefault] = getattr(cls, _DEFAULTS, {})
    return found


def fields_set(struct: msgspec.Struct) -> frozenset[str]:
    """Return the Python names of the fields that are encoded: set, or always sent."""
    return frozenset(
        name
        for name, value in zip(struct.__struct_fields__, msgspec.structs.astuple(struct), strict=True)
        if settled(value) is not UNSET and (value is not None or name in tracked_defaults(type(struct)))
    )


def values(struct: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield each field with its value or default, without marking defaults as read."""
    defaults = tracked_defaults(type(struct))
    for name, value in zip(struct.__struct_fields__, msgspec.structs.astuple(struct), strict=True):
        if value is UNSET and name in defaults:
            yield name, defaults[name].create()
        else:
            yield name, value.value if type(value) is DefaultValue else value


def settled(value: Any) -> Any:
    """Return what is encoded for a slot: a default that was read is `UNSET` unless it was changed."""
    if type(value) is not DefaultValue:
        return value
    return UNSET if _is_same(value.value, value.factory()) else value.value


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values are encoded the same: unlike with `==`, an explicit default is not an unset one."""
    a, b = settled(a), settled(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, msgspec.Struct):
        a, b = msgspec.structs.astuple(a), msgspec.structs.astuple(b)
    elif type(a) is dict:
        return a.keys() == b.keys() and all(_is_same(value, b[key]) for key, value in a.items())
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


def delete_field(self: Any, name: str) -> None:
    """Unset a field; a field without a default cannot be unset."""
    if name in self.__struct_fields__ and name not in tracked_defaults(type(self)):
        position = self.__struct_fields__.index(name) - len(self.__struct_fields__)
        if -position > len(self.__struct_defaults__) or self.__struct_defaults__[position] is NODEFAULT:
            raise AttributeError(f"{type(self).__name__}.{name} is required and cannot be deleted")
        default = self.__struct_defaults__[position]
        factory = getattr(default, "factory", None)
        setattr(self, name, default if factory is None else factory())
        return
    msgspec.Struct.__delattr__(self, name)


def copy_value(value: Any) -> Any:
    """Deep-copy structs, lists, sets, tuples and maps, with presence; other values are shared."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, msgspec.Struct):
        new: Any = shallow_copy(value)
        for name, part in zip(value.__struct_fields__, msgspec.structs.astuple(value), strict=True):
            copied = copy_value(part)
            if copied is not part:
                msgspec.structs.force_setattr(new, name, copied)
        attributes = getattr(value, "__dict__", None)
        if attributes:
            new.__dict__.update(attributes)
        return new
    if type(value) is dict:
        return {key: copy_value(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_value(item) for item in value]
    if type(value) in (set, tuple):
        return type(value)(copy_value(item) for item in value)
    if type(value) is DefaultValue:
        return DefaultValue(value.factory, copy_value(value.value))
    return value


def _property(name: str, slot: Any, default: TrackedDefault) -> property:
    read = attrgetter(_SLOT_PREFIX + name)
    write = slot.__set__
    constant, factory = default.constant, default.factory

    def get_constant(self: Any) -> Any:
        value = read(self)
        return constant if value is UNSET else value

    def get_created(self: Any) -> Any:
        value = read(self)
        if value is UNSET:
            assert factory is not None
            value = DefaultValue(factory, factory())
            write(self, value)
        return value.value if type(value) is DefaultValue else value

    def unset(self: Any) -> None:
        write(self, UNSET)

    return property(get_constant if factory is None else get_created, write, unset)


def _equal(self: Any, other: Any) -> Any:
    """Compare values: a field that was not set equals its default."""
    if type(self) is not type(other):
        return NotImplemented
    if _raw_equal(self, other) is True:
        return True
    return all(a[1] == b[1] for a, b in zip(values(self), values(other), strict=True))


def _comparison(operation: Callable[[Any, Any], Any]) -> Any:
    def compare(self: Any, other: Any) -> Any:
        if type(self) is not type(other):
            return NotImplemented
        return operation([value for _, value in values(self)], [value for _, value in values(other)])

    return compare


def _hash(self: Any) -> int:
    return hash((type(self), *(value for _, value in values(self))))


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.partition("[")[0].rpartition(".")[2] == "ClassVar"
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _flags(annotation: Any, scope: FrameType) -> Iterator[str]:
    """Yield the flags of the markers of a field itself, also through unions, aliases and strings."""
    if isinstance(annotation, str):
        try:
            yield from _text_flags(ast.parse(annotation, mode="eval").body, scope)
        except SyntaxError:
            return  # msgspec reports it when the type is used
    elif get_origin(annotation) is Annotated:
        for item in annotation.__metadata__:
            yield from getattr(item, "presence_flags", ())
        yield from _flags(annotation.__origin__, scope)
    elif get_origin(annotation) in (Union, UnionType):
        for argument in get_args(annotation):
            yield from _flags(argument, scope)
    elif hasattr(annotation, "__value__"):
        yield from _flags(annotation.__value__, scope)


def _text_flags(node: ast.expr, scope: FrameType) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _flags(node.value, scope)
    elif isinstance(node, ast.BinOp):
        yield from _text_flags(node.left, scope)
        yield from _text_flags(node.right, scope)
    elif isinstance(node, ast.Subscript):
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        origin = resolve(node.value, scope)
        if origin is Annotated:
            yield from _text_flags(arguments[0], scope)
            for item in arguments[1:]:
                yield from getattr(resolve(item, scope), "presence_flags", ())
        elif origin in (Union, UnionType) or getattr(origin, "_name", None) == "Optional":
            for item in arguments:
                yield from _text_flags(item, scope)
    elif isinstance(node, ast.Name | ast.Attribute):
        value = resolve(node, scope)
        if not isinstance(value, str | TypeVar):
            yield from _flags(value, scope)


def resolve(node: ast.expr, scope: FrameType) -> Any:
    """Return what a name in a postponed annotation refers to, or `None`."""
    if isinstance(node, ast.Attribute):
        return getattr(resolve(node.value, scope), node.attr, None)
    return look_up(node.id, scope)[1] if isinstance(node, ast.Name) else None


def look_up(name: str, scope: FrameType) -> tuple[bool, Any]:
    """Find a name in the scope of a class statement and in the functions and classes around it."""
    frame: FrameType | None = scope
    while frame is not None and frame.f_code.co_filename == scope.f_code.co_filename:
        for names in (frame.f_locals, frame.f_globals):
            if name in names:
                return True, names[name]
        frame = frame.f_back
    return hasattr(builtins, name), getattr(builtins, name, None)
