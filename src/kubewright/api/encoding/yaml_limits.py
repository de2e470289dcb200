"""Limits of the depth and size of YAML documents, checked before they are constructed.

Construction recurses, and aliases multiply the size: a small document can expand to more than fits in memory.
The parser events of a document reveal both in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import yaml

MAX_DEPTH: Final = 200
MAX_NODES: Final = 500_000
"""Limits of `load_limited`: values of a document, including those that aliases repeat."""

Problem = Literal["depth", "size", "cycle", "anchor"]


class YAMLLimitError(Exception):
    """A document is too deep or too large, contains itself, or refers to an undefined anchor."""

    def __init__(self, problem: Problem, event: yaml.Event) -> None:
        super().__init__(problem)
        self.problem = problem
        self.anchor: str = getattr(event, "anchor", None) or ""
        self.line: int = event.start_mark.line + 1 if event.start_mark is not None else 1


def check_limits(events: Iterable[yaml.Event], *, depth: int, most: int, weigh: Callable[[str], int]) -> None:
    """Raise `YAMLLimitError` for a document deeper than `depth` or larger than `most`.

    The size of a collection is one plus its contents, that of a scalar is `weigh(text)`, that of an alias is
    the size of its anchor.
    """
    weights: dict[str | None, int | None] = {}
    above: list[tuple[str | None, int]] = []
    weight = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            repeated = weights.get(event.anchor, -1)
            if repeated is None:
                raise YAMLLimitError("cycle", event)
            if repeated < 0:
                raise YAMLLimitError("anchor", event)
            weight += repeated
        elif isinstance(event, yaml.ScalarEvent):
            own = weigh(event.value)
            weight += own
            if event.anchor:
                weights[event.anchor] = own
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(above) == depth:
                raise YAMLLimitError("depth", event)
            if event.anchor:
                weights[event.anchor] = None
            above.append((event.anchor, weight))
            weight = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = above.pop()
            if anchor:
                weights[anchor] = weight
            weight += before
        if weight > most:
            raise YAMLLimitError("size", event)


def load_limited(text: str | bytes) -> list[Any]:
    """Return the documents of YAML text; raise `yaml.YAMLError`, also if they exceed the limits."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        check_limits(yaml.parse(text, Loader=loader), depth=MAX_DEPTH, most=MAX_NODES, weigh=lambda _: 1)
    except YAMLLimitError as error:
        mark = yaml.Mark("", 0, error.line - 1, 0, None, 0)
        raise yaml.MarkedYAMLError(
            problem=f"the document exceeds a limit: {error.problem}", problem_mark=mark
        ) from None
    try:
        return list(yaml.load_all(text, Loader=loader))
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from None  # a number with thousands of digits, or a date of no year


def load_limited_document(text: str | bytes) -> Any:
    """Return the only document of YAML text, `None` without one; raise `yaml.YAMLError`."""
    documents = load_limited(text)
    if len(documents) > 1:
        raise yaml.YAMLError("expected a single document")
    return documents[0] if documents else None
