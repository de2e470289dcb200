"""Updates preserve fields that the types of this program do not declare."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api import (
    AlreadyExists,
    CustomResource,
    ObjectMeta,
    Spec,
    Status,
    Struct,
    Unstructured,
    resource,
)
from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.encoding import codec
from kubewright.client import Client, condition
from kubewright.client.patches import base_and_changed, to_dict


class Part(Struct):
    name: str = ""
    size: int | None = None


class Rule(Struct):
    verb: str = ""


class MachineSpec(Spec):
    replicas: int | None = None
    parts: list[Part] | None = None
    rules: list[Rule] | None = None
    by_name: dict[str, Part] | None = None


class MachineStatus(Status):
    ready: int | None = None


@resource(group="client.example.com", version="v1", plural="machines")
class Machine(CustomResource[MachineSpec, MachineStatus]):
    """A machine as an older program knows it."""


def _open(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**properties, "newer": {"type": "string"}}}


def definition() -> CustomResourceDefinition:
    """The same kind with a newer schema."""
    part = _open(name={"type": "string"}, size={"type": "integer"}, inner=_open())
    spec = _open(
        replicas={"type": "integer"},
        parts={"type": "array", "items": part},
        rules={"type": "array", "items": _open(verb={"type": "string"})},
        byName={"type": "object", "additionalProperties": part},
        section=_open(),
    )
    schema = {"type": "object", "properties": {"spec": spec, "status": _open(ready={"type": "integer"})}}
    return codec.from_plain(
        {
            "metadata": {"name": "machines.client.example.com"},
            "spec": {
                "group": "client.example.com",
                "names": {
                    "plural": "machines",
                    "singular": "machine",
                    "kind": "Machine",
                    "listKind": "MachineList",
                },
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                        "subresources": {"status": {}},
                    }
                ],
            },
        },
        CustomResourceDefinition,
    )


FULL: dict[str, Any] = {
    "replicas": 1,
    "newer": "top",
    "section": {"newer": "below"},
    "parts": [
        {"name": "a", "size": 1, "newer": "in a", "inner": {"newer": "deep in a"}},
        {"name": "b", "size": 2, "newer": "in b"},
    ],
    "rules": [{"verb": "get", "newer": "in get"}, {"verb": "list", "newer": "in list"}],
    "byName": {"x": {"name": "x", "newer": "in x"}},
}


@pytest.fixture
async def machines(client: Client, namespace: str) -> Client:
    with suppress(AlreadyExists):
        await client.create(definition())
    await client.wait(
        CustomResourceDefinition, "machines.client.example.com", until=condition("Established"), timeout=60
    )
    return client.in_namespace(namespace)


async def test_fields_of_a_newer_schema_survive_at_every_level(machines: Client, namespace: str) -> None:
    newer = {
        "apiVersion": "client.example.com/v1",
        "kind": "Machine",
        "metadata": {"name": "m"},
        "spec": FULL,
    }
    await machines.create(newer)
    machine = await machines.get(Machine, "m")
    assert machine.spec.parts is not None
    assert machine.spec.rules is not None
    assert machine.spec.by_name is not None
    machine.spec.replicas = 2
    machine.spec.parts[1].size = 20
    machine.spec.parts.insert(0, Part(name="new"))
    machine.spec.rules[0].verb = "watch"
    machine.spec.by_name["x"].size = 7
    await machines.update(machine)
    found = (await machines.get("machines", "m"))["spec"]
    assert found["replicas"] == 2
    assert found["newer"] == "top"
    assert found["section"] == {"newer": "below"}
    assert found["parts"] == [
        {"name": "new"},
        {"name": "a", "size": 1, "newer": "in a", "inner": {"newer": "deep in a"}},
        {"name": "b", "size": 20, "newer": "in b"},
    ]
    assert found["rules"] == [{"verb": "watch", "newer": "in get"}, {"verb": "list", "newer": "in list"}]
    assert found["byName"] == {"x": {"name": "x", "size": 7, "newer": "in x"}}
    machine.spec.parts = [each for each in machine.spec.parts if each.name != "a"]
    del machine.spec.by_name["x"]
    await machines.update(machine)
    found = (await machines.get("machines", "m"))["spec"]
    assert found["parts"] == [{"name": "new"}, {"name": "b", "size": 20, "newer": "in b"}]
    assert "x" not in found.get("byName", {})


async def test_unknown_fields_of_the_status_survive(machines: Client, namespace: str) -> None:
    made = await machines.create(
        Unstructured(
            {"apiVersion": "client.example.com/v1", "kind": "Machine", "metadata": {"name": "s"}, "spec": {}}
        )
    )
    made["status"] = {"ready": 1, "newer": "status"}
    await machines.update_status(made)
    machine = await machines.get(Machine, "s")
    machine.status = MachineStatus(ready=2)
    await machines.update_status(machine)
    assert (await machines.get("machines", "s"))["status"] == {"ready": 2, "newer": "status"}


async def test_items_of_a_list_can_be_updated_too(machines: Client, namespace: str) -> None:
    newer = {
        "apiVersion": "client.example.com/v1",
        "kind": "Machine",
        "metadata": {"name": "m"},
        "spec": FULL,
    }
    await machines.create(newer)
    machine = (await machines.list(Machine))[0]
    machine.metadata.labels = {"seen": "yes"}
    await machines.update(machine)
    assert (await machines.get("machines", "m"))["spec"] == FULL


parts = st.fixed_dictionaries(
    {"name": st.sampled_from("abcde")},
    optional={"size": st.integers(0, 3), "newer": st.text(max_size=3), "inner": st.just({"newer": "deep"})},
)
specs = st.fixed_dictionaries(
    {"parts": st.lists(parts, max_size=5, unique_by=lambda part: part["name"])},
    optional={"replicas": st.integers(0, 3), "newer": st.text(max_size=3)},
)


@settings(max_examples=150, deadline=None)
@given(specs, st.permutations("abcde"), st.integers(0, 5), st.integers(0, 9))
def test_changes_are_merged_with_unknown_fields(
    spec: dict[str, Any], order: Any, keep: int, size: int
) -> None:
    base = {"apiVersion": "client.example.com/v1", "kind": "Machine", "metadata": {"name": "m"}, "spec": spec}
    machine = codec.decode(codec.encode(base), Machine)
    assert machine.spec.parts is not None
    machine.spec.parts.sort(key=lambda part: order.index(part.name))
    del machine.spec.parts[keep:]
    for part in machine.spec.parts:
        part.size = size
    pair = base_and_changed(machine)
    assert pair is not None
    before, after = pair
    assert before == base
    old = {part["name"]: part for part in spec["parts"]}
    for part in after["spec"]["parts"]:
        unknown = {name: value for name, value in old[part["name"]].items() if name in ("newer", "inner")}
        assert {name: value for name, value in part.items() if name in ("newer", "inner")} == unknown
        assert part["size"] == size
    assert after["spec"].get("newer") == spec.get("newer")
    # What this program sees of the result is what it wanted.
    assert to_dict(codec.decode(codec.encode(after), Machine))["spec"] == to_dict(machine)["spec"]


def test_unchanged_object_has_empty_patch() -> None:
    base = {"metadata": {"name": "m", "resourceVersion": "1"}, "spec": FULL}
    machine = codec.decode(codec.encode(base), Machine)
    pair = base_and_changed(machine)
    assert pair is not None
    assert pair[0] == pair[1] == base
    assert base_and_changed(Machine(metadata=ObjectMeta(name="m"), spec=MachineSpec())) is None
