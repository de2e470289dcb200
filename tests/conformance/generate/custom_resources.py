"""Schemas of CustomResourceDefinitions, values they accept, and CEL rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.cases import Case, build_crd, load_yaml

_DATA = Path(__file__).resolve().parent / "custom_resources.yaml"
_CRDS = "POST $(crds)?dryRun=All"


def custom_resource_cases() -> Iterator[Case]:
    """Cases of the categories crd-schema and crd-cel."""
    data = load_yaml(_DATA.read_text())
    schemas = [_definition(schema) for schema in data["schemas"]]
    yield _case("crd-schema/schemas", "Property schemas that are valid or not.", schemas)
    rules = [
        _definition({"type": "object", "properties": data["rule_fields"], "x-kubernetes-validations": [rule]})
        for rule in data["rules"]
    ]
    yield _case("crd-cel/rules", "CEL rules that compile or not.", rules)
    yield _values(data["values"])
    yield _expressions(data["expressions"])


def _case(name: str, about: str, steps: list[dict[str, Any]]) -> Case:
    return Case(name, {"about": about, "steps": steps})


def _definition(schema: Any) -> dict[str, Any]:
    crd = build_crd({"kind": "Widget", "schema": {"properties": {"p": schema}}}, "$(group)")
    return {"do": _CRDS, "body": crd, "pick": ["spec.versions[0].schema"]}


def _values(fields: list[dict[str, Any]]) -> Case:
    """One definition with a property per entry; each value is created in a dry run."""
    properties = {f"p{number}": entry["schema"] for number, entry in enumerate(fields)}
    steps = [
        _create({f"p{number}": value}) for number, entry in enumerate(fields) for value in entry["values"]
    ]
    document = {
        "about": "Values of properties with each schema keyword.",
        "setup": [{"crd": {"kind": "Widget", "schema": {"properties": properties}}}],
        "steps": steps,
    }
    return Case("crd-schema/values", document)


def _expressions(expressions: list[str]) -> Case:
    """One definition with a rule per expression; each is evaluated for one property."""
    field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {
        f"p{number}": {**field, "x-kubernetes-validations": [{"rule": expression}]}
        for number, expression in enumerate(expressions)
    }
    steps = [
        {**_create({f"p{number}": {}}), "name": expression} for number, expression in enumerate(expressions)
    ]
    document = {
        "about": "Evaluation of CEL expressions: 201 if true.",
        "setup": [{"crd": {"kind": "Widget", "schema": {"properties": properties}}}],
        "steps": steps,
    }
    return Case("crd-cel/expressions", document)


def _create(fields: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": "$(group)/v1", "kind": "Widget", "metadata": {"name": "x"}, **fields}
    return {"do": "POST $(cr)/widgets?dryRun=All", "body": body}
