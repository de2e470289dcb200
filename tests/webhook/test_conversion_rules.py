"""Conversion by rules for fields."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, codec, resource
from kubewright.testing import check_conversion
from kubewright.webhook import Converter, DefaultHub, DefaultSpoke, MapValues, Move, Wrap, lost_fields
from kubewright.webhook.preserved_fields import annotation_of

ANNOTATION = annotation_of("v2")


class Mount(Spec):
    dir: str


class ShopV1Spec(Spec):
    size: int = 1
    port: int | None = None
    mode: Literal["fast", "slow"] = "fast"
    mounts: list[Mount] | None = None


class PortV2(Spec):
    number: int
    protocol: str | None = None


class Scaling(Spec):
    replicas: int = 1


class MountV2(Spec):
    path: str


class ShopV2Spec(Spec):
    scaling: Scaling
    ports: list[PortV2] | None = None
    mode: Literal["Fast", "Slow"] = "Fast"
    strategy: str = "Rolling"
    mounts: list[MountV2] | None = None


@resource(group="rules.example.com", version="v1", kind="Shop", storage=False)
class ShopV1(CustomResource[ShopV1Spec, None], kw_only=True):
    """First version."""


@resource(group="rules.example.com", version="v2", kind="Shop", storage=True, hub=True)
class ShopV2(CustomResource[ShopV2Spec, None], kw_only=True):
    """Second version."""


RULES = (
    Move("spec.size", "spec.scaling.replicas"),
    Wrap("spec.port", "spec.ports", key="number"),
    MapValues("spec.mode", {"fast": "Fast", "slow": "Slow"}),
    DefaultHub("spec.strategy", "Rolling"),
    Move("spec.mounts[].dir", "spec.mounts[].path"),
)


@pytest.fixture
def converter() -> Converter:
    converter = Converter(ShopV2)
    converter.spoke(ShopV1, rules=RULES)
    return converter


def convert(converter: Converter, obj: Any, version: str) -> dict[str, Any]:
    return converter.convert(codec.encode(obj), version)


def test_rules_define_both_directions(converter: Converter) -> None:
    old = ShopV1(
        metadata=ObjectMeta(name="a"),
        spec=ShopV1Spec(size=3, port=80, mode="slow", mounts=[Mount(dir="/data")]),
    )
    new = convert(converter, old, "v2")
    assert new["spec"] == {
        "scaling": {"replicas": 3},
        "ports": [{"number": 80}],
        "mode": "Slow",
        "strategy": "Rolling",
        "mounts": [{"path": "/data"}],
    }
    back = convert(converter, new, "v1")
    assert back["spec"] == {"size": 3, "port": 80, "mode": "slow", "mounts": [{"dir": "/data"}]}
    assert ANNOTATION not in (back["metadata"].get("annotations") or {})


def test_values_that_the_spoke_cannot_represent_are_preserved(converter: Converter) -> None:
    new = ShopV2(
        metadata=ObjectMeta(name="a", annotations={"own": "1"}),
        spec=ShopV2Spec(
            scaling=Scaling(replicas=2),
            ports=[PortV2(number=80, protocol="UDP"), PortV2(number=443)],
            strategy="Recreate",
        ),
    )
    old = convert(converter, new, "v1")
    assert old["spec"] == {"size": 2, "port": 80, "mode": "fast"}
    assert set(old["metadata"]["annotations"]) == {"own", ANNOTATION}
    old["spec"]["size"] = 5
    again = convert(converter, old, "v2")
    assert again["spec"]["scaling"] == {"replicas": 5}
    assert again["spec"]["ports"] == [{"number": 80, "protocol": "UDP"}, {"number": 443}]
    assert again["spec"]["strategy"] == "Recreate"
    assert again["metadata"]["annotations"] == {"own": "1"}
    old["spec"]["port"] = 8080
    assert convert(converter, old, "v2")["spec"]["ports"] == [
        {"number": 8080, "protocol": "UDP"},
        {"number": 443},
    ]
    del old["spec"]["port"]
    assert "ports" not in convert(converter, old, "v2")["spec"]
    assert lost_fields(converter, new) == []


def test_an_invalid_annotation_is_ignored(converter: Converter) -> None:
    old = ShopV1(metadata=ObjectMeta(name="a", annotations={ANNOTATION: "[[1]]"}), spec=ShopV1Spec())
    assert convert(converter, old, "v2")["spec"]["scaling"] == {"replicas": 1}


def test_round_trips_of_generated_objects(converter: Converter) -> None:
    check_conversion(converter, examples=40)


def test_a_lossy_conversion_fails_the_check() -> None:
    def to_hub(old: ShopV1) -> ShopV2:
        return ShopV2(metadata=old.metadata, spec=ShopV2Spec(scaling=Scaling()))

    def from_hub(new: ShopV2) -> ShopV1:
        return ShopV1(metadata=new.metadata, spec=ShopV1Spec(size=new.spec.scaling.replicas))

    converter = Converter(ShopV2)
    converter.spoke(ShopV1, to_hub=to_hub, from_hub=from_hub)
    with pytest.raises(AssertionError, match=r"lost in a round trip: spec\.scaling\.replicas"):
        check_conversion(converter, examples=40)


def test_a_field_of_the_spoke_alone_has_a_default() -> None:
    rule = DefaultSpoke("spec.comment", "none")
    document = {"spec": {"comment": "kept nowhere", "size": 1}}
    rule.to_hub(document)
    assert document == {"spec": {"size": 1}}
    rule.from_hub(document)
    assert document == {"spec": {"comment": "none", "size": 1}}


def test_functions_adjust_what_rules_cannot_express() -> None:
    converter = Converter(ShopV2)

    def adjust_hub(spoke: ShopV1, hub: ShopV2) -> None:
        hub.spec.scaling.replicas = spoke.spec.size * 10

    def adjust_spoke(hub: ShopV2, spoke: ShopV1) -> None:
        spoke.spec.size = hub.spec.scaling.replicas // 10

    converter.spoke(ShopV1, rules=RULES, adjust_hub=adjust_hub, adjust_spoke=adjust_spoke)
    old = ShopV1(metadata=ObjectMeta(name="a"), spec=ShopV1Spec(size=3))
    assert convert(converter, old, "v2")["spec"]["scaling"] == {"replicas": 30}
    assert lost_fields(converter, old) == []


def test_incomplete_declarations_are_errors() -> None:
    converter = Converter(ShopV2)
    with pytest.raises(TypeError, match=r"spoke\(ShopV1\): pass rules=\(...\), or to_hub= and from_hub="):
        converter.spoke(ShopV1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="same value in the hub"):
        MapValues("spec.mode", {"a": "x", "b": "x"})
    with pytest.raises(ValueError, match="not in the same list"):
        Move("spec.ports[].port", "spec.port")


def test_annotations_that_a_conversion_adds_are_not_lost() -> None:
    def to_hub(old: ShopV1) -> ShopV2:
        metadata = ObjectMeta(name="a", annotations={"added": "1"}, labels={"added": "1"})
        return ShopV2(metadata=metadata, spec=ShopV2Spec(scaling=Scaling(replicas=old.spec.size)))

    def from_hub(new: ShopV2) -> ShopV1:
        return ShopV1(metadata=new.metadata, spec=ShopV1Spec(size=new.spec.scaling.replicas))

    converter = Converter(ShopV2)
    converter.spoke(ShopV1, to_hub=to_hub, from_hub=from_hub)
    assert lost_fields(converter, ShopV1(metadata=ObjectMeta(name="a"), spec=ShopV1Spec(size=2))) == []
    lost = lost_fields(converter, ShopV1(metadata=ObjectMeta(name="a"), spec=ShopV1Spec(port=80)))
    assert lost == ["spec.port (through v2)"]
