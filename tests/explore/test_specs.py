"""Exploration of specs: changes that are neither rejected nor handled, and fields without an effect."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from tests.explore.planted.kinds import NAMESPACE, Part, app, part

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.markers import Cel, Ge, Le, MaxLen, mark
from kubewright.explore import Steps, scenario
from kubewright.explore.specs.spec_exploration import SpecError, applied_objects, explore_specs
from kubewright.explore.specs.spec_fields import REMOVED, FieldSchema, fields_of, values_for, with_field


@mark(Cel("self.low <= self.high"))
class StoreSpec(Spec):
    """Desired state of a store."""

    size: Annotated[int, Ge(1), Le(3)] = 1
    zone: str | None = None
    engine: Literal["fast", "safe"] = "fast"
    label: Annotated[str, MaxLen(10)] = "a"
    note: str = ""
    low: int = 1
    high: int = 2


@resource(group="specs.example.com", version="v1")
class Store(CustomResource[StoreSpec, None]):
    """A store."""


def build(fixed: bool) -> Operator:
    operator = Operator("stores")

    @operator.reconcile(Store, owns=(Part,))
    async def reconcile(store: Store, ctx: Context[Store]) -> None:
        spec = store.spec
        if spec.engine == "safe" and not fixed:
            await ctx.client.delete(Part, store.name, namespace=NAMESPACE, missing_ok=True)
            raise ValueError("the engine cannot be changed")
        zone = spec.zone.upper() if not fixed else (spec.zone or "").upper()  # type: ignore[union-attr]
        settings = {
            "zone": zone,
            "label": spec.label,
            "range": f"{spec.low}-{spec.high}",
            "engine": spec.engine,
        }
        found = await ctx.client.get_or_none(Part, store.name, namespace=NAMESPACE)
        if not fixed and found is not None:
            settings = {**found.spec.settings, **settings, f"was-{spec.label}": "yes"}
        await ctx.ensure([part(store.name, size=spec.size, settings=settings)])

    return operator


@scenario
async def create_store(steps: Steps) -> None:
    spec = StoreSpec(zone="north", note="x")
    await steps.apply(Store(metadata=ObjectMeta(name="s", namespace=NAMESPACE), spec=spec))
    await steps.advance("1m")


def test_bugs_are_found() -> None:
    report = explore_specs(lambda: build(False), [create_store], operator="stores")
    found = {(each.rule, each.problems[0].partition(":")[0]) for each in report.violations}
    assert ("reconcile fails", "spec.zone removed") in found
    assert ("healthy objects are destroyed", "spec.engine='safe'") in found
    rules = {rule for rule, _ in found}
    assert {"the change back does not restore", "the state depends on earlier values"} <= rules
    crash = next(each for each in report.violations if each.problems[0].startswith("spec.zone removed"))
    assert "AttributeError" in crash.problems[0]
    assert crash.timeline
    assert "zone: north" in crash.test
    assert "spec.note: 7 values accepted, 0 rejected, no value has an effect" in report.notes


def test_a_correct_operator_is_clean_and_dependencies_are_learned() -> None:
    report = explore_specs(lambda: build(True), [create_store], operator="stores")
    assert [(each.rule, each.problems) for each in report.violations] == []
    notes = [each for each in report.notes if "no value has an effect" in each]
    assert [each.partition(":")[0] for each in notes] == ["spec.note"]
    assert any(
        each.startswith("learned: spec.high=-1 requires spec.low=-1 (rule self.low <= self.high)")
        for each in report.notes
    )
    size = next(each for each in report.notes if each.startswith("spec.size"))
    assert size == "spec.size: 3 values accepted, 2 rejected"


def test_values() -> None:
    schema: dict[str, Any] = {
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 3},
            "storage": {"properties": {"class": {"type": "string", "pattern": "^[a-z]+$"}}},
            "ports": {"type": "array", "maxItems": 2, "items": {"type": "integer", "minimum": 1}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    size, storage, ports, labels = fields_of(schema)
    assert [str(each) for each in (size, storage)] == ["spec.size", "spec.storage.class"]
    assert values_for(size, 1) == [2, 0, 3, 4]
    assert values_for(storage, "a")[:2] == ["ax", "example"]
    assert "does not match: ~" in values_for(storage, "a")
    assert values_for(ports, None)[:3] == [[], [1], [1, 2]]
    assert [len(each) for each in values_for(ports, None)] == [0, 1, 2, 3]
    assert values_for(labels, {})[-1] == REMOVED
    obj = with_field({"spec": {"size": 1}}, ("spec", "storage", "class"), "b")
    assert obj == {"spec": {"size": 1, "storage": {"class": "b"}}}
    assert with_field(obj, ("spec", "storage", "class"), REMOVED)["spec"]["storage"] == {}
    assert values_for(FieldSchema(("spec", "on"), {"type": "boolean"}), True) == [False, REMOVED]


def test_objects_of_scenarios() -> None:
    @scenario
    async def with_client(steps: Steps) -> None:
        await steps.apply(app("a"))
        await steps.client.get(Part, "a")
        await steps.apply(app("b"))

    assert [each["metadata"]["name"] for each in applied_objects(with_client)] == ["a"]

    @scenario
    async def nothing(steps: Steps) -> None:
        await steps.advance("1m")

    with pytest.raises(SpecError, match="apply no custom resource"):
        explore_specs(lambda: build(True), [nothing])
