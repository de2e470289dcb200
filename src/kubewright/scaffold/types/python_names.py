"""Python names for the fields and types of a schema."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from typing import Final

_PLURAL_ACRONYM: Final = re.compile(r"(?<![A-Z])([A-Z]{2,})s(?=[A-Z]|$)")
_BEFORE_WORD: Final = re.compile(r"([A-Z]+)([A-Z][a-z])")
_AFTER_LOWER: Final = re.compile(r"([a-z0-9])([A-Z])")
_USED_IN_ANNOTATIONS: Final = frozenset(
    {"bool", "bytes", "copy", "dict", "field", "float", "int", "list", "mark", "resource", "str"}
)
"""Names that a field would hide from the annotations below it, and the method `copy` of every struct."""


def snake_case(wire: str) -> str:
    """Return a JSON name in snake case: `podCIDRs` becomes `pod_cidrs`."""
    text = _PLURAL_ACRONYM.sub(lambda match: match.group(1).capitalize() + "s", wire)
    text = _BEFORE_WORD.sub(r"\1_\2", text)
    text = _AFTER_LOWER.sub(r"\1_\2", text)
    return re.sub(r"\W", "_", text, flags=re.ASCII).lower()


def camel_case(name: str) -> str:
    """Return the JSON name that a struct derives from the name of a field."""
    stripped = name.lstrip("_")
    first, *rest = stripped.split("_")
    return name[: len(name) - len(stripped)] + first + "".join(word[:1].upper() + word[1:] for word in rest)


def field_names(wires: Iterable[str]) -> dict[str, str]:
    """Return a distinct Python name for each JSON name of a struct."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for wire in wires:
        name = snake_case(wire).strip("_") or "field_"
        if name[0].isdigit():
            name = f"field_{name}"
        if keyword.iskeyword(name) or name in _USED_IN_ANNOTATIONS:
            name += "_"
        number, unique = 2, name
        while unique in taken:
            unique, number = f"{name.rstrip('_')}_{number}", number + 1
        taken.add(unique)
        names[wire] = unique
    return names


def class_name(wire: str) -> str:
    """Return the name of a class for a JSON name: `issuerRef` becomes `IssuerRef`."""
    name = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", wire))
    return f"Field{name}" if not name or name[0].isdigit() else name


def singular(word: str) -> str:
    """Return the singular of an English noun, for the items of a list."""
    lower = word.lower()
    if lower.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if lower.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def is_builtin(name: str) -> bool:
    """Return whether a name is defined in every module."""
    return hasattr(builtins, name) or keyword.iskeyword(name)
