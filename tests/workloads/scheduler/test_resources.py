"""Requests of pods, and the sums over the pods of a node."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.core.v1 import Pod
from kubewright.workloads.scheduler import NodeInfo, PodInfo
from kubewright.workloads.scheduler.state.cache import SchedulerCache, Snapshot
from kubewright.workloads.scheduler.state.resources import is_extended, is_scalar, pod_amounts

from .scheduling_objects import make, node, pod


def container(name: str, cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    data: dict[str, Any] = {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {**data, "restartPolicy": "Always"} if sidecar else data


def spec(*containers: dict[str, Any], init: Any = (), **fields: Any) -> Pod:
    return make(Pod, {"spec": {"containers": list(containers), "initContainers": list(init), **fields}})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (spec(container("a", "1"), container("b", "500m")), 1500),
        (spec(container("a", "1"), init=[container("i", "3")]), 3000),
        (spec(container("a", "1"), init=[container("i", "2"), container("j", "3")]), 3000),
        (spec(container("a", "1"), init=[container("s", "1", sidecar=True)]), 2000),
        (spec(container("a", "1"), init=[container("s", "1", sidecar=True), container("i", "3")]), 4000),
        (spec(container("a", "1"), init=[container("i", "3"), container("s", "1", sidecar=True)]), 3000),
        (spec(container("a", "1"), overhead={"cpu": "250m"}), 1250),
        (spec(container("a", "1"), resources={"requests": {"cpu": "4"}}), 4000),
        (spec(container("a", "1"), resources={"requests": {"cpu": "4"}}, overhead={"cpu": "1"}), 5000),
    ],
)
def test_cpu_of_a_pod(found: Pod, expected: int) -> None:
    assert pod_amounts(found)["cpu"] == expected


def test_resized_container_counts_with_its_largest_amount() -> None:
    found = spec(container("a", "1"))
    resized = make(
        Pod,
        {
            "spec": {"containers": [container("a", "1")]},
            "status": {
                "containerStatuses": [
                    {
                        "name": "a",
                        "resources": {"requests": {"cpu": "2"}},
                        "allocatedResources": {"cpu": "3"},
                    }
                ]
            },
        },
    )
    assert (pod_amounts(found)["cpu"], pod_amounts(resized)["cpu"]) == (1000, 3000)


def test_containers_without_requests_count_with_defaults_in_scores() -> None:
    info = PodInfo(pod("a"))
    assert (info.requests.milli_cpu, info.non_zero_cpu) == (0, 100)
    assert (info.requests.memory, info.non_zero_memory) == (0, 200 * 1024 * 1024)


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("example.com/gpu", True, True),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("requests.example.com/gpu", False, False),
        ("kubernetes.io/x", False, False),
    ],
)
def test_names_of_resources(name: str, scalar: bool, extended: bool) -> None:
    assert (is_scalar(name), is_extended(name)) == (scalar, extended)


def test_added_and_removed_pods_leave_a_node_unchanged() -> None:
    info = NodeInfo(node("n"))
    before = info.copy()
    ports = {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}]}
    infos = [
        PodInfo(pod("a", cpu="1", labels={"app": "x"})),
        PodInfo(pod("b", **ports)),
        PodInfo(pod("c", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])),
    ]
    for each in infos:
        info.add_pod(each)
    assert (info.requested.milli_cpu, len(info.used_ports), info.claim_counts) == (
        1000,
        1,
        {"default/data": 1},
    )
    for each in infos:
        info.remove_pod(each.uid)
    for name in ("pods", "requested", "used_ports", "claim_counts", "group_counts", "non_zero_cpu"):
        assert getattr(info, name) == getattr(before, name)


@pytest.mark.parametrize(
    ("used", "wanted", "conflict"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("127.0.0.1", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), ("127.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_host_ports(used: tuple[str, str, int], wanted: tuple[str, str, int], conflict: bool) -> None:
    info = NodeInfo()
    info.used_ports[used] = 1
    assert info.has_port_conflict((wanted,)) is conflict


def test_snapshot_copies_changed_nodes_only() -> None:
    cache, snapshot = SchedulerCache(), Snapshot()
    for index in range(4):
        cache.set_node(node(f"n{index}", zone="xy"[index // 2]))
    cache.update_snapshot(snapshot)
    assert [info.name for info in snapshot.nodes] == ["n0", "n2", "n1", "n3"]
    before = list(snapshot.nodes)
    cache.assume(PodInfo(pod("a", cpu="1"), node_name="n2"))
    assert snapshot.by_name["n2"].requested.milli_cpu == 0
    cache.update_snapshot(snapshot)
    assert [old is new for old, new in zip(before, snapshot.nodes, strict=True)] == [True, False, True, True]
    assert snapshot.by_name["n2"].requested.milli_cpu == 1000
    cache.remove_node("n0")
    cache.update_snapshot(snapshot)
    assert {info.name for info in snapshot.nodes} == {"n1", "n2", "n3"}
