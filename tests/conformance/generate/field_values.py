"""Every field of a variant with invalid, empty and missing values, one dry-run create each."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.conformance.cases import Case
from tests.conformance.generate.builtin_kinds import BuiltinKind, JSONObject, merge

Path = tuple[str | int, ...]

STEPS_PER_CASE = 120
_LONG = "x" * 260
_UNCHANGED = (("apiVersion",), ("kind",), ("metadata", "annotations"), ("metadata", "labels"))


class _Remove:
    def __repr__(self) -> str:
        return "missing"


REMOVE = _Remove()


class Mutation(NamedTuple):
    """A new value for one field."""

    path: Path
    value: Any

    @property
    def label(self) -> str:
        """Name of the step."""
        text = "missing" if self.value is REMOVE else json.dumps(self.value)
        return f"{'.'.join(map(str, self.path))}: {text if len(text) < 40 else text[:37] + '...'}"

    def apply(self, target: JSONObject) -> JSONObject:
        """The object with the new value."""
        result = copy.deepcopy(target)
        node: Any = result
        for key in self.path[:-1]:
            node = node[key]
        if self.value is REMOVE:
            del node[self.path[-1]]
        else:
            node[self.path[-1]] = self.value
        return result


def walk(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field and list element below a value, parents first."""
    items: Any = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        here = (*path, key)
        if here not in _UNCHANGED:
            yield here, value
            yield from walk(value, here)


def mutations(target: JSONObject) -> Iterator[Mutation]:
    """Invalid, empty and missing values of every field."""
    for number, (path, value) in enumerate(walk(target)):
        yield Mutation(path, REMOVE)
        for changed in _values(value, number):
            yield Mutation(path, changed)


def _values(value: Any, number: int) -> list[Any]:
    """Other values; those that only test the decoder or the length are used for some fields only."""
    if isinstance(value, bool):
        return ["text"] if number % 5 == 0 else [not value]
    if isinstance(value, int):
        return [-1, 0, *([2**31] if number % 2 else ["text"])]
    if isinstance(value, str):
        return ["", "Not Valid!", *([_LONG] if number % 3 == 0 else [5] if number % 7 == 0 else [])]
    if isinstance(value, list):
        return [[], *([[value[0], value[0]]] if value else []), *(["text"] if number % 5 == 0 else [])]
    if isinstance(value, dict):
        return [{}, *([["text"]] if number % 5 == 0 else [])]
    return []


def field_value_cases(kind: BuiltinKind) -> Iterator[Case]:
    """Cases of one kind."""
    query = "" if kind.review else "?dryRun=All"
    request = f"POST {kind.collection}{query}"
    for variant, target in {"minimal": kind.minimal, **kind.variants}.items():
        steps = [kind.step(request, name="unchanged", body=target)]
        # The elements of long lists in one variant are alike; the minimal object is part of all variants.
        chosen = [] if variant == "minimal" else list(mutations(target))
        steps += [
            kind.step(request, name=each.label, body=each.apply(target))
            for each in chosen
            if not (each.value is REMOVE and ".".join(map(str, each.path)) in kind.never_removed)
        ]
        for number, start in enumerate(range(0, len(steps), STEPS_PER_CASE)):
            suffix = f"-{number + 1}" if len(steps) > STEPS_PER_CASE else ""
            document = {
                "about": f"{kind.label}: values of every field ({variant}).",
                "steps": steps[start : start + STEPS_PER_CASE],
            }
            yield Case(f"builtin-types/values-{kind.label}-{variant}{suffix}", document)
    if kind.attempts:
        steps = [kind.step(request, body=merge(kind.full, patch)) for patch in kind.attempts]
        about = f"{kind.label}: enumerations, unions and combinations of fields."
        yield Case(f"builtin-types/combinations-{kind.label}", {"about": about, "steps": steps})
