"""Dependencies between fields: which fields have to change together.

They are learned from the CEL rules of the schema, whose expressions name fields, and from the fields that
the API server names when it rejects a change. For a value that is rejected, the related fields are the ones
to try other values for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .spec_fields import FieldSchema, Schema

_REFERENCE = re.compile(r"\bself((?:\??\.[A-Za-z_]\w*)+)")
_FUNCTIONS = frozenset(
    ("size", "matches", "startsWith", "endsWith", "contains", "exists", "all", "map", "filter")
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule, and the fields that it names."""

    expression: str
    message: str
    fields: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A value of a field that is only accepted with another value of another field."""

    field: str
    value: Any
    other: str
    other_value: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.field}={self.value!r} requires {self.other}={self.other_value!r} ({self.reason})"


def rules_of(schema: Schema, path: tuple[str, ...] = ("spec",)) -> Iterator[Rule]:
    """Return the rules of a schema and of all objects below it."""
    for each in schema.get("x-kubernetes-validations") or ():
        names = tuple(dict.fromkeys(_references(each.get("rule", ""), path)))
        yield Rule(each.get("rule", ""), each.get("message", ""), names)
    for name, child in (schema.get("properties") or {}).items():
        if isinstance(child, Mapping):
            yield from rules_of(child, (*path, name))


def _references(expression: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for match in _REFERENCE.finditer(expression):
        names = [each.strip("?") for each in match[1].split(".") if each.strip("?")]
        while names and names[-1] in _FUNCTIONS:
            names.pop()
        if names:
            yield (*path, *names)


def related_fields(
    field: FieldSchema, fields: Iterable[FieldSchema], rules: Sequence[Rule], rejection: str
) -> Iterator[tuple[FieldSchema, str]]:
    """Return fields that could have to change together with one, each with the reason.

    `rejection` is the message of the API server, which names fields by their paths.
    """
    named = [each for each in rules if any(_overlaps(field.path, path) for path in each.fields)]
    for other in fields:
        if other.path == field.path:
            continue
        rule = next(
            (each for each in named if any(_overlaps(other.path, path) for path in each.fields)), None
        )
        if rule is not None:
            yield other, f"rule {rule.expression}"
        elif re.search(rf"\b{re.escape(str(other))}\b", rejection):
            yield other, "named by the API server"


def _overlaps(one: Sequence[str], other: Sequence[str]) -> bool:
    length = min(len(one), len(other))
    return tuple(one[:length]) == tuple(other[:length])
