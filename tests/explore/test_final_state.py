"""Normalised final states: what may differ between runs, and what may not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.explore.final_state import differences, normalise
from kubewright.explore.state import StateRecorder


def state_of(*objects: dict[str, Any]):
    recorder = StateRecorder()
    for number, each in enumerate(objects, 1):
        metadata = each["metadata"]
        key = f"/registry/{each['kind'].lower()}s/{metadata.get('namespace', '')}/{metadata['name']}"
        recorder.put(key, json.dumps(each).encode(), create_revision=number, revision=number)
    return normalise(recorder.snapshot(time=0.0))


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": "1", "resourceVersion": "7", "generation": 2}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def generated(suffix: str, reference: str) -> list[dict[str, Any]]:
    """A Job with a generated name, and a ConfigMap that refers to it."""
    metadata = {"name": f"run-{suffix}", "generateName": "run-", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return [job, config_map(job=reference)]


def test_volatile_fields_do_not_matter() -> None:
    one, other = config_map(), config_map()
    other["metadata"].update(uid="2", resourceVersion="9", generation=5)
    one["status"] = {
        "observedGeneration": 2,
        "at": "2030-01-01T00:00:00Z",
        "id": f"{'0' * 8}-0000-4000-8000-{'0' * 12}",
    }
    other["status"] = {
        "observedGeneration": 5,
        "at": "2030-01-02T00:00:00Z",
        "id": f"{'1' * 8}-0000-4000-8000-{'1' * 12}",
    }
    assert differences(state_of(one), state_of(other)) == []
    other["status"]["observedGeneration"] = 4
    (found,) = differences(state_of(one), state_of(other))
    assert str(found) == "ConfigMap default/a: status.observedGeneration is 'old' instead of 'current'"


def test_generated_names_and_references_to_them_do_not_matter() -> None:
    one = state_of(*generated("abcde", "run-abcde"))
    assert differences(one, state_of(*generated("vwxyz", "run-vwxyz"))) == []
    (found,) = differences(one, state_of(*generated("vwxyz", "other")))
    assert str(found) == "ConfigMap default/a: data.job is 'other' instead of 'run-*'"
    doubled = state_of(*generated("vwxyz", "run-vwxyz"), generated("bcdfg", "")[0])
    (found,) = differences(one, doubled)
    assert str(found) == "Job.batch default/run-*: 2 objects instead of 1"


def test_allocated_addresses_do_not_matter() -> None:
    def service(address: str) -> list[dict[str, Any]]:
        metadata = {"name": "web", "namespace": "default"}
        spec = {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80, "nodePort": 30001}]}
        return [
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec},
            config_map(url=f"http://{address}:80"),
        ]

    assert differences(state_of(*service("10.0.0.7")), state_of(*service("10.0.0.70"))) == []


def test_missing_and_additional_objects_are_reported() -> None:
    texts = [str(each) for each in differences(state_of(config_map("a")), state_of(config_map("b")))]
    assert texts == [
        "ConfigMap default/a does not exist",
        "ConfigMap default/b exists, and not in the reference run",
    ]


def test_values_of_secrets_are_not_compared() -> None:
    def secret(**data: str) -> dict[str, Any]:
        return {**config_map(**data), "kind": "Secret"}

    assert differences(state_of(secret(password="eA==")), state_of(secret(password="eQ=="))) == []
    assert differences(state_of(secret(password="eA==")), state_of(secret(token="eA==")))


@pytest.mark.parametrize("rule", ["ConfigMap", "ConfigMap:data.at", "data.at", "data", "Config*:data.*"])
def test_tolerances(rule: str) -> None:
    one, other = state_of(config_map(at="1")), state_of(config_map(at="2"))
    assert differences(one, other)
    assert differences(one, other, [rule]) == []
    assert differences(one, other, ["Secret", "ConfigMap:data.other", "spec"])


def test_a_tolerated_field_may_lack_its_parent() -> None:
    with_parent: dict[str, list[object]] = {"App default/a": [{"status": {"attempts": {"count": 2}}}]}
    without: dict[str, list[object]] = {"App default/a": [{}]}
    assert differences(with_parent, without, ["status.attempts.count"]) == []
    assert differences(without, with_parent, ["App:status.attempts"]) == []
    other: dict[str, list[object]] = {"App default/a": [{"status": {"attempts": {"count": 2}, "phase": "x"}}]}
    assert [each.path for each in differences(other, without, ["status.attempts.count"])] == ["status"]


@pytest.mark.parametrize(
    ("kind", "api_version", "annotation"),
    [
        ("Endpoints", "v1", "endpoints.kubernetes.io/last-change-trigger-time"),
        ("EndpointSlice", "discovery.k8s.io/v1", "endpoints.kubernetes.io/last-change-trigger-time"),
        ("Endpoints", "v1", "control-plane.alpha.kubernetes.io/leader"),
        ("PersistentVolumeClaim", "v1", "volume.kubernetes.io/selected-node"),
        ("Deployment", "apps/v1", "deployment.kubernetes.io/revision"),
    ],
)
def test_annotations_that_controllers_of_the_cluster_generate_do_not_matter(
    kind: str, api_version: str, annotation: str
) -> None:
    def annotated(**annotations: str) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": "a", "namespace": "default"}
        if annotations:
            metadata["annotations"] = annotations
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

    assert differences(state_of(annotated()), state_of(annotated(**{annotation: "x"}))) == []
    one, other = annotated(mine="1"), annotated(mine="2", **{annotation: "x"})
    (found,) = differences(state_of(one), state_of(other))
    assert found.path == "metadata.annotations.mine"


@pytest.mark.parametrize(
    "field", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
)
def test_ids_of_containers_do_not_matter(field: str) -> None:
    def pod(id_: str, count: int = 0) -> dict[str, Any]:
        last = {"terminated": {"containerID": f"containerd://{id_}-last", "exitCode": 1}}
        status = {"name": "a", "containerID": f"containerd://{id_}", "lastState": last, "restartCount": count}
        return {**config_map(), "kind": "Pod", "status": {field: [status]}}

    assert differences(state_of(pod("1")), state_of(pod("2"))) == []
    (found,) = differences(state_of(pod("1")), state_of(pod("2", count=1)))
    assert found.path == f"status.{field}[0].restartCount"


def test_a_resolved_conflict_of_owners_does_not_matter() -> None:
    def app(*conditions: tuple[str, str]) -> dict[str, Any]:
        status = {"conditions": [{"type": type_, "status": status} for type_, status in conditions]}
        return {**config_map(), "kind": "App", "status": status if conditions else {}}

    ready, resolved, conflict = (
        ("Ready", "True"),
        ("OwnershipConflict", "False"),
        ("OwnershipConflict", "True"),
    )
    assert differences(state_of(app(ready)), state_of(app(resolved, ready))) == []
    assert differences(state_of(app()), state_of(app(resolved))) == []
    assert differences(state_of(app(ready)), state_of(app(conflict, ready)))


def test_the_node_that_the_scheduler_chooses_does_not_matter() -> None:
    def placed(node: str, address: str, *, pinned: bool = False) -> list[dict[str, Any]]:
        pod = {**config_map(), "kind": "Pod", "spec": {"nodeName": node}}
        pod["status"] = {"hostIP": address, "hostIPs": [{"ip": address}], "phase": "Running"}
        if pinned:
            fields = {"f:spec": {"f:nodeName": {}}}
            pod["metadata"]["managedFields"] = [{"manager": "operator", "fieldsV1": fields}]
        addresses = [{"ip": "10.1.0.1", "nodeName": node}]
        endpoints = {**config_map(), "kind": "Endpoints", "subsets": [{"addresses": addresses}]}
        slices = {**config_map(), "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"}
        slices["endpoints"] = [{"addresses": ["10.1.0.1"], "nodeName": node, "zone": f"zone of {node}"}]
        return [pod, endpoints, slices]

    one, other = ("node-0", "172.18.0.2"), ("node-1", "172.18.0.3")
    assert differences(state_of(*placed(*one)), state_of(*placed(*other))) == []
    (found,) = differences(state_of(*placed(*one, pinned=True)), state_of(*placed(*other, pinned=True)))
    assert found.path == "spec.nodeName"
