"""Strategic merge patch of built-in types: directives, lists, diffs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api.builtin.schemas import schema_for
from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind
from kubewright.patch import MalformedPatch, PatchConflict, strategic_merge_diff, strategic_merge_patch
from kubewright.patch.strategic_merge_patch import ListOfLists
from kubewright.schema.structural import Node

DEPLOYMENT = Node(*schema_for(GroupVersionKind("apps", "v1", "Deployment")))
POD = Node(*schema_for(GroupVersionKind("", "v1", "Pod")))
SERVICE = Node(*schema_for(GroupVersionKind("", "v1", "Service")))


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def patched(live: dict[str, Any], patch: dict[str, Any], node: Node = POD) -> Any:
    before = copy.deepcopy((live, patch))
    result = strategic_merge_patch.apply(live, patch, node)
    assert (live, patch) == before, "inputs stay as they were"
    return result


def containers(*items: dict[str, Any], **directives: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(items), **directives}}


WEB = {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
SIDE = {"name": "side", "image": "side:1"}
LIVE = containers(WEB, SIDE)


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        (containers({"name": "web", "image": "web:2"}), [{**WEB, "image": "web:2"}, SIDE]),
        (containers({"name": "side", "$patch": "delete"}), [WEB]),
        (containers({"name": "new"}), [{"name": "new"}, WEB, SIDE]),
        (containers({"name": "side"}, {"name": "web"}), [SIDE, WEB]),
        (containers({"$patch": "replace"}, {"name": "only"}), [{"name": "only"}]),
        (
            containers(
                {"name": "web", "env": [{"name": "A", "$patch": "delete"}, {"name": "C", "value": "3"}]}
            ),
            [{**WEB, "env": [{"name": "C", "value": "3"}, {"name": "B", "value": "2"}]}, SIDE],
        ),
        (
            containers({"name": "web", "env": [{"$patch": "replace"}, {"name": "Z", "value": "z"}]}),
            [{**WEB, "env": [{"name": "Z", "value": "z"}]}, SIDE],
        ),
        (containers({"name": "web", "env": None}), [{"name": "web", "image": "web:1"}, SIDE]),
        (
            containers({"name": "web", "$patch": "replace", "image": "x"}),
            [],
        ),
        ({"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}}, [SIDE, WEB]),
        (
            containers(
                {"name": "new"}, **{"$setElementOrder/containers": [{"name": "web"}, {"name": "new"}]}
            ),
            [WEB, {"name": "new"}, SIDE],
        ),
    ],
)
def test_lists_of_objects(patch: dict[str, Any], result: list[Any]) -> None:
    assert patched(LIVE, patch)["spec"]["containers"] == result


def test_maps() -> None:
    live = pod(nodeSelector={"disk": "ssd", "zone": "a"}, dnsPolicy="Default")
    assert patched(live, pod(nodeSelector={"zone": None, "new": "1"}))["spec"]["nodeSelector"] == {
        "disk": "ssd",
        "new": "1",
    }
    assert patched(live, pod(nodeSelector={"$patch": "replace", "only": "1"})) == pod(
        nodeSelector={"only": "1"}, dnsPolicy="Default"
    )
    assert patched(live, pod(nodeSelector={"$patch": "delete"}))["spec"]["nodeSelector"] == {}
    assert patched(live, pod(dnsPolicy={"type": "changed"}))["spec"]["dnsPolicy"] == {"type": "changed"}
    assert patched({}, {"metadata": {"labels": {"a": None, "b": "1"}, "x": {"$patch": "delete"}}}) == {
        "metadata": {"labels": {"b": "1"}}
    }


def test_lists_of_scalars() -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}

    def finalizers(**patch: Any) -> Any:
        return patched(live, {"metadata": patch})["metadata"]["finalizers"]

    assert finalizers(finalizers=["c", "a"]) == ["c", "a", "b"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["a", "z"]}) == ["b"]
    assert finalizers(**{"$setElementOrder/finalizers": ["b", "a"]}) == ["b", "a"]
    ordered = finalizers(finalizers=["c"], **{"$setElementOrder/finalizers": ["c", "b"]})
    assert [name for name in ordered if name != "a"] == ["c", "b"]
    tolerations = patched(pod(tolerations=[{"key": "a"}]), pod(tolerations=[{"key": "b"}]))
    assert tolerations["spec"]["tolerations"] == [{"key": "b"}], "no merge strategy: replaced"


def test_retain_keys() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patched(live, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}
    patch["spec"]["strategy"]["rollingUpdate"] = {}  # type: ignore[assignment]
    with pytest.raises(MalformedPatch, match=r"^invalid patch format of retainKeys$"):
        patched(live, patch, DEPLOYMENT)
    volumes = pod(volumes=[{"name": "v", "emptyDir": {}}])
    switch = pod(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}])
    assert patched(volumes, switch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (containers({"image": "x:1"}), 500, "map: map[image:x:1] does not contain declared merge key: name"),
        (
            containers({"name": "web", "$patch": "frob"}),
            500,
            "unknown patch type: frob in map: map[$patch:frob name:web]",
        ),
        (
            containers({"name": "web", "$patch": "merge"}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$deleteFromPrimitiveList": []}}, 400, "invalid patch format of primitive list"),
        ({"spec": {"$setElementOrder": []}}, 400, "invalid patch format of setElementOrder list"),
        (
            {"spec": {"$setElementOrder/containers": {}}},
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (containers(SIDE, "x"), 500, None),  # type: ignore[arg-type]
        (containers([]), 422, "the server rejected our request due to an error in our request"),  # type: ignore[arg-type]
        (
            containers(
                {"name": "web"},
                {"name": "side"},
                **{"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]},
            ),
            500,
            "The order in patch list:\n[map[name:web] map[name:side]]\n doesn't match $setElementOrder "
            "list:\n[map[name:side] map[name:web]]\n",
        ),
    ],
)
def test_errors(patch: dict[str, Any], code: int, message: str | None) -> None:
    with pytest.raises(APIError) as caught:
        strategic_merge_patch.apply(LIVE, patch, POD)
    assert caught.value.status_code == code
    if message is not None:
        assert caught.value.message == message


def test_lists_of_lists_have_their_error() -> None:
    with pytest.raises(ListOfLists):
        strategic_merge_patch.apply(
            {"metadata": {"finalizers": [[1]]}}, {"metadata": {"finalizers": [[2]]}}, POD
        )


def test_service_ports_merge_by_port() -> None:
    live = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    patch = {"spec": {"ports": [{"port": 81, "name": "c"}]}}
    assert patched(live, patch, SERVICE)["spec"]["ports"] == [
        {"port": 80, "name": "a"},
        {"port": 81, "name": "c"},
    ]


def test_two_way_diff_of_kubectl() -> None:
    before = {
        "metadata": {"finalizers": ["a", "b"]},
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}, "template": LIVE},
    }
    after = {
        "metadata": {"finalizers": ["b", "c"]},
        "spec": {
            "strategy": {"type": "Recreate"},
            "template": containers({**WEB, "image": "web:2"}, {"name": "new"}),
        },
    }
    assert strategic_merge_diff.two_way(before, after, DEPLOYMENT) == {
        "metadata": {
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["b", "c"],
        },
        "spec": {
            "strategy": {"type": "Recreate", "rollingUpdate": None, "$retainKeys": ["type"]},
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "web"}, {"name": "new"}],
                    "containers": [
                        {"name": "web", "image": "web:2"},
                        {"name": "new"},
                        {"name": "side", "$patch": "delete"},
                    ],
                }
            },
        },
    }


def test_three_way_diff_keeps_additions_of_others() -> None:
    original = containers({"name": "web", "image": "web:1"}, {"name": "old"})
    modified = containers({"name": "web", "image": "web:2"})
    current = containers(
        {"name": "web", "image": "web:1", "tty": True}, {"name": "old"}, {"name": "injected"}
    )
    patch = strategic_merge_diff.three_way(original, modified, current, POD)
    assert patch == {
        "spec": {
            "$setElementOrder/containers": [{"name": "web"}],
            "containers": [{"name": "web", "image": "web:2"}, {"name": "old", "$patch": "delete"}],
        }
    }
    assert patched(current, patch) == containers(
        {"name": "web", "image": "web:2", "tty": True}, {"name": "injected"}
    )
    with pytest.raises(PatchConflict):
        theirs = containers({"name": "web", "image": "web:9"}, {"name": "old"})
        strategic_merge_diff.three_way(original, modified, theirs, POD, overwrite=False)
    strategic_merge_diff.three_way(
        original, modified, {"spec": {**original["spec"], "tty": 1}}, None, overwrite=False
    )


NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["1", "2"])


def unique_by(key: str, items: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(items, max_size=3, unique_by=lambda item: item[key])


env = unique_by("name", st.fixed_dictionaries({"name": NAMES}, optional={"value": TEXTS}))
container = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "image": TEXTS,
        "env": env,
        "command": st.lists(TEXTS, max_size=2),
        "ports": unique_by(
            "containerPort",
            st.fixed_dictionaries({"containerPort": st.integers(1, 3)}, optional={"name": TEXTS}),
        ),
    },
)
volume = st.one_of(
    st.fixed_dictionaries({"name": NAMES, "emptyDir": st.just({})}),
    st.fixed_dictionaries({"name": NAMES, "hostPath": st.fixed_dictionaries({"path": TEXTS})}),
)
deployments = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("d")},
            optional={
                "labels": st.dictionaries(NAMES, TEXTS, max_size=3),
                "finalizers": st.lists(NAMES, max_size=3, unique=True),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "replicas": st.integers(0, 2),
                "strategy": st.one_of(
                    st.fixed_dictionaries({"type": st.just("Recreate")}),
                    st.fixed_dictionaries({"rollingUpdate": st.dictionaries(st.just("maxSurge"), TEXTS)}),
                ),
                "template": st.fixed_dictionaries(
                    {
                        "spec": st.fixed_dictionaries(
                            {"containers": unique_by("name", container).filter(bool)},
                            optional={
                                "volumes": unique_by("name", volume),
                                "nodeSelector": st.dictionaries(NAMES, TEXTS),
                            },
                        )
                    }
                ),
            },
        ),
    }
)


@settings(max_examples=250, deadline=None)
@given(deployments, deployments)
def test_two_way_diff_and_apply_round_trip(a: dict[str, Any], b: dict[str, Any]) -> None:
    patch = strategic_merge_diff.two_way(a, b, DEPLOYMENT)
    assert patched(a, patch, DEPLOYMENT) == b
    assert strategic_merge_diff.two_way(b, b, DEPLOYMENT) == {}


@settings(max_examples=150, deadline=None)
@given(deployments, deployments)
def test_three_way_diff_without_other_changes(a: dict[str, Any], b: dict[str, Any]) -> None:
    patch = strategic_merge_diff.three_way(a, b, a, DEPLOYMENT, overwrite=False)
    assert patched(a, patch, DEPLOYMENT) == b


@settings(max_examples=100, deadline=None)
@given(deployments, deployments)
def test_apply_is_idempotent(live: dict[str, Any], patch: dict[str, Any]) -> None:
    once = patched(live, patch, DEPLOYMENT)
    assert patched(once, patch, DEPLOYMENT) == once
