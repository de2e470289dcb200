"""Presence: what was set is encoded, also if it equals a default; what was not set is not."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import field
from tests.generated_types import drawn_from, types

from kubewright.api import (
    Condition,
    CustomResource,
    Default,
    LabelSelectorRequirement,
    LocalDefault,
    Nullable,
    OwnerReference,
    Required,
    Spec,
    Status,
    Struct,
    decode,
    encode,
    fields_set,
    from_plain,
    markers,
    resource,
    to_plain,
)
from kubewright.schema.generation.from_types import schema_of

relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def read_everything(value: Any) -> None:
    """Read every attribute, which creates the defaults of lists, maps and structs."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            read_everything(getattr(value, name))
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            read_everything(each)


@relaxed
@given(st.data())
def test_encoding_a_decoded_value_returns_exactly_its_fields(data: st.DataObject) -> None:
    made = data.draw(types.filter(lambda made: not _is_rewritten(made.type)))
    wire = data.draw(drawn_from(schema_of(made.type)))
    decoded = from_plain(wire, made.type)
    assert to_plain(decoded) == wire
    read_everything(decoded)
    assert to_plain(decoded) == wire
    assert msgspec.json.decode(encode(decoded)) == wire
    assert to_plain(decoded.copy()) == to_plain(copy.deepcopy(decoded)) == wire


def _is_rewritten(of: Any) -> bool:
    """Whether a type has quantities or durations, which are encoded in canonical form."""
    text = repr(msgspec.inspect.type_info(of))
    return "Duration" in text or "Quantity" in text


@relaxed
@given(st.data())
def test_decoding_an_encoded_value_returns_an_equal_one_with_the_same_fields(data: st.DataObject) -> None:
    made = data.draw(types)
    value = data.draw(made.values)
    again = decode(encode(value), made.type)
    assert again == value
    assert fields_set(again) == fields_set(value)
    read_everything(value)
    assert encode(value) == encode(again)


@relaxed
@given(st.data())
def test_every_field_that_was_assigned_is_encoded(data: st.DataObject) -> None:
    made = data.draw(types)
    value, other = data.draw(made.values), data.draw(made.values)
    name = data.draw(st.sampled_from(sorted(made.type.__struct_fields__)))
    assigned = getattr(other, name)
    setattr(value, name, assigned)
    wire_name = dict(zip(made.type.__struct_fields__, made.type.__struct_encode_fields__, strict=True))[name]
    if assigned is not None:
        assert to_plain(value)[wire_name] == to_plain(assigned)


class RequiredMode(Struct):
    level: int = 1


Always = Annotated[int, Required]


class Part(Struct):
    size: int = 3
    names: list[str] = []


class ShopSpec(Spec):
    limit: ClassVar[int] = 9
    replicas: int = 1
    title: str = "shop"
    mode: RequiredMode = RequiredMode()
    tags: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=lambda: ["a"])
    part: Part = field(default_factory=Part)
    note: Annotated[str | None, Nullable] = None
    port: Annotated[int, Default(80)] | None = None
    local: Annotated[int, LocalDefault] = 4
    wire: bool = field(default=False, name="onTheWire")


class ShopStatus(Status):
    phase: str = ""


@resource(group="presence.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


def test_an_unset_field_is_not_encoded_and_reads_as_its_default() -> None:
    spec = ShopSpec()
    assert encode(spec) == b"{}"
    assert (spec.replicas, spec.title, spec.mode.level, spec.tags, spec.hosts) == (1, "shop", 1, {}, ["a"])
    assert (spec.note, spec.port, spec.local, spec.wire, spec.limit) == (None, None, 4, False, 9)
    assert encode(spec) == b"{}"
    assert fields_set(spec) == frozenset()
    assert repr(spec) == "ShopSpec()"


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        ({"replicas": 1}, {"replicas": 1}),
        ({"title": "shop"}, {"title": "shop"}),
        ({"wire": False}, {"onTheWire": False}),
        ({"tags": {}}, {"tags": {}}),
        ({"hosts": ["a"]}, {"hosts": ["a"]}),
        ({"part": Part()}, {"part": {}}),
        ({"part": Part(size=3)}, {"part": {"size": 3}}),
        ({"mode": RequiredMode(level=1)}, {"mode": {"level": 1}}),
        ({"note": None}, {"note": None}),
        ({"port": None}, {}),
    ],
)
def test_a_value_that_equals_the_default_is_encoded(given: dict[str, Any], wire: dict[str, Any]) -> None:
    assert to_plain(ShopSpec(**given)) == wire
    spec = ShopSpec()
    for name, value in given.items():
        setattr(spec, name, value)
    assert to_plain(spec) == wire
    assert to_plain(from_plain(wire, ShopSpec)) == wire


def test_a_created_default_is_encoded_once_it_was_changed() -> None:
    spec = ShopSpec()
    spec.tags["a"] = "b"
    spec.part.names.append("x")
    spec.hosts.clear()
    assert to_plain(spec) == {"tags": {"a": "b"}, "hosts": [], "part": {"names": ["x"]}}
    assert ShopSpec().part.names == []
    explicit = ShopSpec()
    explicit.part.size = 3
    assert to_plain(explicit) == {"part": {"size": 3}}


def test_an_unset_field_equals_its_default() -> None:
    assert ShopSpec() == ShopSpec(replicas=1, hosts=["a"], part=Part(size=3))
    assert ShopSpec() != ShopSpec(replicas=2)
    assert ShopSpec() != ShopStatus()

    class Key(Struct, frozen=True):
        name: str = "a"

    assert {Key(): 1}[Key(name="a")] == 1


def test_a_field_can_be_unset() -> None:
    spec = ShopSpec(replicas=3)
    del spec.replicas
    assert (spec.replicas, encode(spec)) == (1, b"{}")


def test_copies_keep_presence() -> None:
    spec = ShopSpec(replicas=1)
    spec.tags["a"] = "b"
    for copied in (spec.copy(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert encode(copied) == encode(spec) == b'{"replicas":1,"tags":{"a":"b"}}'
        copied.tags["c"] = "d"
        assert spec.tags == {"a": "b"}


def test_a_subclass_can_change_a_default() -> None:
    class Big(ShopSpec):
        replicas: int = 7
        title: str | None = None  # type: ignore[assignment]
        note: Annotated[str, Required] = "n"

    big = Big()
    assert (big.replicas, big.title, big.tags) == (7, None, {})
    assert encode(big) == b'{"note":"n"}'
    assert encode(Big(replicas=7, note="m")) == b'{"replicas":7,"note":"m"}'


def test_names_of_types_do_not_change_the_encoding() -> None:
    assert encode(ShopSpec(mode=RequiredMode())) == b'{"mode":{}}'


def test_required_fields_are_always_encoded() -> None:
    class Measured(Struct):
        size: Annotated[int, Required] = 0
        unit: Annotated[str, markers.Required] | None = "m"
        weight: Always = 2

    assert encode(Measured()) == b'{"size":0,"unit":"m","weight":2}'


def test_an_empty_status_is_encoded_if_it_was_set() -> None:
    shop = Shop(spec=ShopSpec())
    assert shop.status.phase == ""
    assert "status" not in to_plain(shop)
    assert b"status" not in encode(shop)
    shop.status.phase = ""
    assert to_plain(shop)["status"] == {"phase": ""}
    for status in ({}, {"phase": ""}):
        wire = {"apiVersion": "presence.example.com/v1", "kind": "Shop", "metadata": {}, "spec": {}}
        assert to_plain(from_plain({**wire, "status": status}, Shop))["status"] == status


def test_empty_strings_of_metadata_types_are_encoded() -> None:
    assert encode(OwnerReference(name="")) == b'{"name":""}'
    assert encode(LabelSelectorRequirement(key="a", operator="")) == b'{"key":"a","operator":""}'
    assert encode(Condition(type="Ready", reason="")) == b'{"type":"Ready","reason":"","message":""}'
