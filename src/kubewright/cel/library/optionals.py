"""Optional values: constructors, accessors, chaining."""

from __future__ import annotations

from typing import Any, Final

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.operators import has_key
from kubewright.cel.values import NONE, Optional, UInt, is_zero, no_overload


def of_non_zero(value: Any) -> Optional:
    """`optional.ofNonZeroValue(value)`."""
    return NONE if is_zero(value) else Optional(value)


def none() -> Optional:
    """`optional.none()`."""
    return NONE


def unwrap(items: list[Any]) -> list[Any]:
    """`optional.unwrap(items)`: the values that are present."""
    found = []
    for item in items:
        if not isinstance(item, Optional):
            raise CelError(f"value {item} is not optional")
        if item.has_value:
            found.append(item.value)
    return found


def select(container: Any, key: Any) -> Optional:
    """`container.?key` and `container[?key]`: the value if present."""
    if isinstance(container, Optional):
        if not container.has_value:
            return NONE
        container = container.value
    if type(container) is dict:
        return Optional(container[key]) if has_key(container, key) else NONE
    if isinstance(container, list):
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) is not int and type(key) is not UInt:
            raise no_overload()
        return Optional(container[key]) if 0 <= key < len(container) else NONE
    return NONE


def field(container: Any, name: str) -> Optional:
    """`container.?name` of an object; a null field is absent."""
    found = select(container, name)
    return NONE if found.has_value and found.value is None else found


OVERLOADS: Final[list[Overload]] = [
    overload("optional.of", "optional_of", "(V) -> optional(V)", Optional),
    overload("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)", of_non_zero),
    overload("optional.none", "optional_none", "() -> optional(V)", none),
    overload("value", "optional_value", "optional(V).() -> V", Optional.get),
    overload("hasValue", "optional_hasValue", "optional(V).() -> bool", lambda value: value.has_value),
    overload("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)"),
    overload("orValue", "optional_orValue_value", "optional(V).(V) -> V"),
    overload("_?._", "select_optional_field", "(dyn, string) -> optional(V)", select),
    overload("_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional(V)", select),
    overload(
        "_[?_]", "optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)", select
    ),
    overload("_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional(V)", select),
    overload(
        "_[?_]", "optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)", select
    ),
    overload("_[_]", "optional_list_index_int", "(optional(list(V)), int) -> optional(V)", select),
    overload("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)", select),
    overload("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", unwrap),
    overload("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap),
]
