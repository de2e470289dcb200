"""Conversion by rules for fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import strategies as st

from kubewright.api import CustomResource, ObjectMeta, Spec, resource
from kubewright.api.encoding import codec
from kubewright.api.markers import Cel, ListMap, MaxLen, MinLen, Pattern, mark
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


class RouteV1(Spec):
    host: str
    weight: int = 1


class RouteV2(Spec):
    host: str
    weight: int = 5
    timeout: int | None = None


class GateV1Spec(Spec):
    routes: list[RouteV1] | None = None
    backends: Annotated[list[RouteV1], ListMap("host")] | None = None
    by_name: dict[str, RouteV1] | None = None
    comment: str | None = None


class GateV2Spec(Spec):
    class_name: str = "standard"
    routes: list[RouteV2] | None = None
    backends: Annotated[list[RouteV2], ListMap("host")] | None = None
    by_name: dict[str, RouteV2] | None = None


@resource(group="rules.example.com", version="v1", kind="Gate")
class GateV1(CustomResource[GateV1Spec, None]):
    """First version."""


@resource(group="rules.example.com", version="v2", kind="Gate", storage=True, hub=True)
class GateV2(CustomResource[GateV2Spec, None]):
    """Second version."""


@pytest.fixture
def gates() -> Converter:
    converter = Converter(GateV2)
    converter.spoke(GateV1, rules=())
    return converter


def gate(version: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"rules.example.com/{version}",
        "kind": "Gate",
        "metadata": {"name": "a"},
        "spec": spec,
    }


ROUTES = [
    {"host": "a", "weight": 1, "timeout": 10},
    {"host": "b", "weight": 2, "timeout": 20},
    {"host": "c", "weight": 3},
]
VISIBLE = [{"host": "a", "weight": 1}, {"host": "b", "weight": 2}, {"host": "c", "weight": 3}]


def test_fields_that_no_rule_names_survive_a_write_in_the_spoke(gates: Converter) -> None:
    old = convert(gates, gate("v2", className="gold", routes=ROUTES), "v1")
    assert old["spec"] == {"routes": VISIBLE}
    old["spec"]["comment"] = "changed"
    new = convert(gates, old, "v2")
    assert new["spec"] == {"className": "gold", "routes": ROUTES}
    assert set(new["metadata"]["annotations"]) == {annotation_of("v1")}
    assert convert(gates, new, "v1")["spec"] == {"routes": VISIBLE, "comment": "changed"}


@pytest.mark.parametrize("field", ["routes", "backends"])
def test_hidden_fields_of_elements_survive_changes_of_the_list(gates: Converter, field: str) -> None:
    def written(*routes: dict[str, Any]) -> Any:
        old = convert(gates, gate("v2", **{field: ROUTES}), "v1")
        assert old["spec"][field] == VISIBLE
        old["spec"][field] = list(routes)
        return convert(gates, old, "v2")["spec"][field]

    a, b, c = VISIBLE
    new = {"host": "n", "weight": 1}
    assert written(b, c) == ROUTES[1:]
    assert written(new, a, b, c) == [new, *ROUTES]
    assert written(a, new, c, b) == [ROUTES[0], new, ROUTES[2], ROUTES[1]]
    assert written(a, {**b, "weight": 9}, c, new) == [ROUTES[0], {**ROUTES[1], "weight": 9}, ROUTES[2], new]
    assert written() == []


def test_hidden_fields_of_map_entries_survive_changes_of_the_map(gates: Converter) -> None:
    old = convert(gates, gate("v2", byName={"x": ROUTES[0], "y": ROUTES[1]}), "v1")
    assert old["spec"]["byName"] == {"x": VISIBLE[0], "y": VISIBLE[1]}
    old["spec"]["byName"]["x"]["weight"] = 7
    old["spec"]["byName"]["z"] = {"host": "n"}
    del old["spec"]["byName"]["y"]
    new = convert(gates, old, "v2")
    assert new["spec"]["byName"] == {"x": {**ROUTES[0], "weight": 7}, "z": {"host": "n", "weight": 1}}


def test_a_converted_object_has_the_defaults_of_its_version(gates: Converter) -> None:
    assert convert(gates, gate("v1"), "v2")["spec"] == {"className": "standard"}
    assert convert(gates, gate("v1", routes=[{"host": "a"}]), "v2")["spec"]["routes"] == [
        {"host": "a", "weight": 1}
    ]


def test_functions_that_build_objects_return_complete_ones() -> None:
    converter = Converter(ShopV2)
    converter.spoke(
        ShopV1,
        to_hub=lambda old: ShopV2(spec=ShopV2Spec(scaling=Scaling(replicas=old.spec.size))),
        from_hub=lambda new: ShopV1(spec=ShopV1Spec(size=new.spec.scaling.replicas)),
    )
    new = convert(converter, ShopV1(metadata=ObjectMeta(name="a"), spec=ShopV1Spec(size=1)), "v2")
    assert new["spec"] == {"scaling": {"replicas": 1}, "mode": "Fast", "strategy": "Rolling"}
    assert convert(converter, new, "v1")["spec"] == {"size": 1, "mode": "fast"}


def test_annotations_of_earlier_releases_are_read(gates: Converter) -> None:
    old = gate("v1")
    old["metadata"]["annotations"] = {
        "conversion.kubewright.io/hub-fields": '[[["spec","className"],"standard","gold"]]'
    }
    assert convert(gates, old, "v2")["spec"] == {"className": "gold"}


def test_a_moved_field_does_not_collide_with_a_field_of_that_name() -> None:
    class OldSpec(Spec):
        size: int | None = None

    class NewSpec(Spec):
        size: str | None = None
        replicas: int | None = None

    @resource(group="rules.example.com", version="v1", kind="Disk")
    class OldDisk(CustomResource[OldSpec, None]):
        """First version."""

    @resource(group="rules.example.com", version="v2", kind="Disk", storage=True)
    class Disk(CustomResource[NewSpec, None]):
        """Second version."""

    converter = Converter(Disk)
    converter.spoke(OldDisk, rules=(Move("spec.size", "spec.replicas"),))
    new = Disk(metadata=ObjectMeta(name="a"), spec=NewSpec(size="10Gi"))
    assert convert(converter, new, "v1")["spec"] == {}
    check_conversion(converter)


def test_the_check_covers_every_value_of_every_field() -> None:
    class OldSpec(Spec):
        color: str

    class NewSpec(Spec):
        color: Literal[*COLORS]  # type: ignore[valid-type]
        fields: Annotated[str, Pattern("^[a-z]{3}-[0-9]{4}$")] | None = None

    @resource(group="rules.example.com", version="v1", kind="Paint")
    class OldPaint(CustomResource[OldSpec, None]):
        """First version."""

    @resource(group="rules.example.com", version="v2", kind="Paint", storage=True)
    class Paint(CustomResource[NewSpec, None]):
        """Second version."""

    def to_hub(old: OldPaint) -> Paint:
        number = old.metadata.annotations or {}
        return Paint(spec=NewSpec(color=old.spec.color, fields=number.get("fields")))

    def from_hub(new: Paint) -> OldPaint:
        color = "c1" if new.spec.color == COLORS[-1] else new.spec.color
        kept = {} if new.spec.fields is None else {"fields": new.spec.fields}
        return OldPaint(metadata=ObjectMeta(annotations=kept), spec=OldSpec(color=color))

    converter = Converter(Paint)
    converter.spoke(OldPaint, to_hub=to_hub, from_hub=from_hub)
    with pytest.raises(AssertionError, match=r"lost in a round trip: spec\.color \(through v1\)"):
        check_conversion(converter, examples=1)


COLORS = tuple(f"c{number}" for number in range(60))


def test_a_field_without_valid_examples_fails_the_check() -> None:
    @mark(Cel("!has(self.code) || self.code.startsWith('sku-')"))
    class CodeSpec(Spec):
        code: Annotated[str, MinLen(8), MaxLen(12)] | None = None

    @resource(group="rules.example.com", version="v1", kind="Code")
    class OldCode(CustomResource[CodeSpec, None]):
        """First version."""

    @resource(group="rules.example.com", version="v2", kind="Code", storage=True)
    class Code(CustomResource[CodeSpec, None]):
        """Second version."""

    converter = Converter(Code)
    converter.spoke(OldCode, rules=())
    with pytest.raises(AssertionError, match=r"no example of spec\.code is valid in v2; pass a strategy"):
        check_conversion(converter, examples=1)
    check_conversion(converter, fields={"spec.code": st.sampled_from(["sku-0001", "sku-0002"])}, examples=3)
    with pytest.raises(ValueError, match=r"no version has a field spec\.sku"):
        check_conversion(converter, fields={"spec.sku": st.just("a")})
