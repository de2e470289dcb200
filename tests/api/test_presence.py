"""Presence: what was set is encoded, also if it equals a default; what was not set is not."""

from __future__ import annotations

import copy
import pickle
from itertools import product
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


def paths_of(value: Any) -> list[tuple[msgspec.Struct, str]]:
    """Every field of a struct and of the structs in it, which creates the defaults on the way."""
    found: list[tuple[msgspec.Struct, str]] = []
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            found += [(value, name), *paths_of(getattr(value, name))]
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            found += paths_of(each)
    return found


def encoded_paths(value: Any) -> set[tuple[Any, ...]]:
    """The paths of all fields of plain data."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {(key, *rest) for key, each in items for rest in [(), *encoded_paths(each)]}


def copies_of(value: Any) -> list[Any]:
    """Copies in every way that Python has; generated classes cannot be pickled."""
    replaced = msgspec.structs.replace(value)
    return [
        value.copy(),
        copy.copy(value),
        copy.deepcopy(value),
        replaced,
        from_plain(to_plain(value), type(value)),
    ]


@relaxed
@given(st.data())
def test_a_change_after_reading_everything_loses_nothing_and_copies_are_the_same(
    data: st.DataObject,
) -> None:
    made = data.draw(types)
    value = data.draw(made.values)
    before = to_plain(value)
    owner, name = data.draw(st.sampled_from(paths_of(value)))
    assigned = getattr(owner, name)
    setattr(owner, name, assigned)
    after = to_plain(value)
    assert encoded_paths(before) <= encoded_paths(after)
    assert value == from_plain(after, made.type) or _is_rewritten(made.type)
    for copied in copies_of(value):
        assert to_plain(copied) == after
        assert fields_set(copied) == fields_set(value)
        assert repr(copied) == repr(value)


@relaxed
@given(st.data())
def test_a_deleted_field_is_not_encoded(data: st.DataObject) -> None:
    made = data.draw(types)
    value = data.draw(made.values)
    owner, name = data.draw(st.sampled_from(paths_of(value)))
    required = {each.name for each in msgspec.structs.fields(type(owner)) if each.required}
    if name in required:
        with pytest.raises(AttributeError, match="is required and cannot be deleted"):
            delattr(owner, name)
        return
    delattr(owner, name)
    assert name not in fields_set(owner)
    assert getattr(owner, name) == getattr(
        type(owner)(**{each: getattr(owner, each) for each in required}), name
    )


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
    assert fields_set(spec) == {"tags", "hosts", "part"}
    assert ShopSpec().part.names == []
    explicit = ShopSpec()
    explicit.part.size = 3
    assert to_plain(explicit) == {"part": {"size": 3}}


def test_a_changed_default_omits_the_defaults_in_it_that_were_only_read() -> None:
    class Outer(Struct):
        part: Part = field(default_factory=Part)
        parts: dict[str, Part] = field(default_factory=lambda: {"a": Part()})

    outer = Outer()
    assert (outer.part.names, outer.parts["a"].names) == ([], [])
    outer.part.size = 5
    assert to_plain(outer) == msgspec.json.decode(encode(outer)) == {"part": {"size": 5}}
    outer.parts["a"].size = 3
    assert to_plain(outer) == {"part": {"size": 5}, "parts": {"a": {"size": 3}}}
    assert repr(outer) == "Outer(part=Part(size=5), parts={'a': Part(size=3)})"


def test_every_combination_of_read_defaults_is_omitted() -> None:
    class Four(Struct):
        a: list[str] = []
        b: dict[str, str] = field(default_factory=dict, name="b:,{ä")
        c: list[str] = []
        d: Part = field(default_factory=Part)

    for kinds in product(("unset", "read", "changed"), repeat=4):
        four = Four()
        for name, kind in zip("abcd", kinds, strict=True):
            value = getattr(four, name) if kind != "unset" else None
            if kind == "changed":
                value.update(x="y") if name == "b" else (value.names if name == "d" else value).append('",')
        expected = [
            wire for wire, kind in zip(Four.__struct_encode_fields__, kinds, strict=True) if kind == "changed"
        ]
        assert [*msgspec.json.decode(encode([four, four]))[1]] == [*to_plain(four)] == expected


def test_an_unset_field_equals_its_default() -> None:
    assert ShopSpec() == ShopSpec(replicas=1, hosts=["a"], part=Part(size=3))
    assert ShopSpec() != ShopSpec(replicas=2)
    assert ShopSpec() != ShopStatus()

    class Key(Struct, frozen=True):
        name: str = "a"

    assert {Key(): 1}[Key(name="a")] == 1

    class Rank(Struct, order=True):
        level: int = 2

    assert sorted([Rank(level=3), Rank(), Rank(level=1)]) == [Rank(level=1), Rank(level=2), Rank(level=3)]
    assert (Rank() <= Rank(level=2), Rank() < Rank(level=2)) == (True, False)


def test_a_field_can_be_unset() -> None:
    spec = ShopSpec(replicas=3)
    del spec.replicas
    assert (spec.replicas, encode(spec)) == (1, b"{}")
    spec.port = 8080
    spec.tags["a"] = "b"
    del spec.port, spec.tags
    assert (spec.port, spec.tags, encode(spec)) == (None, {}, b"{}")
    shop = Shop(spec=spec)
    shop.status.phase = "Open"
    del shop.status
    assert (shop.status.phase, "status" in to_plain(shop)) == ("", False)
    with pytest.raises(AttributeError, match=r"Shop\.spec is required"):
        del shop.spec


def test_copies_keep_presence() -> None:
    spec = ShopSpec(replicas=1)
    spec.tags["a"] = "b"
    assert spec.hosts == ["a"]  # its factory is a lambda
    for copied in (spec.copy(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert encode(copied) == encode(spec) == b'{"replicas":1,"tags":{"a":"b"}}'
        copied.tags["c"] = "d"
        assert spec.tags == {"a": "b"}
    for copied in (copy.copy(spec), msgspec.structs.replace(spec, title="shop")):
        assert copied.tags is spec.tags  # as of every shallow copy
    assert to_plain(copied) == {"replicas": 1, "title": "shop", "tags": {"a": "b"}}


def test_every_position_of_an_array_is_encoded() -> None:
    class Pair(Struct, array_like=True):
        left: int = 1
        right: int = 2

    assert (encode(Pair()), encode(Pair(right=3))) == (b"[1,2]", b"[1,3]")


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
    assert repr(shop) == "Shop(spec=ShopSpec(), status=ShopStatus(phase=''))"
    for status in ({}, {"phase": ""}):
        wire = {"apiVersion": "presence.example.com/v1", "kind": "Shop", "metadata": {}, "spec": {}}
        assert to_plain(from_plain({**wire, "status": status}, Shop))["status"] == status


def test_empty_strings_of_metadata_types_are_encoded() -> None:
    assert encode(OwnerReference(name="")) == b'{"name":""}'
    assert encode(LabelSelectorRequirement(key="a", operator="")) == b'{"key":"a","operator":""}'
    assert encode(Condition(type="Ready", reason="")) == b'{"type":"Ready","reason":"","message":""}'
