"""Tables and selectable fields of custom resources, from the JSON paths that a CRD declares.

`PrinterColumns` produces what `kubectl get` prints: column definitions, and a row of cells per object. A
version without columns has the age. `SelectableFields` returns the values that field selectors compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from kubewright.api.selectors.jsonpath import JSONPath
from kubewright.api.selectors.jsonpath_steps import JSONPathError
from kubewright.api.values.go_format import format_float
from kubewright.api.values.times import now, parse_time

NAME_DESCRIPTION: Final = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily "
    "intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATED_DESCRIPTION: Final = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this "
    "value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for "
    "lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
NAME_COLUMN: Final = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": NAME_DESCRIPTION,
    "priority": 0,
}
AGE_COLUMN: Final = {
    "name": "Age",
    "type": "date",
    "description": CREATED_DESCRIPTION,
    "jsonPath": ".metadata.creationTimestamp",
}


class PrinterColumns:
    """The columns of one version, compiled."""

    __slots__ = ("_columns", "definitions")

    def __init__(self, declared: Sequence[dict[str, Any]] | None) -> None:
        """Compile `additionalPrinterColumns`. Columns after an invalid path are ignored."""
        self.definitions: list[dict[str, Any]] = [dict(NAME_COLUMN)]
        self._columns: list[tuple[str, JSONPath]] = []
        for column in declared or [AGE_COLUMN]:
            path = column.get("jsonPath") or ""
            try:
                compiled = JSONPath(f"{{{path}}}", allow_missing_keys=True)
            except JSONPathError:
                break
            self._columns.append((column.get("type") or "", compiled))
            self.definitions.append(
                {
                    "name": column.get("name") or "",
                    "type": column.get("type") or "",
                    "format": column.get("format") or "",
                    "description": column.get("description")
                    or f"Custom resource definition column (in JSONPath format): {path}",
                    "priority": column.get("priority") or 0,
                }
            )

    def cells(self, obj: dict[str, Any], at: datetime | None = None) -> list[Any]:
        """Return the cells of one object; `at` is the current time for ages."""
        row: list[Any] = [(obj.get("metadata") or {}).get("name") or ""]
        for kind, path in self._columns:
            try:
                found = path.values(obj)
            except JSONPathError:
                found = []
            row.append(_cell(kind, found[0], at) if found else None)
        return row


def _cell(kind: str, value: Any, at: datetime | None) -> Any:
    if kind == "string":
        return _text(value)
    number = type(value) is int or type(value) is float
    if kind == "integer" and number:
        return int(value)
    if kind == "number" and number:
        return float(value) if not float(value).is_integer() else int(value)
    if kind == "boolean" and type(value) is bool:
        return value
    if kind == "date" and type(value) is str:
        return age(value, at)
    return None


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    return JSONPath("{@}").render(value) if value is not None else "<no value>"


def age(text: str, at: datetime | None = None) -> str:
    """Return the age of a timestamp as kubectl prints it."""
    if not text:
        return "<unknown>"
    try:
        then = parse_time(text)
    except ValueError:
        return "<invalid>"
    return human_duration((at or now()) - then)


def human_duration(length: timedelta) -> str:
    """Format a duration as kubectl prints ages: `45s`, `5m12s`, `3h15m`, `2d4h`, `3y12d`."""
    seconds = int(length.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


class SelectableFields:
    """Selectable fields of one version, besides name and namespace."""

    __slots__ = ("_paths",)

    def __init__(self, declared: Sequence[dict[str, Any]] | None) -> None:
        """Compile `selectableFields`."""
        self._paths = {
            field["jsonPath"].removeprefix("."): field["jsonPath"].removeprefix(".").split(".")
            for field in declared or ()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names for field selectors: paths without the leading dot."""
        return tuple(self._paths)

    def values(self, obj: dict[str, Any]) -> dict[str, str]:
        """Return the value of every selectable field as text; empty if missing."""
        return {name: _selectable_text(_at(obj, path)) for name, path in self._paths.items()}


def _at(obj: Any, path: list[str]) -> Any:
    for name in path:
        obj = obj.get(name) if type(obj) is dict else None
    return obj


def _selectable_text(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is bool:
        return "true" if value else "false"
    return format_float(value) if type(value) is float else str(value)
