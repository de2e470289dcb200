"""Checks of struct classes at their definition: what would otherwise be ignored silently.

- `size = 5` without a type is not a field.
- `Annotated[int, "min=1"]` and `Annotated[int, Ge]` contain no marker.
- A misspelt or missing marker name in a postponed annotation would only be found when a schema is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import FrameType, UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

from kubewright.api import markers
from kubewright.api.annotations import namespace_annotations
from kubewright.api.markers import Marker
from kubewright.api.presence import look_up

_NOT_MARKERS: Final = (str, bytes, int, float, list, dict, set, tuple, type(None))
_OTHER_NAMES: Final = {
    "ExclusiveMaximum": "Lt",
    "ExclusiveMinimum": "Gt",
    "Max": "Le",
    "MaxLength": "MaxLen",
    "Maximum": "Le",
    "Min": "Ge",
    "MinLength": "MinLen",
    "Minimum": "Ge",
    "Regex": "Pattern",
    "XValidation": "Cel",
}
"""Names of the same restrictions in OpenAPI, in kubebuilder and in other Python libraries."""


def check_class(name: str, bases: tuple[type, ...], namespace: Mapping[str, Any], scope: FrameType) -> None:
    """Raise `TypeError` for attributes and annotations that would be ignored."""
    annotations = namespace_annotations(namespace)
    for attribute, value in namespace.items():
        if not attribute.startswith("_") and attribute not in annotations:
            _check_attribute(name, bases, attribute, value)
    for attribute, annotation in annotations.items():
        problems = _text_problems(annotation, scope) if type(annotation) is str else _problems(annotation)
        for problem in problems:
            raise TypeError(f"{name}.{attribute}: {problem}")


def _check_attribute(name: str, bases: tuple[type, ...], attribute: str, value: Any) -> None:
    if callable(value) or hasattr(type(value), "__get__") or isinstance(value, UnionType | TypeVar):
        return
    is_field = any(attribute in getattr(base, "__struct_fields__", ()) for base in bases)
    if any(hasattr(base, attribute) for base in bases) and not is_field:
        return
    type_name = type(value).__name__ if isinstance(value, str | int | float | bool) else "<type>"
    shown = repr(value) if type_name != "<type>" else "..."
    raise TypeError(
        f"{name}.{attribute} has a value but no type, so it is not a field; write {attribute}: {type_name} = "
        f"{shown}, or {attribute}: ClassVar[{type_name}] = {shown} for a constant"
    )


def _problems(annotation: Any) -> Iterator[str]:
    """Find metadata that is not a marker, in an annotation and in its arguments."""
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        for item in metadata:
            yield from _metadata_problems(item)
        yield from _problems(annotation.__origin__)
    elif get_origin(annotation) is not Literal:
        for argument in get_args(annotation):
            yield from _problems(argument)


def _metadata_problems(item: Any) -> Iterator[str]:
    if isinstance(item, type) and issubclass(item, Marker):
        yield f"{item.__name__} in Annotated[...] is a class; write {item.__name__}(...)"
    elif isinstance(item, _NOT_MARKERS):
        hint = f", or Description({item!r}) to describe the field" if isinstance(item, str) else ""
        yield (
            f"{item!r} in Annotated[...] is not a marker and would be ignored; "
            f"write a marker such as Ge(1) or MaxLen(63){hint}"
        )


def _text_problems(text: str, scope: FrameType) -> Iterator[str]:
    """Do the same for a postponed annotation, and find names of markers that are not defined."""
    if "Annotated" not in text:
        return
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
            continue
        if getattr(node.value, "id", getattr(node.value, "attr", "")) != "Annotated":
            continue
        for item in node.slice.elts[1:]:
            if isinstance(item, ast.Constant):
                yield from _metadata_problems(item.value)
                continue
            used = item.func if isinstance(item, ast.Call) else item
            if isinstance(used, ast.Name):
                yield from _name_problems(used.id, scope, called=used is not item)


def _name_problems(name: str, scope: FrameType, *, called: bool) -> Iterator[str]:
    found, value = look_up(name, scope)
    if found:
        if not called:
            yield from _metadata_problems(value)
    elif name in markers.__all__:
        yield f"{name} is not imported; write from kubewright.api import {name}"
    else:
        close = (
            [_OTHER_NAMES[name]]
            if name in _OTHER_NAMES
            else get_close_matches(name, markers.__all__, n=1, cutoff=0.75)
        )
        if close:
            yield f"no marker is named {name}; did you mean {close[0]}?"
