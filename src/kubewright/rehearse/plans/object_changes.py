"""What differs between two states of an object: fields, and a diff.

Fields that the server maintains (UIDs, versions, times, `managedFields`) are not compared. Items of lists
with names, such as containers and conditions, are compared by name. Values are shown redacted; a value that
was redacted in the source cannot be compared, and counts as unchanged (`uncertain`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubewright.manifests import to_yaml
from kubewright.recording.redaction import Redactor, is_placeholder

Object = Mapping[str, Any]

MISSING: Final = "<missing>"
"""The value of a field that does not exist."""
_SERVER: Final = frozenset(
    ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_KEYS: Final = ("name", "type", "ip", "key", "containerPort", "port")
"""Fields by which the items of a list are matched, the first that all items have."""
_PLAIN: Final = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field with another value; `MISSING` where it does not exist."""

    path: str
    before: Any
    after: Any

    @property
    def is_status(self) -> bool:
        """Whether the field is part of the status."""
        return self.path.startswith(".status")


@dataclass(slots=True)
class ObjectComparison:
    """The difference between two states of an object."""

    fields: list[FieldChange]
    uncertain: int
    """Number of values that were redacted in the source."""


def compare(before: Object, after: Object, redactor: Redactor) -> ObjectComparison:
    """Return the fields that differ."""
    comparison = ObjectComparison([], 0)
    left, right = comparable(before), comparable(after)
    _compare("", left, right, redactor.redact(left), redactor.redact(right), redactor, comparison)
    return comparison


def comparable(obj: Object) -> dict[str, Any]:
    """Return an object without what the server maintains."""
    result = without_server_fields(obj)
    metadata = result["metadata"]
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [
            {name: value for name, value in each.items() if name != "uid"} for each in owners
        ]
    return result


def without_server_fields(obj: Object) -> dict[str, Any]:
    """Return an object without the metadata that the server sets."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SERVER}
    return {**obj, "metadata": metadata}


def unified_diff(before: Object | None, after: Object | None, redactor: Redactor) -> str:
    """Return the difference of two states as YAML, redacted, without the status."""
    lines = difflib.unified_diff(_lines(before, redactor), _lines(after, redactor), n=3)
    return "".join(list(lines)[2:])


def _lines(obj: Object | None, redactor: Redactor) -> list[str]:
    if obj is None:
        return []
    shown = {name: value for name, value in redactor.redact(comparable(obj)).items() if name != "status"}
    return to_yaml([shown]).removeprefix("---\n").splitlines(keepends=True)


def _compare(
    path: str,
    before: Any,
    after: Any,
    shown_before: Any,
    shown_after: Any,
    redactor: Redactor,
    found: ObjectComparison,
) -> None:
    if before == after:
        return
    if path.startswith(".status"):  # a new status is shown field by field, as a changed one
        before, shown_before = _empty_as(after, before), _empty_as(after, shown_before)
        after, shown_after = _empty_as(before, after), _empty_as(before, shown_after)
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(each for each in after if each not in before)):
            if name == "observedGeneration" and path == ".status":
                continue
            _compare(
                _below(path, name),
                before.get(name, MISSING),
                after.get(name, MISSING),
                _get(shown_before, name),
                _get(shown_after, name),
                redactor,
                found,
            )
        return
    if isinstance(before, list) and isinstance(after, list):
        for index, (left, right) in _matched(before, after):
            _compare(
                f"{path}[{index}]",
                before[left] if left is not None else MISSING,
                after[right] if right is not None else MISSING,
                _get(shown_before, left),
                _get(shown_after, right),
                redactor,
                found,
            )
        return
    if is_placeholder(before) and not is_placeholder(after):
        if redactor.placeholder(str(after)) != before:
            found.uncertain += 1
        return
    if _is_time(before) and _is_time(after):
        return
    found.fields.append(FieldChange(path, shown_before, shown_after))


def _empty_as(other: Any, value: Any) -> Any:
    """Return a value, or instead of a missing one an empty value of the other's type."""
    return type(other)() if value == MISSING and isinstance(other, dict | list) else value


def _get(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return value.get(key, MISSING)
    if isinstance(value, list) and key is not None:
        return value[key]
    return MISSING


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if _PLAIN.fullmatch(name) else f"{path}[{name}]"


def _matched(before: list[Any], after: list[Any]) -> Iterator[tuple[str, tuple[int | None, int | None]]]:
    """Return the items of two lists in pairs, with the name of each pair."""
    items = [*before, *after]
    key = next(
        (key for key in _KEYS if items and all(isinstance(each, dict) and key in each for each in items)), ""
    )
    left = {str(each[key]) if key else str(index): index for index, each in enumerate(before)}
    right = {str(each[key]) if key else str(index): index for index, each in enumerate(after)}
    if len(left) != len(before) or len(right) != len(after):  # names that occur twice
        left, right = ({str(index): index for index in range(len(each))} for each in (before, after))
    for name in (*left, *(each for each in right if each not in left)):
        yield name, (left.get(name), right.get(name))


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None
