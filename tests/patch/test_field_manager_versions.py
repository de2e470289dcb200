"""Field ownership across versions of a kind, and after changes of its schema."""

from __future__ import annotations

from typing import Any

import pytest
from tests.patch.managed_widgets import SCHEMA, STATUS, T0, T1, T2, TEXT, entry, manager, owners, widget

from kubewright.api.errors import APIError
from kubewright.api.kubernetes_version import KubernetesVersion, serving
from kubewright.patch import ApplyConflict, FieldManager, VersionNotServed
from kubewright.schema.structural import Node

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
    assert written["metadata"]["managedFields"] == live["metadata"]["managedFields"]
    with serving(KubernetesVersion.parse("1.36")):
        written = at("example.com/v2").update(seen, {**seen, "b": "2"}, "two", T1)
    assert "managedFields" not in written["metadata"]
