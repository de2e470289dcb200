"""Protobuf messages that are declared as Python types."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.node.messages import Message, ProtobufError


class Inner(Message):
    text: Annotated[str, 1] = ""
    number: Annotated[int, 15] = 0


class Outer(Message):
    name: Annotated[str, 1] = ""
    data: Annotated[bytes, 2] = b""
    flag: Annotated[bool, 3] = False
    amount: Annotated[int, 4] = 0
    share: Annotated[float, 5] = 0.0
    inner: Annotated[Inner | None, 6] = None
    names: Annotated[list[str], 7] = []
    numbers: Annotated[list[int], 8] = []
    inners: Annotated[list[Inner], 9] = []
    labels: Annotated[dict[str, str], 10] = {}
    by_name: Annotated[dict[str, Inner], 200] = {}


NUMBERS = st.integers(-(2**63), 2**63 - 1)
INNER = st.builds(Inner, text=st.text(), number=NUMBERS)
OUTER = st.builds(
    Outer,
    name=st.text(),
    data=st.binary(),
    flag=st.booleans(),
    amount=NUMBERS,
    share=st.floats(allow_nan=False),
    inner=st.none() | INNER,
    names=st.lists(st.text()),
    numbers=st.lists(NUMBERS),
    inners=st.lists(INNER, max_size=3),
    labels=st.dictionaries(st.text(), st.text(), max_size=3),
    by_name=st.dictionaries(st.text(), INNER, max_size=3),
)


@settings(max_examples=40)
@given(OUTER)
def test_round_trip(message: Outer) -> None:
    assert Outer.decode(message.encode()) == message


@settings(max_examples=40)
@given(OUTER)
def test_the_protobuf_runtime_reads_the_same_message(message: Outer) -> None:
    runtime: Any = _protobuf_class()
    parsed = runtime.FromString(message.encode())
    assert (parsed.name, parsed.data, parsed.flag, parsed.amount, parsed.share) == (
        message.name,
        message.data,
        message.flag,
        message.amount,
        message.share,
    )
    assert list(parsed.names) == message.names
    assert list(parsed.numbers) == message.numbers
    assert dict(parsed.labels) == message.labels
    assert parsed.HasField("inner") == (message.inner is not None)
    assert {key: value.number for key, value in parsed.by_name.items()} == {
        key: value.number for key, value in message.by_name.items()
    }
    assert Outer.decode(parsed.SerializeToString()) == message


_cached: list[Any] = []


def _protobuf_class() -> Any:
    """Return the class of `Outer` in the protobuf runtime, as an independent implementation."""
    pytest.importorskip("google.protobuf", reason="requires protobuf")
    if _cached:
        return _cached[0]
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="outer.proto", package="test", syntax="proto3")
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="text", number=1, type=9, label=1)
    inner.field.add(name="number", number=15, type=3, label=1)
    outer = file.message_type.add(name="Outer")
    for name, number, type_, label in (
        ("name", 1, 9, 1),
        ("data", 2, 12, 1),
        ("flag", 3, 8, 1),
        ("amount", 4, 3, 1),
        ("share", 5, 1, 1),
        ("names", 7, 9, 3),
        ("numbers", 8, 3, 3),
    ):
        outer.field.add(name=name, number=number, type=type_, label=label)
    outer.field.add(name="inner", number=6, type=11, label=1, type_name=".test.Inner")
    outer.field.add(name="inners", number=9, type=11, label=3, type_name=".test.Inner")
    for name, entry, number, value in (
        ("labels", "LabelsEntry", 10, None),
        ("by_name", "ByNameEntry", 200, ".test.Inner"),
    ):
        nested = outer.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, type=9, label=1)
        nested.field.add(name="value", number=2, type=11 if value else 9, label=1, type_name=value)
        outer.field.add(name=name, number=number, type=11, label=3, type_name=f".test.Outer.{entry}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    _cached.append(message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Outer")))
    return _cached[0]


def test_unknown_fields_are_ignored() -> None:
    assert Inner.decode(Outer(name="a", amount=3, names=["b"]).encode()) == Inner(text="a")


def test_bytes_that_do_not_fit_name_the_field() -> None:
    with pytest.raises(ProtobufError, match=r"Inner\.text: wire type 0 instead of 2"):
        Inner.decode(b"\x08\x01")
    with pytest.raises(ProtobufError, match="ends inside a number"):
        Inner.decode(b"\x0a\xff")


def test_fields_need_a_number() -> None:
    class Wrong(Message):
        name: str = ""

    with pytest.raises(TypeError, match=r"Wrong\.name: expected Annotated\[TYPE, NUMBER\]"):
        Wrong().encode()
