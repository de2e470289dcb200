"""Checks of a converter with examples of all fields of all versions, before any object is converted.

Rules lose nothing, but a field that a version cannot represent and that no rule names is probably an
oversight: clients of that version do not see it. Fields of different types, and required fields without a
value, make conversions fail. Functions can lose fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from kubewright.api.declaring.declarations import is_resource, resource_info
from kubewright.api.encoding import codec
from kubewright.api.meta import MetaObject
from kubewright.schema.examples import Examples
from kubewright.schema.generation.errors import Problem
from kubewright.schema.structural import Node

from .conversion import Converter, RuleSpoke, kind_of, lost_in_round_trips, schema_node
from .preserved_fields import MISSING, Document, annotation_of

Severity = Literal["error", "warning"]


def examples_of(kind: type[MetaObject], values: Mapping[str, Sequence[Any]] | None = None) -> Examples:
    """Return examples of all fields of a version of a kind."""
    gvk = kind_of(kind)
    metadata = {"name": "example"}
    if not is_resource(kind) or resource_info(kind).namespaced:
        metadata["namespace"] = "default"
    identity = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}
    return Examples(schema_node(kind).raw, identity=identity, values=values)


def conversion_problems(converter: Converter) -> list[tuple[Severity, Problem]]:
    """Return errors and warnings about a converter."""
    found: dict[tuple[Severity, Problem], None] = {}
    for spoke in converter.spokes:
        check = _rule_problems if isinstance(spoke, RuleSpoke) else _function_problems
        for source, target in ((spoke.kind, spoke.hub), (spoke.hub, spoke.kind)):
            found.update(dict.fromkeys(check(converter, spoke, source, target)))
    return [*found]


def _rule_problems(
    converter: Converter, spoke: Any, source: type[MetaObject], target: type[MetaObject]
) -> Iterator[tuple[Severity, Problem]]:
    rule = "DefaultHub" if source is spoke.hub else "DefaultSpoke"
    versions = kind_of(source).version, kind_of(target).version
    hidden: dict[str, None] = {}
    for document in _some_documents(source):
        try:
            again = spoke.round_trip(document, source)
        except codec.DecodeError as error:
            text = (
                f"objects of {versions[0]} cannot be converted to {versions[1]}: {error}; add a rule for the "
                "field (Move, MapValues, or DefaultHub and DefaultSpoke with a value), or write to_hub= and "
                "from_hub="
            )
            yield "error", _problem(source, "", text)
            return
        hidden.update(dict.fromkeys(_changed_fields(document, again, schema_node(source))))
    for path in hidden:
        if not any(_is_within(path, named) for named in spoke.rules.paths):
            text = (
                f"{versions[1]} cannot represent this field, and no rule names it; objects of {versions[1]} "
                f'have it only in the annotation {annotation_of(versions[0])}: declare {rule}("{path}"), or '
                "give it a place with another rule"
            )
            yield "warning", _problem(source, path, text)


def _function_problems(
    converter: Converter, spoke: Any, source: type[MetaObject], target: type[MetaObject]
) -> Iterator[tuple[Severity, Problem]]:
    lost: dict[str, None] = {}
    through = kind_of(target).version
    for document in _some_documents(source):
        try:
            lost.update(dict.fromkeys(lost_in_round_trips(converter, document, source, through=(through,))))
        except Exception:  # noqa: S112  (functions reject values that a schema accepts)
            continue
    for path in lost:
        text = f"lost in a round trip through {through}; convert it in to_hub= and from_hub=, or use rules="
        yield "warning", _problem(source, path, text)


def _some_documents(kind: type[MetaObject]) -> list[Document]:
    """Return objects that have every field at least once, and one with only the required fields."""
    examples = examples_of(kind)
    complete = examples.complete()
    documents = examples.documents()
    if not complete:
        return [document for _, document in documents]
    least = next((document for path, document in documents if path == "" and document not in complete), None)
    return complete if least is None else [*complete, least]


def _changed_fields(one: Any, other: Any, node: Node | None, path: str = "") -> Iterator[str]:
    """Return the fields that differ, with `[]` for elements of lists and `*` for those of maps."""
    if one is other or one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            if path or name not in ("apiVersion", "kind", "metadata"):
                child = node.child(name) if node is not None else None
                step = "*" if node is not None and node.properties.get(name) is None else name
                below = f"{path}.{step}" if path else step
                yield from _changed_fields(one.get(name, MISSING), other.get(name, MISSING), child, below)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for before, after in zip(one, other, strict=True):
            yield from _changed_fields(before, after, node.items if node is not None else None, f"{path}[]")
    else:
        yield path


def _is_within(path: str, named: str) -> bool:
    return path == named or path.startswith((f"{named}.", f"{named}["))


def _problem(kind: type[MetaObject], path: str, text: str) -> Problem:
    gvk = kind_of(kind)
    where = resource_info(kind).where if is_resource(kind) else ""
    return Problem(where, f"{gvk.kind} {gvk.version}{'.' if path else ''}{path}", text)
