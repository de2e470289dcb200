"""What the dashboard shows of a kind, declared beside its type and rendered from the data of its objects.

    @resource(
        group="store.example.com", version="v1",
        dashboard=DashboardView(
            columns=(ViewField("Orders", ".status.orders", "number"),),
            panels=(
                FactsPanel("Backup", (ViewField("Last", ".status.backup.time", "time"),)),
                TablePanel("Customers", ".status.customers", (ViewField("Name", ".name"),)),
                BarsPanel("Load", ".status.servers", label=".name", value=".load"),
            ),
        ),
    )
    class Shop(CustomResource[ShopSpec, ShopStatus]): ...

The declaration is stored as JSON in an annotation of the CustomResourceDefinition, so that every dashboard
of the cluster shows it, whether or not the operator is connected. It contains paths and titles, never a
script. Paths have the syntax of printer columns: `.status.backup.time`, `.spec.items[0].name`,
`.metadata.labels['a.b/c']`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

ANNOTATION: Final = "dashboard.kubewright.dev/view"
"""Annotation of a CustomResourceDefinition with the view of its kind."""
MAX_BYTES: Final = 64 << 10

FieldFormat = Literal["text", "number", "bytes", "percent", "time", "status"]
"""How a value is shown: `bytes` as 1.2 GiB, `percent` of 1 as 45 %, `time` as an age, `status` in a
colour."""
_PATH: Final = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_-]*|\[\d+\]|\['[^'\]]+'\])*")


def _check_path(path: str) -> None:
    if not path.startswith(".") or _PATH.fullmatch(path if path != "." else "") is None:
        raise ValueError(f"{path!r} is not a path such as .status.backup.time or .spec.items[0].name")


@dataclass(frozen=True)
class ViewField:
    """A value of an object, or of an element of a list."""

    title: str
    path: str
    format: FieldFormat = "text"

    def __post_init__(self) -> None:
        """Check the path and the format."""
        _check_path(self.path)
        if self.format not in get_args(FieldFormat):
            raise ValueError(f"format {self.format!r} is not one of {', '.join(get_args(FieldFormat))}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"title": self.title, "path": self.path, "format": self.format}


@dataclass(frozen=True)
class FactsPanel:
    """Titles and values."""

    title: str
    fields: tuple[ViewField, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"type": "facts", "title": self.title, "fields": [each.to_dict() for each in self.fields]}


@dataclass(frozen=True)
class TablePanel:
    """A list of the object as a table; paths of the fields begin at an element."""

    title: str
    path: str
    fields: tuple[ViewField, ...]

    def __post_init__(self) -> None:
        """Check the path."""
        _check_path(self.path)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        fields = [each.to_dict() for each in self.fields]
        return {"type": "table", "title": self.title, "path": self.path, "fields": fields}


@dataclass(frozen=True)
class BarsPanel:
    """A list of the object as bars; `label` and `value` are paths that begin at an element."""

    title: str
    path: str
    label: str
    value: str
    format: FieldFormat = "number"

    def __post_init__(self) -> None:
        """Check the paths."""
        for path in (self.path, self.label, self.value):
            _check_path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        paths = {"path": self.path, "label": self.label, "value": self.value}
        return {"type": "bars", "title": self.title, "format": self.format, **paths}


@dataclass(frozen=True)
class DashboardView:
    """Columns of the table of a kind, and panels of the page of an object."""

    columns: tuple[ViewField, ...] = ()
    panels: tuple[FactsPanel | TablePanel | BarsPanel, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is something to show."""
        if isinstance(self.columns, ViewField) or not isinstance(self.columns, Iterable):
            raise TypeError('columns is not a tuple; write columns=(ViewField("Orders", ".status.orders"),)')
        if not self.columns and not self.panels:
            raise ValueError("a DashboardView needs columns or panels")

    def annotations(self) -> dict[str, str]:
        """Return the annotation of the CustomResourceDefinition."""
        data = {
            "columns": [each.to_dict() for each in self.columns],
            "panels": [each.to_dict() for each in self.panels],
        }
        text = json.dumps(data, separators=(",", ":"), sort_keys=True)
        if len(text.encode()) > MAX_BYTES:
            raise ValueError(f"the view has {len(text.encode())} bytes; at most {MAX_BYTES} are allowed")
        return {ANNOTATION: text}
