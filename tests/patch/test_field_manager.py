"""Field ownership on update and apply."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api.builtin_schemas import schema_for
from kubewright.api.errors import APIError, BadRequest
from kubewright.api.gvk import GroupVersionKind
from kubewright.patch import (
    ApplyConflict,
    FieldManager,
    FieldSet,
    VersionNotServed,
    from_scale,
    keep_times_if_unchanged,
    path_elements,
    to_scale,
    zero_value,
)
from kubewright.patch.field_manager import LAST_APPLIED
from kubewright.schema.structural import Node

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(seconds=1)
T2 = T0 + timedelta(seconds=2)
TEXT = {"type": "string"}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "properties": {
                            "port": {"type": "integer"},
                            "protocol": {**TEXT, "default": "TCP"},
                            "name": TEXT,
                        },
                    },
                },
                "plain": {"type": "array", "items": TEXT},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": TEXT,
                },
                "fine": {"type": "object", "additionalProperties": TEXT},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": TEXT}},
    },
}
NODE = Node(SCHEMA)
STATUS = FieldSet.of(("f:status",))
NOT_STATUS = FieldSet.of(("f:spec",), ("f:metadata",))


def manager(node: Node | None = NODE, **options: Any) -> FieldManager:
    return FieldManager("example.com/v1", "Widget", node, **options)


def widget(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    if spec is not None:
        obj["spec"] = spec
    return {**obj, **more}


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def entry(obj: dict[str, Any], name: str) -> Any:
    [found] = [entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == name]
    return found


def test_apply_creates_and_owns_its_fields() -> None:
    made = manager().apply(
        None,
        widget({"tags": ["x"], "ports": [{"port": 80}], "plain": [], "whole": {}, "fine": {"k": "1"}}),
        "one",
        T0,
    )
    assert entry(made, "one") == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "example.com/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:spec": {
                "f:fine": {"f:k": {}},
                "f:plain": {},
                "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
                "f:tags": {'v:"x"': {}},
                "f:whole": {},
            }
        },
    }


def test_sets_keyed_lists_and_granular_maps_merge() -> None:
    fm = manager()
    first = {
        "tags": ["x", "y"],
        "ports": [{"port": 80, "protocol": "TCP", "name": "http"}],
        "plain": ["p"],
        "whole": {"k": "1"},
        "fine": {"k": "1"},
    }
    one = fm.apply(None, widget(first), "one", T0)
    two = fm.apply(
        one,
        widget({"tags": ["y", "z"], "ports": [{"port": 80, "protocol": "UDP"}], "fine": {"l": "2"}}),
        "two",
        T1,
    )
    assert two["spec"] == {
        "tags": ["x", "y", "z"],
        "ports": [{"port": 80, "protocol": "TCP", "name": "http"}, {"port": 80, "protocol": "UDP"}],
        "plain": ["p"],
        "whole": {"k": "1"},
        "fine": {"k": "1", "l": "2"},
    }
    three = fm.apply(two, widget({"tags": ["x"], "ports": [], "whole": {"k": "1"}}), "one", T2)
    assert three["spec"] == {
        "tags": ["x", "y", "z"],
        "ports": [{"port": 80, "protocol": "UDP"}],
        "whole": {"k": "1"},
        "fine": {"l": "2"},
    }
    assert owners(three)["one"] == {"f:spec": {"f:tags": {'v:"x"': {}}, "f:whole": {}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"plain": ["p", "q"]}, ".spec.plain"), ({"whole": {"l": "2"}}, ".spec.whole")],
)
def test_atomic_fields_conflict_as_a_whole(spec: dict[str, Any], field: str) -> None:
    fm = manager()
    one = fm.apply(None, widget({"plain": ["p"], "whole": {"k": "1"}}), "one", T0)
    with pytest.raises(ApplyConflict) as caught:
        fm.apply(one, widget(spec), "two", T1)
    assert caught.value.message == f'Apply failed with 1 conflict: conflict with "one": {field}'
    assert caught.value.to_status()["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": field}]
    }


def test_several_conflicts_are_grouped_by_owner() -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1", "b": "2"}}), "one", T0)
    live = fm.update(live, {**live, "spec": {**live["spec"], "replicas": 1}}, "scaler", T0)
    with pytest.raises(ApplyConflict) as caught:
        fm.apply(live, widget({"fine": {"a": "x", "b": "x", "c": "x"}, "replicas": 2}), "two", T1)
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.fine.a\n- .spec.fine.b\n'
        'conflicts with "scaler" using example.com/v1:\n- .spec.replicas'
    )


def test_force_transfers_ownership() -> None:
    fm = manager()
    one = fm.apply(None, widget({"fine": {"a": "1", "b": "2"}}), "one", T0)
    forced = fm.apply(one, widget({"fine": {"a": "2"}}), "two", T1, force=True)
    assert forced["spec"]["fine"] == {"a": "2", "b": "2"}
    assert owners(forced) == {
        "one": {"f:spec": {"f:fine": {"f:b": {}}}},
        "two": {"f:spec": {"f:fine": {"f:a": {}}}},
    }
    after = fm.apply(forced, widget({"fine": {"b": "2"}}), "one", T2)
    assert after == forced


def test_shared_fields_are_removed_with_their_last_owner() -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1", "b": "2"}}), "one", T0)
    shared = fm.apply(live, widget({"fine": {"a": "1"}}), "two", T1)
    assert shared["spec"] == live["spec"]
    assert "time" not in entry(shared, "two"), "the object did not change"
    with pytest.raises(ApplyConflict):
        fm.apply(shared, widget({"fine": {"a": "changed"}}), "one", T2)
    left = fm.apply(shared, widget({"fine": {"b": "2"}}), "one", T2)
    assert left["spec"]["fine"] == {"a": "1", "b": "2"}
    gone = fm.apply(left, widget(), "two", T2)
    assert gone["spec"]["fine"] == {"b": "2"}
    assert set(owners(gone)) == {"one"}, "an empty apply owns nothing"


def test_apply_without_changes() -> None:
    fm = manager()
    config = widget({"fine": {"a": "1"}, "tags": ["x"], "ports": [{"port": 1}]})
    live = fm.apply(None, config, "one", T0)
    assert fm.apply(live, config, "one", T1) == live


def test_update_takes_ownership_of_changes() -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1", "b": "2"}, "tags": ["x"]}), "one", T0)
    new = {**live, "spec": {"fine": {"a": "2", "b": "2"}, "tags": ["y"]}}
    after = fm.update(live, new, "editor", T1)
    assert owners(after) == {
        "one": {"f:spec": {"f:fine": {"f:b": {}}}},
        "editor": {"f:spec": {"f:fine": {"f:a": {}}, "f:tags": {'v:"y"': {}}}},
    }
    assert [e["operation"] for e in after["metadata"]["managedFields"]] == ["Apply", "Update"]


def test_create_owns_containers() -> None:
    made = manager().update(None, widget({"fine": {"a": "1"}, "tags": ["x"]}), "creator", T0)
    assert owners(made) == {
        "creator": {"f:spec": {".": {}, "f:fine": {".": {}, "f:a": {}}, "f:tags": {".": {}, 'v:"x"': {}}}}
    }


def test_update_without_change_keeps_entries_and_times() -> None:
    fm = manager()
    live = fm.update(None, widget({"replicas": 1}), "creator", T0)
    assert fm.update(live, widget({"replicas": 1}), "other", T1) == live


def test_unchanged_entries_are_the_same_objects() -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1"}}), "one", T0)
    after = fm.update(live, {**live, "spec": {**live["spec"], "replicas": 3}}, "scaler", T1)
    assert entry(after, "one") is entry(live, "one")


def test_updater_without_fields_is_dropped() -> None:
    fm = manager()
    live = fm.update(None, widget({"replicas": 1}), "first", T0)
    after = fm.update(live, widget({"replicas": 2}), "second", T1)
    assert owners(after) == {"first": {"f:spec": {}}, "second": {"f:spec": {"f:replicas": {}}}}
    last = fm.update(after, widget(), "third", T2)
    assert "managedFields" not in last["metadata"]


def test_ignored_fields_belong_to_the_other_endpoint() -> None:
    version = "example.com/v1"
    main = manager(ignored={version: STATUS})
    status = manager(subresource="status", ignored={version: NOT_STATUS})
    live = main.update(None, widget({"replicas": 1}, status={"phase": "x"}), "creator", T0)
    assert owners(live) == {"creator": {"f:spec": {".": {}, "f:replicas": {}}}}
    after = status.update(
        live, {**live, "spec": {"replicas": 2}, "status": {"phase": "New"}}, "controller", T1
    )
    assert entry(after, "controller")["subresource"] == "status"
    assert owners(after)["controller"] == {"f:status": {"f:phase": {}}}
    applied = status.apply(after, widget({"replicas": 9}, status={"phase": "New"}), "ssa", T2)
    assert owners(applied)["ssa"] == {"f:status": {"f:phase": {}}}


def test_before_first_apply_owns_existing_fields() -> None:
    fm = manager()
    live = widget({"fine": {"a": "1"}}, metadata={"name": "a", "uid": "u"})
    with pytest.raises(ApplyConflict) as caught:
        fm.apply(live, widget({"fine": {"a": "2"}}), "one", T0)
    assert caught.value.causes[0]["message"] == 'conflict with "before-first-apply" using example.com/v1'
    after = fm.apply(live, widget({"fine": {"b": "2"}}), "one", T0)
    assert owners(after)["before-first-apply"] == {"f:spec": {".": {}, "f:fine": {".": {}, "f:a": {}}}}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_empty_list_or_entry_resets_managed_fields(reset: list[Any]) -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1"}}), "one", T0)
    after = fm.update(live, {**live, "metadata": {"name": "a", "managedFields": reset}}, "x", T1)
    assert "managedFields" not in after["metadata"]
    assert "managedFields" not in fm.update(after, widget({"replicas": 1}), "x", T1)["metadata"]


def test_valid_entries_of_a_request_replace_stored_ones() -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1"}, "ports": [{"port": 1, "protocol": "UDP"}]}), "one", T0)
    sent = [
        {
            "manager": "edited",
            "operation": "Update",
            "apiVersion": "example.com/v1",
            "time": "2026-01-01T02:00:00+01:00",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:ports": {'k:{"protocol": "UDP", "port": 1.0}': {".": {}}}, "x:?": {}}},
        }
    ]
    after = fm.update(live, {**live, "metadata": {"name": "a", "managedFields": sent}}, "x", T1)
    assert owners(after) == {"edited": {"f:spec": {"f:ports": {'k:{"port":1,"protocol":"UDP"}': {}}}}}
    assert entry(after, "edited")["time"] == "2026-01-01T01:00:00Z"
    sent[0]["operation"] = "Frob"
    kept = fm.update(live, {**live, "metadata": {"name": "a", "managedFields": sent}}, "x", T1)
    assert owners(kept) == owners(live)


def test_duplicates_are_allowed_in_live_lists_only() -> None:
    fm = manager()
    live = fm.update(None, widget({"tags": ["x", "x", "y"]}), "creator", T0)
    assert owners(live)["creator"]["f:spec"]["f:tags"] == {".": {}, 'v:"x"': {}, 'v:"y"': {}}
    after = fm.apply(live, widget({"tags": ["y", "z"]}), "one", T1)
    assert after["spec"]["tags"] == ["x", "x", "y", "z"]
    with pytest.raises(APIError) as caught:
        fm.apply(live, widget({"tags": ["x", "x"]}), "one", T1)
    assert caught.value.message == (
        "failed to create typed patch object (/a; example.com/v1, Kind=Widget): "
        '.spec.tags: duplicate entries for key [="x"]'
    )
    assert (caught.value.status_code, caught.value.status_reason) == (500, "")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nosuch": 1}, ".spec.nosuch: field not declared in schema"),
        ({"replicas": "many"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"fine": {"a": 1}}, ".spec.fine.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"fine": "x"}, ".spec.fine: expected map, got &{x}"),
        ({"plain": {"a": 1}}, ".spec.plain: expected list, got &{map[a:1]}"),
        ({"ports": [None]}, ".spec.ports: element 0: associative list with keys may not have a null element"),
        (
            {"tags": [None]},
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
        ),
    ],
)
def test_configurations_that_do_not_match_the_schema(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(APIError) as caught:
        manager().apply(None, widget(spec), "one", T0)
    assert caught.value.message.partition("): ")[2] == message


def test_request_errors() -> None:
    fm = FieldManager("v1", "ConfigMap", None)
    meta = {"name": "a"}
    with pytest.raises(BadRequest, match=r"^invalid object type: /v1, Kind=$"):
        fm.apply(None, {"apiVersion": "v1", "metadata": meta}, "one", T0)
    with pytest.raises(BadRequest, match=r"^invalid object type: /, Kind=ConfigMap$"):
        fm.apply(None, {"kind": "ConfigMap", "metadata": meta}, "one", T0)
    with pytest.raises(BadRequest, match=r"^metadata.managedFields must be nil$"):
        fm.apply(
            None,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "managedFields": []}},
            "one",
            T0,
        )


def test_regions_without_schema_are_deduced() -> None:
    fm = manager()
    one = fm.apply(None, widget({"free": {"m": {"a": 1}, "l": [1]}}), "one", T0)
    two = fm.apply(one, widget({"free": {"m": {"b": 2}}}), "two", T1)
    assert two["spec"]["free"] == {"m": {"a": 1, "b": 2}, "l": [1]}
    with pytest.raises(ApplyConflict, match=r"\.spec\.free\.l$"):
        fm.apply(two, widget({"free": {"l": [2]}}), "two", T1)


def test_update_entries_are_capped() -> None:
    fm = manager()
    live = fm.update(None, widget({"fine": {"base": "0"}}), "m-base", T0)
    for number in range(12):
        fine = {**live["spec"]["fine"], f"k{number}": "1"}
        live = fm.update(live, widget({"fine": fine}), f"m{number:02}", T0 + timedelta(seconds=number + 1))
    names = [e["manager"] for e in live["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{number:02}" for number in range(3, 12))]
    assert owners(live)["ancient-changes"] == {
        "f:spec": {".": {}, "f:fine": {".": {}, "f:base": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}}
    }
    assert entry(live, "ancient-changes")["time"] == "2026-01-01T00:00:03Z"


V2 = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "note": TEXT}}},
}


def convert(obj: dict[str, Any], to: str) -> dict[str, Any]:
    if to not in ("example.com/v1", "example.com/v2"):
        raise VersionNotServed(to)
    spec = dict(obj.get("spec") or {})
    old, new = ("replicas", "size") if to.endswith("v2") else ("size", "replicas")
    if old in spec:
        spec[new] = spec.pop(old)
    return {**obj, "apiVersion": to, **({"spec": spec} if "spec" in obj else {})}


def versions(version: str) -> FieldManager:
    v1 = Node(
        {
            **SCHEMA,
            "properties": {
                "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "note": TEXT}}
            },
        }
    )
    nodes = {"example.com/v1": v1, "example.com/v2": Node(V2)}

    def node_for(wanted: str) -> Node:
        if wanted not in nodes:
            raise VersionNotServed(wanted)
        return nodes[wanted]

    return FieldManager(version, "Widget", nodes[version], node_for=node_for, convert=convert)


def test_owners_in_other_versions() -> None:
    v1, v2 = versions("example.com/v1"), versions("example.com/v2")
    live = v1.apply(None, widget({"replicas": 1, "note": "n"}), "one", T0)
    in_v2 = convert(live, "example.com/v2")
    config = {**widget({"size": 2}), "apiVersion": "example.com/v2"}
    with pytest.raises(ApplyConflict, match=r"\.spec\.replicas$"):
        v2.apply(in_v2, config, "two", T1)
    forced = v2.apply(in_v2, config, "two", T1, force=True)
    assert owners(forced) == {"one": {"f:spec": {"f:note": {}}}, "two": {"f:spec": {"f:size": {}}}}
    moved = v2.apply(forced, {**widget({"note": "n"}), "apiVersion": "example.com/v2"}, "one", T2)
    assert moved["spec"] == {"size": 2, "note": "n"}
    assert entry(moved, "one")["apiVersion"] == "example.com/v2"


def test_pruning_in_the_version_of_the_last_apply() -> None:
    v1, v2 = versions("example.com/v1"), versions("example.com/v2")
    live = v1.apply(None, widget({"replicas": 1, "note": "n"}), "one", T0)
    after = v2.apply(
        convert(live, "example.com/v2"), {**widget({"note": "n"}), "apiVersion": "example.com/v2"}, "one", T1
    )
    assert after["spec"] == {"note": "n"}


def test_owners_of_unserved_versions_are_dropped() -> None:
    fm = versions("example.com/v1")
    live = fm.update(None, widget({"replicas": 1}), "creator", T0)
    old = {**live["metadata"]["managedFields"][0], "manager": "old", "apiVersion": "example.com/v0"}
    live["metadata"]["managedFields"].append(old)
    after = fm.update(live, {**live, "spec": {"replicas": 2}}, "editor", T1)
    assert set(owners(after)) == {"creator", "editor"}


def test_field_that_became_atomic_is_owned_as_a_whole() -> None:
    fm = manager()
    live = fm.apply(None, widget({"fine": {"a": "1"}, "tags": ["x"]}), "one", T0)
    spec = {**SCHEMA["properties"]["spec"]}
    spec["properties"] = {
        **spec["properties"],
        "fine": {**spec["properties"]["fine"], "x-kubernetes-map-type": "atomic"},
        "tags": {"type": "array", "items": TEXT},
    }
    atomic = manager(Node({"type": "object", "properties": {"spec": spec}}))
    after = atomic.update(live, {**live, "spec": {**live["spec"], "replicas": 1}}, "x", T1)
    assert owners(after)["one"] == {"f:spec": {"f:fine": {}, "f:tags": {}}}


def kubectl_live() -> dict[str, Any]:
    fm = manager()
    annotations = {
        LAST_APPLIED: '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},'
        '"spec":{"fine":{"a":"1","b":"was"}}}'
    }
    obj = widget({"fine": {"a": "1", "b": "2"}}, metadata={"name": "a", "annotations": annotations})
    return fm.update(None, obj, "kubectl-client-side-apply", T0)


def test_kubectl_takes_over_from_client_side_apply() -> None:
    fm = manager()
    after = fm.apply(kubectl_live(), widget({"fine": {"a": "new", "x": "<"}}), "kubectl", T1)
    assert after["spec"]["fine"]["a"] == "new"
    assert after["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},'
        '"spec":{"fine":{"a":"new","x":"\\u003c"}}}\n'
    )
    with pytest.raises(ApplyConflict, match=r"1 conflict: .*\.spec\.fine\.b$"):
        fm.apply(kubectl_live(), widget({"fine": {"a": "new", "b": "new"}}), "kubectl", T1)
    with pytest.raises(ApplyConflict):
        fm.apply(kubectl_live(), widget({"fine": {"a": "new"}}), "other", T1)


def test_scale_maps_owners_of_replicas() -> None:
    fm = manager()
    paths = {"example.com/v1": path_elements.fields_path("spec", "replicas")}
    live = fm.apply(None, widget({"replicas": 1, "plain": ["x"]}), "one", T0)
    parent = live["metadata"]["managedFields"]
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", "managedFields": to_scale(parent, paths)},
    }
    assert scale["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}  # type: ignore[index]
    scaler = FieldManager("autoscaling/v1", "Scale", None, subresource="scale")
    scaled = scaler.update({**scale, "spec": {"replicas": 1}}, {**scale, "spec": {"replicas": 2}}, "hpa", T1)
    after = from_scale(parent, scaled["metadata"]["managedFields"], paths, "example.com/v1")
    assert [(e["manager"], e["fieldsV1"], e.get("subresource")) for e in after] == [
        ("one", {"f:spec": {"f:plain": {}}}, None),
        ("hpa", {"f:spec": {"f:replicas": {}}}, "scale"),
    ]


def test_changed_times_are_ignored() -> None:
    live = manager().apply(None, widget({"replicas": 1}), "one", T0)
    entries = [{**e, "time": "2026-02-02T00:00:00Z"} for e in live["metadata"]["managedFields"]]
    touched = {**live, "metadata": {**live["metadata"], "managedFields": entries}}
    assert keep_times_if_unchanged(live, touched) is live
    changed = {**touched, "spec": {"replicas": 2}}
    assert keep_times_if_unchanged(live, changed) is changed


def test_order_of_merged_lists() -> None:
    fm = manager()
    live = fm.update(None, widget({"tags": ["a", "b", "c", "d"]}), "creator", T0)
    after = fm.apply(live, widget({"tags": ["d", "x", "b"]}), "one", T1)
    assert after["spec"]["tags"] == ["a", "c", "d", "x", "b"]


def test_fields_that_only_one_version_ignores() -> None:
    nodes = Node(SCHEMA)
    main = manager(
        nodes,
        ignored={"example.com/v1": STATUS},
        node_for=lambda _: nodes,
        convert=lambda obj, version: {**obj, "apiVersion": version},
    )
    status = FieldManager("example.com/v2", "Widget", nodes, subresource="status")
    live = main.update(None, widget({"replicas": 1}), "creator", T0)
    in_v2 = {**live, "apiVersion": "example.com/v2"}
    report = {**widget(status={"phase": "A"}), "apiVersion": "example.com/v2"}
    live = {**status.apply(in_v2, report, "c", T0), "apiVersion": "example.com/v1"}
    with pytest.raises(ApplyConflict, match=r'"c" with subresource "status": \.status\.phase$'):
        main.apply(live, widget(status={"phase": "B"}), "one", T1)


def test_structs_of_built_in_types_have_no_owner() -> None:
    node = Node(*schema_for(GroupVersionKind("apps", "v1", "Deployment")))
    zero = zero_value(node)
    assert zero["spec"] == {
        "selector": None,
        "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": None}},
    }
    fm = FieldManager("apps/v1", "Deployment", node, empty=zero)
    made = fm.update(
        None,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "labels": {"a": "b"}},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"rollingUpdate": {"maxSurge": 1}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]
                    },
                },
            },
        },
        "creator",
        T0,
    )
    assert owners(made)["creator"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:name": {},
                            "f:ports": {
                                ".": {},
                                'k:{"containerPort":80,"protocol":"TCP"}': {
                                    ".": {},
                                    "f:containerPort": {},
                                    "f:protocol": {},
                                },
                            },
                        }
                    }
                },
            },
        },
    }
    after = fm.update(made, {**made, "status": {"replicas": 1}}, "controller", T1)
    assert owners(after)["controller"] == {"f:status": {"f:replicas": {}}}


def test_owner_in_a_version_without_conversion() -> None:
    nodes = {
        "example.com/v1": Node({"type": "object", "properties": {"a": TEXT}}),
        "example.com/v2": Node({"type": "object", "properties": {"a": TEXT, "b": TEXT}}),
    }

    def at(version: str) -> FieldManager:
        return FieldManager(
            version,
            "Widget",
            nodes[version],
            node_for=nodes.__getitem__,
            convert=lambda obj, to: {**obj, "apiVersion": to},
        )

    def widget(version: str, **fields: str) -> dict[str, Any]:
        return {"apiVersion": version, "kind": "Widget", "metadata": {"name": "w"}, **fields}

    live = at("example.com/v1").apply(None, widget("example.com/v1", a="1"), "one", T0)
    with pytest.raises(APIError, match=r"failed to convert new object: \.b: field not declared in schema"):
        at("example.com/v2").apply(
            {**live, "apiVersion": "example.com/v2"}, widget("example.com/v2", b="2"), "two", T1
        )
    seen = {**live, "apiVersion": "example.com/v2"}
    written = at("example.com/v2").update(seen, {**seen, "b": "2"}, "two", T1)
    assert "managedFields" not in written["metadata"]
