"""Tables for `kubectl get`.

The first column is the name, the others come from the declaration of the version; without one there is the
age.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubewright.apiserver.resources.resource import TableColumn
from kubewright.schema.crd.columns import AGE_COLUMN, NAME_COLUMN, PrinterColumns, age

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.resources.resource import Resource, Version


class TablePrinter:
    """Converts objects of one version to Tables, with rows in `order` (`None`: as given)."""

    def __init__(self, resource: Resource, version: Version, include: str) -> None:
        self.include = include
        self.order = resource.strategy.row_order
        self._hidden_annotation = resource.strategy.table_hidden_annotation
        self._conditions = resource.strategy.row_conditions
        self._no_rows: list[Object] | None
        columns = version.columns
        if version.cells is not None:
            self.definitions = [definition(column) for column in columns or ()]
            self._cells = version.cells
            self._no_rows = []
            return
        self.definitions = [dict(NAME_COLUMN)]
        getters: list[Callable[[Object], Any]] = [_name]
        # kube-apiserver returns null rows for built-in kinds without columns.
        self._no_rows = None if columns is None and not resource.custom else []
        if columns is None and not resource.custom:
            created = TableColumn("Created At", type="date", description=AGE_COLUMN["description"])
            self.definitions.append(definition(created))
            getters.append(_created)
        elif not columns:
            self.definitions.append(
                definition(TableColumn("Age", type="date", description=AGE_COLUMN["description"]))
            )
            getters.append(_age)
        for column in columns or ():
            self.definitions.append(definition(column))
            getters.append(getter(column))
        self._cells = lambda obj: [get(obj) for get in getters]

    def row(self, obj: Object, version: str = "v1") -> Object:
        """Return a row, with as much of the object as requested."""
        row: Object = {"cells": self._cells(obj)}
        conditions = self._conditions(obj)
        if conditions:
            row["conditions"] = conditions
        if self.include == "Object":
            row["object"] = obj
        elif self.include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": f"meta.k8s.io/{version}",
                "metadata": without_annotation(obj.get("metadata") or {}, self._hidden_annotation),
            }
        else:
            row["object"] = None
        return row

    def bookmark_row(self, metadata: Object, version: str = "v1") -> Object:
        """Return the row of a bookmark, whose object has only metadata."""
        partial = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": metadata,
        }
        empty = [None] * (len(self.definitions) - 1)
        return {"cells": ["", *empty], "object": partial if self.include != "None" else None}

    def table(
        self, objects: list[Object], metadata: Object, version: str = "v1", *, with_columns: bool = True
    ) -> Object:
        """Return a Table of objects."""
        if self.order is not None:
            objects = sorted(objects, key=self.order)
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": metadata,
            "columnDefinitions": self.definitions if with_columns else None,
            "rows": [self.row(obj, version) for obj in objects] or self._no_rows,
        }


def without_annotation(metadata: Object, hidden: str) -> Object:
    """Return metadata without an annotation that only whole objects have."""
    if not hidden or hidden not in (metadata.get("annotations") or {}):
        return metadata
    annotations = {key: value for key, value in metadata["annotations"].items() if key != hidden}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**rest, "annotations": annotations} if annotations else rest


def definition(column: TableColumn) -> Object:
    """Return the TableColumnDefinition of a column."""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description
        or f"Custom resource definition column (in JSONPath format): {column.json_path}",
        "priority": column.priority,
    }


def getter(column: TableColumn) -> Callable[[Object], Any]:
    """Return a function that returns the cell of a column."""
    if column.value is not None:
        return column.value
    made = PrinterColumns([{"name": column.name, "type": column.type, "jsonPath": column.json_path}])
    return lambda obj: made.cells(obj)[1] if len(made.definitions) > 1 else None


def _name(obj: Object) -> str:
    return (obj.get("metadata") or {}).get("name") or ""


def _created(obj: Object) -> str | None:
    return (obj.get("metadata") or {}).get("creationTimestamp")


def _age(obj: Object) -> str:
    created = (obj.get("metadata") or {}).get("creationTimestamp")
    return age(created) if created else "<unknown>"
