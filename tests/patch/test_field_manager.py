"""Field ownership on update and apply."""

from __future__ import annotations

from typing import Any

import pytest
from tests.patch.managed_widgets import T0, T1, T2, entry, manager, owners, widget

from kubewright.api.builtin.schemas import schema_for
from kubewright.api.errors import APIError, BadRequest
from kubewright.api.gvk import GroupVersionKind
from kubewright.patch import ApplyConflict, FieldManager, zero_value
from kubewright.schema.structural import Node


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


def test_order_of_merged_lists() -> None:
    fm = manager()
    live = fm.update(None, widget({"tags": ["a", "b", "c", "d"]}), "creator", T0)
    after = fm.apply(live, widget({"tags": ["d", "x", "b"]}), "one", T1)
    assert after["spec"]["tags"] == ["a", "c", "d", "x", "b"]


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
