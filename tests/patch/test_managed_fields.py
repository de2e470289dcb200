"""Entries of managedFields: in requests, limits, unchanged times, kubectl and the scale subresource."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.patch.managed_widgets import NOT_STATUS, STATUS, T0, T1, T2, entry, manager, owners, widget

from kubewright.patch import (
    ApplyConflict,
    FieldManager,
    from_scale,
    keep_times_if_unchanged,
    path_elements,
    to_scale,
)
from kubewright.patch.field_manager import LAST_APPLIED


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
