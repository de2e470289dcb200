"""Declarations of simulated nodes, their addresses and their admission of pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import start_cluster

from kubewright.workloads.nodes import NodeSpecError, load_nodes
from kubewright.workloads.nodes.registration.node_object import (
    default_internal_ip,
    default_pod_cidr,
    node_object,
)
from kubewright.workloads.nodes.registration.node_spec import load_settings
from kubewright.workloads.nodes.registration.node_state import AddressPool, NodeState, pod_requests
from kubewright.workloads.nodes.settings import MISSING_IMAGES

FILE = """
nodes:
- name: worker
  count: 2
  zone: a
  region: eu
  capacity: {cpu: 16, memory: 64Gi}
  labels: {disk: ssd}
  taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
  images: [nginx:1]
- name: other
  unschedulable: true
  podCIDR: 10.99.0.0/24
---
kind: Node
apiVersion: v1
metadata: {name: from-object, labels: {a: b}}
status: {capacity: {cpu: "2"}}
"""


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(FILE)
    specs = {spec.name: spec for spec in load_nodes(path)}
    assert list(specs) == ["worker-0", "worker-1", "other", "from-object"]
    labels = specs["worker-0"].all_labels()
    assert labels["topology.kubernetes.io/zone"] == "a"
    assert labels["kubernetes.io/hostname"] == "worker-0"
    assert labels["disk"] == "ssd"
    settled: dict[str, Any] = {"kubelet_port": 1, "stamp": "2030-01-01T00:00:00Z", "version": "v1.37.0"}
    node = node_object(specs["worker-0"], index=0, **settled)
    assert node["status"]["allocatable"] == {
        "cpu": "16",
        "memory": "64Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
    }
    assert node["spec"]["taints"] == [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    other = node_object(specs["other"], index=2, **settled)
    assert other["spec"]["unschedulable"]
    assert other["spec"]["podCIDR"] == "10.99.0.0/24"
    assert specs["from-object"].capacity["cpu"] == "2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [{name: a, cpus: 3}]", "unknown field 'cpus'"),
        ("nodes: [{name: a}, {name: a}]", "two nodes are named 'a'"),
        ("nodes: [{name: A_b}]", "not valid"),
        ("nodes: [{name: a, count: many}]", "count must be a number"),
        ("nodes: [3]", "expected a mapping"),
        ("{", "cannot read nodes"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(NodeSpecError, match=message):
        load_nodes(path)


def test_addresses_of_many_nodes_are_unique() -> None:
    assert len({default_pod_cidr(index) for index in range(3000)}) == 3000
    assert len({default_internal_ip(index) for index in range(3000)}) == 3000


def test_address_pool_reuses_released_addresses_last() -> None:
    pool = AddressPool("10.0.0.0/29")
    addresses = [pool.allocate() for _ in range(5)]
    assert addresses == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    pool.release("10.0.0.4")
    pool.release("10.0.0.2")
    assert [pool.allocate(), pool.allocate()] == ["10.0.0.4", "10.0.0.2"]


def test_requests_of_a_pod() -> None:
    def container(cpu: str, **rest: str) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu}}, **rest}

    spec = {
        "containers": [container("100m"), container("200m")],
        "initContainers": [container("50m", restartPolicy="Always"), container("1")],
        "overhead": {"cpu": "10m"},
    }
    # The init container runs beside the sidecar: 1050m, more than 350m of the others.
    assert pod_requests(spec) == {"cpu": 1060}


def test_admission_by_taints_and_fields() -> None:
    node = NodeState(
        "n", {"metadata": {"labels": {"a": "b"}}, "spec": {}, "status": {"allocatable": {"pods": "1"}}}
    )
    terms = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert node.admit({"spec": {"affinity": affinity}}, {}) is None
    node.taints = [{"key": "k", "effect": "NoExecute"}]
    rejection = node.admit({"spec": {}}, {})
    assert rejection is not None
    assert rejection.reason == "TaintToleration"
    assert node.admit({"spec": {"tolerations": [{"operator": "Exists"}]}}, {}) is None
    node.reserve("uid", {})
    rejection = node.admit({"spec": {"tolerations": [{"operator": "Exists"}]}}, {})
    assert rejection is not None
    assert rejection.reason == "OutOfpods"


def test_missing_images_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text("nodes: [{name: a}]\nmissingImages: ['private/*']\n")
    assert load_settings(path).missing_images == ("private/*",)
    assert load_settings(3).missing_images == MISSING_IMAGES
    path.write_text("nodes: [{name: a}]\nmissingImages: private\n")
    with pytest.raises(NodeSpecError, match="expected a list of patterns"):
        load_settings(path)


async def test_nodes_of_a_file_are_created(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(FILE)
    async with start_cluster("in-process", path) as cluster:
        names = [each.metadata.name for each in await cluster.client.list("nodes")]
        assert names == ["from-object", "other", "worker-0", "worker-1"]
