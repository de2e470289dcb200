"""Columns and cells of the tables that `kubectl get` prints for built-in kinds.

A `Kind` either lists the columns after the name, each with a function from the object to its cell:

    columns=(column("Controller", shown("spec.controller"), description="..."), AGE)

or lists all `columns` (the name included) and returns a whole row from one function, `cells`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import TableColumn
from kubewright.schema.crd.columns import CREATED_DESCRIPTION, NAME_COLUMN, age

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"


def field(obj: Object, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path, or `default`."""
    value: Any = obj
    for name in path.split("."):
        if not isinstance(value, dict):
            return default
        value = value.get(name)
    return default if value is None else value


def shown(path: str, default: Any = "") -> Callable[[Object], Any]:
    """Return a function for a cell that shows a field."""
    return lambda obj: field(obj, path, default)


def counted(path: str) -> Callable[[Object], int]:
    """Return a function for a cell that shows the length of a list or map."""
    return lambda obj: len(field(obj, path, ()))


def since(timestamp: str | None) -> str:
    """Return the time since a timestamp in the short notation of kubectl."""
    return age(timestamp) if timestamp else UNKNOWN


def column(
    name: str,
    value: Callable[[Object], Any] | None = None,
    *,
    type: str = "string",
    description: str = "",
    wide: bool = False,
    format: str = "",
) -> TableColumn:
    """Return a column; `wide` ones are printed with `kubectl get -o wide` only."""
    return TableColumn(
        name,
        type=type,
        value=value,
        format=format,
        description=description or name,
        priority=1 if wide else 0,
    )


def name_of(obj: Object) -> str:
    """Return the name of an object."""
    return (obj.get("metadata") or {}).get("name") or ""


def age_of(obj: Object) -> str:
    """Return the time since an object was created."""
    return since((obj.get("metadata") or {}).get("creationTimestamp"))


NAME = column("Name", format="name", description=str(NAME_COLUMN["description"]))
AGE = column("Age", age_of, description=CREATED_DESCRIPTION)


def listed(texts: Iterable[str], limit: int) -> str:
    """Join at most `limit` texts: `a,b,c + 2 more...`; `<unset>` for no texts."""
    every = list(texts)
    if not every:
        return UNSET
    first = ",".join(every[:limit])
    return first if len(every) <= limit else f"{first} + {len(every) - limit} more..."


def labels_text(labels: dict[str, str] | None) -> str:
    """Format labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


def label_selector_text(selector: Object | None) -> str:
    """Format a label selector as kubectl does: `a=b,c in (d,e)`."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in sorted(selector.get("matchExpressions") or (), key=lambda term: str(term.get("key"))):
        key, values = term.get("key", ""), ",".join(sorted(term.get("values") or ()))
        match term.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(str(key))
            case _:
                terms.append(f"!{key}")
    return ",".join(terms) or NONE


def selector_text(selector: Object | None) -> str:
    """Format a label selector; an empty string if it selects everything or nothing."""
    text = label_selector_text(selector)
    return "" if text == NONE else text


def container_cells(template: Object | None) -> list[str]:
    """Return the cells `Containers` and `Images` of a pod template."""
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return [
        ",".join(container.get("name") or "" for container in containers),
        ",".join(container.get("image") or "" for container in containers),
    ]


def condition_is(obj: Object, type: str, status: str = "True") -> bool:
    """Return whether a condition of the status has a value."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == type:
            return bool(condition.get("status") == status)
    return False
