"""Protobuf of custom types: every supported field type, and errors of declarations."""

from __future__ import annotations

import types
from datetime import UTC, datetime
from typing import Annotated, Literal

import pytest

from kubewright import CustomResource, Spec, Status, resource
from kubewright.api.core.v1 import Container
from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.markers import FieldNumber, Int32, Number
from kubewright.api.meta import ObjectMeta
from kubewright.api.objects import Struct
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Duration
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.resources.typed import resource_of
from kubewright.schema.generation.protobuf_messages import ProtobufDeclarationError, message_lines

N = FieldNumber


class Part(Struct):
    name: Annotated[str, N(1)]
    weight: Annotated[int | None, Int32, N(2)] = None


class EngineSpec(Spec):
    text: Annotated[str, N(1)]
    count: Annotated[int, N(2)] = 0
    small: Annotated[int, Int32, N(3)] = 0
    on: Annotated[bool, N(4)] = False
    data: Annotated[bytes | None, N(5)] = None
    ratio: Annotated[Number | None, N(6)] = None
    memory: Annotated[Quantity | None, N(7)] = None
    since: Annotated[datetime | None, N(8)] = None
    every: Annotated[Duration | None, N(9)] = None
    port: Annotated[int | str | None, N(10)] = None
    mode: Annotated[Literal["Fast", "Slow"] | None, N(11)] = None
    part: Annotated[Part | None, N(12)] = None
    parts: Annotated[list[Part], N(13)] = []
    labels: Annotated[dict[str, str], N(14)] = {}
    numbers: Annotated[list[int], N(15)] = []
    by_name: Annotated[dict[str, Part], N(16)] = {}
    container: Annotated[Container | None, N(2000)] = None


class EngineStatus(Status):
    ready: Annotated[bool, N(1)] = False


@resource(group="cars.example.com", version="v1")
class Engine(CustomResource[EngineSpec, EngineStatus]):
    """A kind with a field of every type."""


def test_every_type_survives_protobuf() -> None:
    version = resource_of(Engine).versions[0]
    assert version.wire is builtin_codec()
    spec = EngineSpec(
        text="é",
        count=-(1 << 40),
        small=7,
        on=True,
        data=b"\0\xff",
        ratio=1.25,
        memory=Quantity("1Gi"),
        since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        every=Duration("1h30m0s"),
        port="http",
        mode="Fast",
        part=Part(name="a", weight=0),
        parts=[Part(name="b"), Part(name="c", weight=3)],
        labels={"x": "y", "a": ""},
        numbers=[1, 0, -1],
        by_name={"d": Part(name="d")},
        container=Container(name="c", image="i"),
    )
    engine = Engine(metadata=ObjectMeta(name="v8"), spec=spec, status=EngineStatus(ready=True))
    plain = {"apiVersion": "cars.example.com/v1", "kind": "Engine", **to_plain(engine)}
    decoded = builtin_codec().decode(builtin_codec().encode(plain))
    assert decoded["spec"]["container"].pop("resources") == {}  # always present, as in kube-apiserver
    assert to_plain(from_plain(decoded, Engine)) == to_plain(engine)
    # Fields that are absent in JSON stay absent, zero values that are present stay present.
    assert decoded["spec"]["part"] == {"name": "a", "weight": 0}
    assert decoded["spec"]["parts"][0] == {"name": "b"}


def test_kinds_without_numbers_have_no_protobuf() -> None:
    class PlainSpec(Spec):
        text: str = ""

    @resource(group="cars.example.com", version="v1")
    class Plain(CustomResource[PlainSpec, None]):
        """A kind."""

    assert message_lines(Plain, "com.example.cars.v1") == {}
    assert resource_of(Plain).versions[0].wire is None


def test_errors_name_the_field() -> None:
    class HalfSpec(Spec):
        first: Annotated[str, N(1)] = ""
        second: str = ""

    class TwiceSpec(Spec):
        first: Annotated[str, N(1)] = ""
        second: Annotated[str, N(1)] = ""

    class NestedSpec(Spec):
        rows: Annotated[list[list[str]], N(1)] = []

    for spec, message in (
        (HalfSpec, r"HalfSpec\.second has no FieldNumber; protobuf needs one for every field of Car"),
        (TwiceSpec, "fields first and second of TwiceSpec have field number 1"),
        (NestedSpec, r"NestedSpec\.rows: protobuf has no lists or maps of lists"),
    ):
        car = resource(group="cars.example.com", version="v1")(
            types.new_class("Car", (CustomResource[spec, None],))  # type: ignore[valid-type]
        )
        with pytest.raises(ProtobufDeclarationError, match=message):
            message_lines(car, "com.example.cars.v1")
    with pytest.raises(ValueError, match="reserved"):
        FieldNumber(19000)
