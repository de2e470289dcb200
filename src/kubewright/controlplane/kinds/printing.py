"""Columns of the tables that `kubectl get` prints for built-in kinds.

A `Kind` lists the columns after the name; each has a function from the object to a cell. Most cells are a
field shown as it is: `shown("spec.controller")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.apiserver.resource import Column, Object
from kubewright.schema.crd.columns import CREATED_DESCRIPTION, age

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"


def field(obj: Object, path: str, default: Any = None) -> Any:
    """The value at a dotted path, `default` where there is none."""
    value: Any = obj
    for name in path.split("."):
        if not isinstance(value, dict):
            return default
        value = value.get(name)
    return default if value is None else value


def shown(path: str, default: Any = "") -> Callable[[Object], Any]:
    """A cell that is the value of a field."""
    return lambda obj: field(obj, path, default)


def counted(path: str) -> Callable[[Object], int]:
    """A cell that is the length of a list."""
    return lambda obj: len(field(obj, path, ()))


def since(timestamp: str | None) -> str:
    """How long ago something was; unknown where there is no time."""
    return age(timestamp) if timestamp else UNKNOWN


def column(
    name: str,
    value: Callable[[Object], Any],
    type: str = "string",
    description: str = "",
    *,
    wide: bool = False,
    format: str = "",
) -> Column:
    """A column; `wide` ones are printed by `kubectl get -o wide` only."""
    return Column(
        name,
        type,
        value=value,
        format=format,
        description=description or name,
        priority=1 if wide else 0,
    )


AGE = column(
    "Age", lambda obj: since(field(obj, "metadata.creationTimestamp")), description=CREATED_DESCRIPTION
)


def listed(texts: Iterable[str], most: int) -> str:
    """The first few of many: `a,b,c + 2 more...`; unset where there is nothing."""
    every = list(texts)
    if not every:
        return UNSET
    first = ",".join(every[:most])
    return first if len(every) <= most else f"{first} + {len(every) - most} more..."


def label_selector_text(selector: Object | None) -> str:
    """A structured selector as `kubectl` writes it: `a=b,c in (d,e)`."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in sorted(selector.get("matchExpressions") or (), key=lambda term: str(term.get("key"))):
        key, values = one.get("key", ""), ",".join(sorted(one.get("values") or ()))
        match one.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(str(key))
            case _:
                terms.append(f"!{key}")
    return ",".join(terms) or NONE
