"""Tables of validation rules: paths, order, missing fields, unions, updates."""

from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind
from kubewright.api.values import names
from kubewright.controlplane.kinds import find_kind, kinds_of_group
from kubewright.controlplane.kinds.validation import (
    CONFIG_KEY,
    DNS_LABEL,
    PORT_NAME,
    Check,
    Entry,
    Enum,
    Errors,
    Forbidden,
    Format,
    Immutable,
    MapKeys,
    MaxItems,
    MaxLength,
    Members,
    Minimum,
    Range,
    ReportAt,
    Required,
    Rules,
    Switch,
    Union,
    Unique,
    UpdateRules,
    When,
)


def fields(table: Entry, obj: Any, path: str = "") -> list[str]:
    return [error.field for error in Rules(table)(obj, path)]


def texts(table: Entry, obj: Any) -> list[str]:
    return [str(error) for error in Rules(table)(obj)]


def test_errors_have_the_wording_of_kubernetes() -> None:
    table: Entry = {
        "replicas": Minimum(0),
        "mode": Enum("A", "B"),
        "port": Range(1, 65535),
        "items": MaxItems(1),
        "text": MaxLength(3),
        "fixed": Forbidden("not here"),
    }
    obj = {"replicas": -1, "mode": "C", "port": 0, "items": [1, 2], "text": "four", "fixed": "x"}
    assert texts(table, obj) == [
        "replicas: Invalid value: -1: must be greater than or equal to 0",
        'mode: Unsupported value: "C": supported values: "A", "B"',
        "port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "items: Too many: 2: must have at most 1 item",
        "text: Too long: may not be more than 3 bytes",
        "fixed: Forbidden: not here",
    ]
    assert not texts(table, {"replicas": 0, "mode": "A", "port": 1, "items": [1], "text": "abc"})


def test_items_of_a_list_are_visited_once_in_the_order_of_the_table() -> None:
    table: Entry = {
        "ports[*].name": [Required(), DNS_LABEL],
        "ports[*]": Unique("name"),
        "ports[*].port": Range(1, 65535, absent=0),
    }
    obj = {"ports": [{"name": "a"}, {"name": "a", "port": 1}, {"port": 2}]}
    assert fields(table, obj) == ["ports[0].port", "ports[1].name", "ports[2].name"]
    assert fields({"spec": table}, {"spec": obj}, "x") == [
        "x.spec.ports[0].port",
        "x.spec.ports[1].name",
        "x.spec.ports[2].name",
    ]


def test_values_without_the_required_format_are_not_compared() -> None:
    table: Entry = {"[*]": [{"name": PORT_NAME}, Unique("name", ignore_empty=True, only=PORT_NAME)]}
    found = Rules(table)([{"name": "-"}, {"name": "-"}, {}, {}, {"name": "a"}, {"name": "a"}], "ports")
    assert [error.field for error in found] == ["ports[0].name"] * 2 + ["ports[1].name"] * 2 + [
        "ports[5].name"
    ]


def test_a_missing_object_is_validated_like_an_empty_one_unless_it_is_optional() -> None:
    assert fields({"spec.type": Required()}, {}) == ["spec.type"]
    assert fields({"spec?.type": Required()}, {}) == []
    assert fields({"spec?.type": Required()}, {"spec": {}}) == ["spec.type"]
    assert fields({"spec.size": Minimum(1)}, {}) == []
    assert fields({"spec.size": Minimum(1, absent=0)}, {}) == ["spec.size"]
    assert fields({"spec": Required(pointer=True)}, {"spec": {}}) == []


def test_rules_after_required_apply_only_to_fields_that_are_set() -> None:
    table: Entry = {"name": [Required(), Format(names.check_dns_label, absent="")]}
    assert fields(table, {}) == fields(table, {"name": ""}) == ["name"]
    assert len(Rules(table)({})) == 1


def test_hooks_get_the_value_and_its_path() -> None:
    def check(value: Any, path: str) -> Errors:
        return [FieldError.invalid(path, value, "no")]

    assert texts({"": check, "a.b": check}, {"a": {"b": 1}})[1] == "a.b: Invalid value: 1: no"
    assert fields({"a": Check(check, absent="")}, {}) == ["a"]
    assert fields({"a": check}, {}) == []


def test_hooks_receive_the_context_of_an_enclosing_object() -> None:
    def check(value: int, path: str, limit: int) -> Errors:
        return [FieldError.invalid(path, value, "too high")] if value > limit else []

    inner = Rules({"items[*].size": Check(check, context=True)}, context=lambda spec: spec["limit"])
    obj = {"spec": {"limit": 2, "items": [{"size": 1}, {"size": 3}]}}
    assert fields({"spec": inner}, obj) == ["spec.items[1].size"]
    assert fields(inner, obj["spec"]) == ["items[1].size"]


def test_a_union_has_one_member() -> None:
    union = Union("a", "b", missing="one is required", excess="only one")
    assert texts(union, {}) == [": Required value: one is required"]
    assert fields({"x": union}, {"x": {"a": 1, "b": 1}}) == ["x.b"]
    assert fields({"x": Union("a", "b", excess="only one")}, {"x": {}}) == []


def test_the_first_member_of_a_union_is_validated() -> None:
    members = Members(
        {"exec": {"command": Required()}, "http": {"path": Required()}},
        missing="none",
        excess="only one",
        paths={"exec": "run"},
    )
    assert fields({"probe": members}, {"probe": {"http": {}, "exec": {}}}) == [
        "probe.run.command",
        "probe.http",
    ]
    assert fields({"probe": members}, {"probe": {"http": {"path": "/"}}}) == []
    assert fields({"probe": members}, {"probe": {}}) == ["probe"]


def test_switch_and_when_select_tables() -> None:
    table: Entry = [
        Switch("type", {"A": {"a": Required()}, "B": {"b": Required()}}),
        When(lambda obj: obj.get("strict"), {"c": Required()}),
    ]
    assert fields(table, {"type": "A"}) == ["a"]
    assert fields(table, {"type": "B", "strict": True}) == ["b", "c"]
    assert fields(table, {"type": "other"}) == []


def test_errors_can_be_reported_at_another_path() -> None:
    table: Entry = {
        "spec.taints[*].key": ReportAt("metadata.taints", Required()),
        "spec.names[*]": ReportAt("", DNS_LABEL),
        "spec.name": ReportAt(".", Required()),
    }
    obj = {"spec": {"taints": [{}], "names": ["-"]}}
    assert list(dict.fromkeys(fields(table, obj))) == ["metadata.taints", "spec.names", ""]


def test_keys_of_maps_are_checked_in_order() -> None:
    assert fields({"data": MapKeys(CONFIG_KEY)}, {"data": {"z z": "", "a a": "", "ok": ""}}) == [
        "data[a a]",
        "data[z z]",
    ]


def test_update_rules_apply_their_parts_in_order() -> None:
    rules = UpdateRules(
        {"spec.type": Immutable(), "spec.node": Immutable(once_set=True)},
        Rules({"spec.size": Minimum(0)}),
        lambda new, old: [FieldError.forbidden("spec", "no")],
    )
    old = {"spec": {"type": "A"}}
    found = rules({"spec": {"type": "B", "node": "n", "size": -1}}, old)
    assert [error.field for error in found] == ["spec.type", "spec.size", "spec"]
    assert [error.field for error in rules({"spec": {}}, {"spec": {"node": "n"}})] == ["spec.node", "spec"]


def test_every_module_of_a_group_declares_its_kinds() -> None:
    assert {"pods", "bindings", "services", "configmaps", "events"} <= kinds_of_group("").keys()
    assert {"deployments", "replicasets", "statefulsets"} <= kinds_of_group("apps").keys()
    assert not kinds_of_group("example.com")
    assert find_kind(GroupKind("example.com", "Gadget"), "gadgets").validate is None
    assert find_kind(GroupKind("", "Endpoints"), "endpoints").deprecation
