"""Scenarios that are run with kube-scheduler and with ours, and must have the same results.

    python -m tests.workloads.scheduler.scenarios KUBECONFIG

records the results of the scheduler of a cluster without nodes in `data/kube_scheduler.json`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import eventually
from tests.workloads.scheduler.scheduling_objects import HOSTNAME, ZONE, node_data, pod_data

from kubewright.api.core.v1 import Node, Pod
from kubewright.api.errors import NotFound
from kubewright.client import Client, load_config, merge_patch

RECORDED = Path(__file__).parent / "data" / "kube_scheduler.json"
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
SOFT_TAINT = {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Objects that are created in order; each pod is scheduled or rejected before the next is created."""

    name: str
    objects: Sequence[Mapping[str, Any]]


def node_affinity(*expressions: Mapping[str, Any], fields: bool = False) -> dict[str, Any]:
    part = "matchFields" if fields else "matchExpressions"
    terms = [{part: list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def preferred_node_affinity(weight: int, key: str, value: str) -> dict[str, Any]:
    preference = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    term = {"weight": weight, "preference": preference}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def pod_affinity(key: str, *, anti: bool = False, weight: int = 0, **labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    kind = "podAntiAffinity" if anti else "podAffinity"
    if weight:
        preferred = [{"weight": weight, "podAffinityTerm": term}]
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str, skew: int = 1, action: str = "DoNotSchedule", **options: Any) -> list[dict[str, Any]]:
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, **selector, **options}]


def priority(name: str, value: int, **fields: Any) -> dict[str, Any]:
    api = "scheduling.k8s.io/v1"
    meta = {"name": name}
    return {"apiVersion": api, "kind": "PriorityClass", "metadata": meta, "value": value, **fields}


def claim(name: str, storage_class: str | None = None, modes: str = "ReadWriteOnce") -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": [modes], "resources": {"requests": {"storage": "1Gi"}}}
    spec["storageClassName"] = storage_class or ""
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def storage_class(name: str, mode: str, provisioner: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def uses(name: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def host_port(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/app:1"}
    return {"containers": [{**container, "ports": [{"containerPort": 80, "hostPort": number}]}]}


WEB = {"app": "web"}
SCENARIOS = (
    Scenario("no nodes", [pod_data("a")]),
    Scenario("fits", [node_data("n1"), pod_data("a", cpu="1")]),
    Scenario(
        "insufficient cpu and memory",
        [node_data("n1", cpu="1"), node_data("n2", memory="1Gi"), pod_data("a", cpu="2", memory="2Gi")],
    ),
    Scenario(
        "insufficient because of other pods",
        [node_data("n1", cpu="2"), pod_data("a", cpu="1500m"), pod_data("b", cpu="1")],
    ),
    Scenario("too many pods", [node_data("n1", pods=1), pod_data("a"), pod_data("b")]),
    Scenario(
        "extended resource",
        [
            node_data("n1", example_com__gpu="1"),
            {
                **pod_data("a"),
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "example.com/app:1",
                            "resources": {"limits": {"example.com/gpu": "2"}},
                        }
                    ]
                },
            },
        ],
    ),
    Scenario(
        "untolerated taints",
        [node_data("n1", taints=[TAINT]), node_data("n2", cpu="1"), pod_data("a", cpu="2")],
    ),
    Scenario(
        "tolerated taint",
        [
            node_data("n1", taints=[TAINT]),
            pod_data("a", tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        ],
    ),
    Scenario("soft taint", [node_data("n1", taints=[SOFT_TAINT]), node_data("n2"), pod_data("a")]),
    Scenario("unschedulable node", [node_data("n1", unschedulable=True), pod_data("a")]),
    Scenario(
        "node selector",
        [
            node_data("n1"),
            node_data("n2", labels={"disk": "ssd"}),
            pod_data("a", nodeSelector={"disk": "ssd"}),
        ],
    ),
    Scenario("node selector without match", [node_data("n1"), pod_data("a", nodeSelector={"disk": "ssd"})]),
    Scenario(
        "node affinity Gt",
        [
            node_data("n1", labels={"rank": "3"}),
            node_data("n2", labels={"rank": "7"}),
            pod_data("a", affinity=node_affinity({"key": "rank", "operator": "Gt", "values": ["5"]})),
        ],
    ),
    Scenario(
        "node affinity by name",
        [
            node_data("n1"),
            node_data("n2"),
            node_data("n3"),
            pod_data(
                "a",
                cpu="8",
                affinity=node_affinity(
                    {"key": "metadata.name", "operator": "In", "values": ["n2"]}, fields=True
                ),
            ),
        ],
    ),
    Scenario(
        "preferred node affinity",
        [
            node_data("n1"),
            node_data("n2", labels={"disk": "ssd"}),
            node_data("n3"),
            pod_data("a", affinity=preferred_node_affinity(10, "disk", "ssd")),
        ],
    ),
    Scenario("host ports", [node_data("n1"), pod_data("a", **host_port(80)), pod_data("b", **host_port(80))]),
    Scenario(
        "least allocated node",
        [
            node_data("n1", cpu="4"),
            node_data("n2", cpu="8", memory="16Gi"),
            pod_data("a", cpu="1", memory="1Gi"),
        ],
    ),
    Scenario(
        "balanced over nodes",
        [
            node_data("n1"),
            node_data("n2"),
            pod_data("a", cpu="1", memory="1Gi", nodeSelector={HOSTNAME: "n1"}),
            pod_data("b", cpu="1", memory="1Gi"),
        ],
    ),
    Scenario(
        "spread over zones",
        [
            node_data("n1", zone="x"),
            node_data("n2", zone="y"),
            pod_data("a", labels=WEB, nodeSelector={ZONE: "x"}),
            pod_data("b", labels=WEB, topologySpreadConstraints=spread(ZONE)),
            pod_data("c", labels=WEB, nodeSelector={ZONE: "x"}),
            pod_data("d", labels=WEB, topologySpreadConstraints=spread(ZONE)),
            pod_data("e", labels=WEB, nodeSelector={ZONE: "x"}, topologySpreadConstraints=spread(ZONE)),
            pod_data("f", labels=WEB, topologySpreadConstraints=spread(ZONE, nodeTaintsPolicy="Honor")),
        ],
    ),
    Scenario(
        "spread cannot be satisfied",
        [
            node_data("n1", zone="x"),
            node_data("n2", zone="y", unschedulable=True),
            node_data("n3"),
            pod_data("a", labels=WEB, topologySpreadConstraints=spread(ZONE)),
            pod_data("b", labels=WEB, topologySpreadConstraints=spread(ZONE)),
        ],
    ),
    Scenario(
        "minDomains",
        [
            node_data("n1", zone="x"),
            pod_data("a", labels=WEB, topologySpreadConstraints=spread(ZONE, minDomains=2)),
            pod_data("b", labels=WEB, topologySpreadConstraints=spread(ZONE, minDomains=2)),
        ],
    ),
    Scenario(
        "soft spread",
        [
            node_data("n1", zone="x"),
            node_data("n2", zone="y"),
            pod_data("a", labels=WEB, nodeSelector={ZONE: "x"}),
            pod_data("b", labels=WEB, topologySpreadConstraints=spread(ZONE, 1, "ScheduleAnyway")),
        ],
    ),
    Scenario(
        "pod affinity",
        [
            node_data("n1", zone="x"),
            node_data("n2", zone="y"),
            pod_data("a", labels=WEB, nodeSelector={ZONE: "y"}),
            pod_data("b", affinity=pod_affinity(ZONE, app="web")),
            pod_data("c", affinity=pod_affinity(ZONE, app="missing")),
            pod_data("d", labels={"app": "self"}, affinity=pod_affinity("missing", app="self")),
        ],
    ),
    Scenario(
        "pod anti-affinity",
        [
            node_data("n1"),
            pod_data("a", labels=WEB, affinity=pod_affinity(HOSTNAME, anti=True, app="web")),
            pod_data("b", labels=WEB, affinity=pod_affinity(HOSTNAME, anti=True, app="web")),
            pod_data("c", labels=WEB),
        ],
    ),
    Scenario(
        "preferred pod affinity and anti-affinity",
        [
            node_data("n1"),
            node_data("n2"),
            pod_data("a", labels=WEB, nodeSelector={HOSTNAME: "n1"}),
            pod_data("b", affinity=pod_affinity(HOSTNAME, weight=100, app="web")),
            pod_data("c", affinity=pod_affinity(HOSTNAME, anti=True, weight=100, app="web")),
        ],
    ),
    Scenario(
        "preemption",
        [
            priority("high", 1000),
            node_data("n1", cpu="2"),
            node_data("n2", cpu="2", taints=[TAINT]),
            pod_data("a", cpu="2"),
            pod_data("b", cpu="1", priorityClassName="high"),
        ],
    ),
    Scenario(
        "preemption without victims",
        [
            priority("high", 1000),
            node_data("n1", cpu="2"),
            node_data("n2", cpu="1"),
            pod_data("a", cpu="2", priorityClassName="high"),
            pod_data("b", cpu="2", priorityClassName="high"),
        ],
    ),
    Scenario(
        "preemption is not helpful",
        [
            priority("high", 1000),
            node_data("n1", cpu="2"),
            node_data("n2", cpu="1"),
            pod_data("a", cpu="1", memory="1Gi", labels=WEB),
            pod_data("b", cpu="4", priorityClassName="high"),
        ],
    ),
    Scenario(
        "preemption policy",
        [
            priority("polite", 1000, preemptionPolicy="Never"),
            node_data("n1", cpu="2"),
            pod_data("a", cpu="2"),
            pod_data("b", cpu="1", priorityClassName="polite"),
        ],
    ),
    Scenario(
        "victim with the lowest priority",
        [
            priority("high", 1000),
            priority("middle", 100),
            node_data("n1", cpu="2"),
            node_data("n2", cpu="2"),
            pod_data("a", cpu="2", priorityClassName="middle", nodeSelector={HOSTNAME: "n1"}),
            pod_data("b", cpu="2", nodeSelector={HOSTNAME: "n2"}),
            pod_data("c", cpu="1", priorityClassName="high"),
        ],
    ),
    Scenario("missing claim", [node_data("n1"), pod_data("a", volumes=uses("missing"))]),
    Scenario(
        "unbound immediate claim",
        [
            node_data("n1"),
            storage_class("now", "Immediate", "example.com/disk"),
            claim("data", "now"),
            pod_data("a", volumes=uses("data")),
        ],
    ),
    Scenario(
        "no volume for the first consumer",
        [
            node_data("n1"),
            storage_class("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
            claim("data", "local"),
            pod_data("a", volumes=uses("data")),
        ],
    ),
    Scenario(
        "sidecar and init containers",
        [
            node_data("n1", cpu="3"),
            pod_data(
                "a",
                cpu="1",
                initContainers=[
                    {
                        "name": "sidecar",
                        "image": "example.com/app:1",
                        "restartPolicy": "Always",
                        "resources": {"requests": {"cpu": "1"}},
                    },
                    {
                        "name": "init",
                        "image": "example.com/app:1",
                        "resources": {"requests": {"cpu": "2500m"}},
                    },
                ],
            ),
        ],
    ),
)


async def run_scenario(
    client: Client, scenario: Scenario, *, preempted: Collection[str] = ()
) -> dict[str, Any]:
    """Create the objects and return the results; delete everything afterwards.

    `preempted`: pods whose preemption is waited for. It is reported after the decision about its cause.
    """
    results: dict[str, Any] = {}
    try:
        for data in scenario.objects:
            await client.create(json.loads(json.dumps(data)))
            name = data["metadata"]["name"]
            if data["kind"] == "Node":
                change = {"spec": {"taints": data["spec"].get("taints")}}
                await client.patch(Node, name, merge_patch(change))
            elif data["kind"] == "Pod":
                await eventually(lambda name=name: _is_decided(client, name))
        names = [data["metadata"]["name"] for data in scenario.objects if data["kind"] == "Pod"]
        for name in names:
            expected = name in preempted
            await eventually(lambda name=name, expected=expected: _is_reported(client, name, expected))
            results[name] = await _result(client, name)
    finally:
        await _delete(client, scenario)
    return results


async def _is_decided(client: Client, name: str) -> bool:
    found = await client.get(Pod, name, namespace="default")
    conditions = (found.status.conditions if found.status else None) or ()
    if not any(each.type == "PodScheduled" for each in conditions):
        return False
    reason = "Scheduled" if found.spec and found.spec.node_name else "FailedScheduling"
    return bool(await _events(client, found, reason))


async def _is_reported(client: Client, name: str, is_preempted: bool) -> bool:
    """Whether the event about the preemption of a pod exists, if the pod is or will be preempted."""
    found = await client.get(Pod, name, namespace="default")
    if found.metadata.deletion_timestamp is None:
        return not is_preempted
    return bool(await _events(client, found, "Preempted"))


async def _events(client: Client, pod: Pod, reason: str) -> list[dict[str, Any]]:
    listed = await client.list("events.events.k8s.io", namespace="default")
    return [
        each.raw
        for each in listed
        if each.raw["regarding"].get("uid") == pod.metadata.uid and each.raw["reason"] == reason
    ]


async def _result(client: Client, name: str) -> dict[str, Any]:
    """Return what is the same in every run."""
    found = await client.get(Pod, name, namespace="default")
    status = found.status
    assert status is not None
    conditions = [
        {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
        for each in status.conditions or ()
    ]
    events = []
    for reason in ("Scheduled", "FailedScheduling", "Preempted"):
        for event in await _events(client, found, reason):
            note = re.sub(r"by pod \S+ on", "by pod UID on", event["note"])
            entry = [reason, event["type"], event["action"], note]
            if entry not in events:
                events.append(entry)
    return {
        "node": found.spec.node_name if found.spec else None,
        "nominated": status.nominated_node_name,
        "deleted": found.metadata.deletion_timestamp is not None,
        "conditions": sorted(conditions, key=lambda each: str(each["type"])),
        "events": events,
    }


async def _delete(client: Client, scenario: Scenario) -> None:
    for data in reversed(scenario.objects):
        meta = data["metadata"]
        target = {"apiVersion": data["apiVersion"], "kind": data["kind"], "metadata": meta}
        grace = 0 if data["kind"] == "Pod" else None
        await client.delete(dict(target), grace_period=grace, missing_ok=True)
    for event in await client.list("events.events.k8s.io", namespace="default"):
        try:
            await client.delete(event)
        except NotFound:
            continue


async def _record(kubeconfig: str) -> None:
    results = {}
    async with Client.connect(load_config(kubeconfig)) as client:
        for scenario in SCENARIOS:
            results[scenario.name] = await run_scenario(client, scenario)
            print(scenario.name, flush=True)
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(_record(sys.argv[1]))
