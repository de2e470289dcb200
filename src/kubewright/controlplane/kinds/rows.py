"""Tables of kinds whose rows are made as a whole: their columns, and the cells that many of them share.

Such a kind gives `columns` (the name among them) and a function that makes all the cells of a row. These
tables say `string` for ages and counts of data alike, which is what clients of the oldest kinds have always
been told.
"""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resource import Column
from kubewright.schema.crd.columns import AGE_COLUMN, NAME_COLUMN

from .printing import NONE, label_selector_text, since

Object = dict[str, Any]

NAME = Column("Name", format="name", description=str(NAME_COLUMN["description"]))
AGE = Column("Age", description=AGE_COLUMN["description"])
CONTAINERS = Column("Containers", description="Names of each container in the template.", priority=1)
IMAGES = Column("Images", description="Images referenced by each container in the template.", priority=1)


def column(name: str, description: str, *, type: str = "string", wide: bool = False) -> Column:
    """A column; `wide` ones are shown by `kubectl get -o wide` alone."""
    return Column(name, type=type, description=description, priority=1 if wide else 0)


def name_of(obj: Object) -> str:
    """The name of an object."""
    return (obj.get("metadata") or {}).get("name") or ""


def age_of(obj: Object) -> str:
    """How long ago an object was created."""
    return since((obj.get("metadata") or {}).get("creationTimestamp"))


def labels_text(labels: dict[str, str] | None) -> str:
    """Labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


def selector_text(selector: Object | None) -> str:
    """A structured selector in the short notation; empty for one that selects everything, or nothing."""
    text = label_selector_text(selector)
    return "" if text == NONE else text


def container_cells(template: Object | None) -> list[str]:
    """Names and images of the containers of a template."""
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return [
        ",".join(one.get("name") or "" for one in containers),
        ",".join(one.get("image") or "" for one in containers),
    ]


def condition_is(obj: Object, type: str, status: str = "True") -> bool:
    """Whether a condition of the status has a value."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == type:
            return bool(condition.get("status") == status)
    return False


__all__ = [
    "AGE",
    "CONTAINERS",
    "IMAGES",
    "NAME",
    "NONE",
    "age_of",
    "column",
    "condition_is",
    "container_cells",
    "label_selector_text",
    "labels_text",
    "name_of",
    "selector_text",
    "since",
]
