"""Built-in plug-ins, as a whole scheduler without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.apps.v1 import ReplicaSet
from kubewright.api.core.v1 import (
    Namespace,
    NodeAffinity,
    PersistentVolume,
    PersistentVolumeClaim,
    Service,
    TopologySpreadConstraint,
)
from kubewright.api.resources.v1 import DeviceClass, ResourceClaim, ResourceSlice
from kubewright.api.storage.v1 import CSINode, StorageClass
from kubewright.workloads.scheduler import Profile
from kubewright.workloads.scheduler.plugins import ImageLocality

from .scheduling_objects import HOSTNAME, ZONE, Simulation, make, node, pod, required_affinity

WEB = {"app": "web"}


async def place(simulation: Simulation, name: str) -> str | None:
    return (await simulation.run()).get(name)


def profile(**options: Any) -> list[Profile]:
    return [Profile(**options)]


# Resources


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, "empty"),
        ({"strategy": "MostAllocated"}, "full"),
        ({"strategy": "RequestedToCapacityRatio"}, "full"),
        ({"strategy": "RequestedToCapacityRatio", "shape": [(0, 10), (100, 0)]}, "empty"),
    ],
)
async def test_scoring_strategies(args: dict[str, Any], expected: str) -> None:
    simulation = Simulation(
        node("empty"),
        node("full"),
        pod("old", cpu="2", memory="4Gi", nodeName="full"),
        pod("new", cpu="1", memory="2Gi"),
        profiles=profile(plugin_args={"NodeResourcesFit": args} if args else {}),
    )
    assert await place(simulation, "new") == expected


async def test_balanced_allocation_prefers_even_use() -> None:
    simulation = Simulation(
        node("cpu-heavy", cpu="10", memory="10Gi"),
        node("memory-heavy", cpu="10", memory="10Gi"),
        pod("a", cpu="4", memory="1Gi", nodeName="cpu-heavy"),
        pod("b", cpu="1", memory="4Gi", nodeName="memory-heavy"),
        pod("new", cpu="3", memory="0"),
        profiles=profile(disabled=["NodeResourcesFit.score"]),
    )
    assert await place(simulation, "new") == "memory-heavy"


async def test_ignored_extended_resources() -> None:
    resources = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    containers = [{"name": "a", "image": "i", "resources": resources}]
    args = {"NodeResourcesFit": {"ignored_resource_groups": ["example.com"]}}
    strict = Simulation(node("n"), pod("a", containers=containers))
    assert await place(strict, "a") is None
    assert "1 Insufficient example.com/gpu" in strict.message("a")
    assert await place(
        Simulation(node("n"), pod("a", containers=containers), profiles=profile(plugin_args=args)), "a"
    )


async def test_added_affinity() -> None:
    added = make(
        NodeAffinity,
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]}
                ]
            }
        },
    )
    args = {"NodeAffinity": {"added_affinity": added}}
    simulation = Simulation(node("n"), pod("a"), profiles=profile(plugin_args=args))
    assert await place(simulation, "a") is None
    assert "1 node(s) didn't match scheduler-enforced node affinity" in simulation.message("a")
    simulation.add(node("m", labels={"pool": "x"}))
    assert await place(simulation, "a") == "m"


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "size", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "size", "value": "5"}, True),
        ({"key": "size", "value": "6"}, False),
        ({"key": "size", "operator": "Lt", "value": "6"}, True),
        ({"key": "size", "operator": "Gt", "value": "6"}, False),
        ({"value": "5"}, False),
    ],
)
async def test_tolerations(toleration: dict[str, str], fits: bool) -> None:
    taint = {"key": "size", "value": "5", "effect": "NoSchedule"}
    simulation = Simulation(node("n", taints=[taint]), pod("a", tolerations=[toleration]))
    assert (await place(simulation, "a") is not None) is fits


async def test_image_locality_is_optional() -> None:
    local = node("local")
    assert local.status is not None
    local.status.images = make(
        type(local), {"status": {"images": [{"names": ["example.com/app:1"], "sizeBytes": 900_000_000}]}}
    ).status.images  # type: ignore[union-attr]
    options = {"plugins": [ImageLocality], "disabled": ["NodeResourcesFit.score"]}
    for seed in range(5):
        simulation = Simulation(local, node("other"), pod("a"), profiles=profile(**options), seed=seed)
        assert await place(simulation, "a") == "local"


# Topology


def spread(key: str = ZONE, **options: Any) -> dict[str, Any]:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
        **options,
    }
    return {"labels": WEB, "topologySpreadConstraints": [constraint]}


async def test_spread_over_zones_and_nodes() -> None:
    simulation = Simulation(*(node(f"n{index}", zone="xyz"[index % 3]) for index in range(6)))
    simulation.add(*(pod(f"p{index}", **spread()) for index in range(9)))
    placed = await simulation.run()
    zones = [int(name[1:]) % 3 for name in placed.values()]
    assert [zones.count(zone) for zone in range(3)] == [3, 3, 3]


async def test_spread_ignores_terminating_pods_and_other_namespaces() -> None:
    gone = pod("gone", nodeName="a", labels=WEB)
    gone.metadata.deletion_timestamp = make(
        type(gone), {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
    ).metadata.deletion_timestamp
    simulation = Simulation(
        node("a", zone="x"),
        node("b", zone="y", cpu="1"),
        gone,
        pod("foreign", namespace="other", nodeName="a", labels=WEB),
        pod("full", nodeName="b", cpu="1"),
        pod("new", cpu="1", **spread()),
    )
    assert await place(simulation, "new") == "a"


async def test_match_label_keys_count_only_the_same_revision() -> None:
    old = {"app": "web", "pod-template-hash": "1"}
    simulation = Simulation(
        node("a", zone="x"), node("b", zone="y", cpu="1"), pod("full", nodeName="b", cpu="1")
    )
    simulation.add(pod("old", nodeName="a", labels=old))
    options = spread(matchLabelKeys=["pod-template-hash"])
    options["labels"] = {"app": "web", "pod-template-hash": "2"}
    simulation.add(pod("new", cpu="1", **options))
    assert await place(simulation, "new") == "a"
    simulation.add(pod("rejected", cpu="1", **spread()))
    assert await place(simulation, "rejected") is None


@pytest.mark.parametrize(("policy", "fits"), [("Ignore", False), ("Honor", True)])
async def test_node_taints_policy(policy: str, fits: bool) -> None:
    taint = {"key": "x", "effect": "NoSchedule"}
    simulation = Simulation(
        node("a", zone="x"),
        node("b", zone="y", taints=[taint]),
        pod("old", nodeName="a", labels=WEB),
        pod("new", **spread(nodeTaintsPolicy=policy)),
    )
    assert (await place(simulation, "new") == "a") is fits


@pytest.mark.parametrize(("policy", "fits"), [("Ignore", False), ("Honor", True)])
async def test_node_affinity_policy(policy: str, fits: bool) -> None:
    simulation = Simulation(
        node("a", zone="x"),
        node("b", zone="y"),
        pod("old", nodeName="a", labels=WEB),
        pod("new", nodeSelector={HOSTNAME: "a"}, **spread(nodeAffinityPolicy=policy)),
    )
    assert (await place(simulation, "new") == "a") is fits


async def test_default_constraints_spread_pods_of_a_controller() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    replica_set = make(
        ReplicaSet,
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": WEB}}},
    )
    service = make(
        Service, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"tier": "x"}}}
    )

    def owned(name: str, **options: Any) -> Any:
        found = pod(name, labels=WEB, **options)
        found.metadata.owner_references = make(
            type(found), {"metadata": {"ownerReferences": [owner]}}
        ).metadata.owner_references
        return found

    for seed in range(5):
        simulation = Simulation(
            node("a", zone="x"), node("b", zone="x"), replica_set, service, seed=seed,
            profiles=profile(disabled=["NodeResourcesFit.score"]),
        )  # fmt: skip
        simulation.add(owned("old", nodeName="a"), owned("new"))
        assert await place(simulation, "new") == "b"


async def test_replaced_default_constraints() -> None:
    constraint = TopologySpreadConstraint(topology_key=ZONE, max_skew=1, when_unsatisfiable="DoNotSchedule")
    service = make(Service, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}})
    args = {"PodTopologySpread": {"default_constraints": [constraint]}}
    simulation = Simulation(
        service, node("a", zone="x"), node("b", zone="y", cpu="1"), pod("full", nodeName="b", cpu="1"),
        pod("old", nodeName="a", labels=WEB), pod("new", cpu="1", labels=WEB),
        profiles=profile(plugin_args=args),
    )  # fmt: skip
    assert await place(simulation, "new") is None
    assert "1 node(s) didn't match pod topology spread constraints" in simulation.message("new")


# Pod affinity


async def test_affinity_with_namespace_selector() -> None:
    namespace = make(Namespace, {"metadata": {"name": "other", "labels": {"team": "a"}}})
    term = {
        "labelSelector": {"matchLabels": WEB},
        "topologyKey": HOSTNAME,
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    simulation = Simulation(
        namespace,
        node("a"),
        node("b"),
        pod("target", namespace="other", nodeName="b", labels=WEB),
        pod("new", affinity=affinity),
    )
    assert await place(simulation, "new") == "b"


async def test_anti_affinity_is_symmetric() -> None:
    simulation = Simulation(
        node("a"),
        node("b", cpu="1"),
        pod("lonely", nodeName="a", affinity=required_affinity(HOSTNAME, anti=True, app="web")),
        pod("new", cpu="2", labels=WEB),
    )
    assert await place(simulation, "new") is None
    message = simulation.message("new")
    assert "1 Insufficient cpu, 1 node(s) didn't satisfy existing pods anti-affinity rules" in message


async def test_preferred_terms_of_existing_pods_attract_new_ones() -> None:
    term = {"labelSelector": {"matchLabels": WEB}, "topologyKey": HOSTNAME}
    attracting = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }
    simulation = Simulation(
        node("a"), node("b"), pod("old", nodeName="b", affinity=attracting), pod("new", labels=WEB)
    )
    assert await place(simulation, "new") == "b"


# Volumes


def claim(name: str, *, volume: str = "", storage_class: str = "local", mode: str = "ReadWriteOnce") -> Any:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return make(
        PersistentVolumeClaim,
        {
            "metadata": {
                "name": name, "namespace": "default", "uid": f"claim-{name}", "annotations": annotations,
            },
            "spec": {
                "accessModes": [mode],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": "1Gi"}},
                **({"volumeName": volume} if volume else {}),
            },
        },
    )  # fmt: skip


def volume(name: str, *, host: str = "", size: str = "1Gi", zone: str = "", driver: str = "") -> Any:
    expression = {"key": HOSTNAME, "operator": "In", "values": [host]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return make(
        PersistentVolume,
        {
            "metadata": {"name": name, "labels": {ZONE: zone} if zone else {}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "capacity": {"storage": size},
                **({"nodeAffinity": affinity} if host else {}),
                **({"csi": {"driver": driver, "volumeHandle": name}} if driver else {}),
            },
        },
    )


def storage_class(provisioner: str = "kubernetes.io/no-provisioner", **fields: Any) -> Any:
    data = {"metadata": {"name": "local"}, "provisioner": provisioner}
    return make(StorageClass, {**data, "volumeBindingMode": "WaitForFirstConsumer", **fields})


def with_claim(name: str = "data") -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


async def test_bound_volume_decides_the_node() -> None:
    simulation = Simulation(
        node("a"), node("b"), claim("data", volume="pv"), volume("pv", host="b"), pod("db", **with_claim())
    )
    assert await place(simulation, "db") == "b"
    lost = Simulation(node("a"), claim("data", volume="pv"), pod("db", **with_claim()))
    assert await place(lost, "db") is None


async def test_local_volumes_are_not_used_twice() -> None:
    simulation = Simulation(
        node("a"), node("b"), storage_class(), claim("one"), claim("two"), claim("three"),
        volume("pv-a", host="a"), volume("pv-b", host="b"),
        *(pod(f"db-{name}", **with_claim(name)) for name in ("one", "two", "three")),
    )  # fmt: skip
    placed = await simulation.run()
    assert sorted(placed.values()) == ["a", "b"]
    (waiting,) = set(simulation.reporter.conditions)
    assert "2 node(s) didn't find available persistent volumes to bind" in simulation.message(waiting)


async def test_allowed_topologies_of_a_provisioner() -> None:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["y"]}]}]
    simulation = Simulation(
        node("a", zone="x"), node("b", zone="y"), claim("data"), pod("db", **with_claim()),
        storage_class("example.com/disk", allowedTopologies=topologies),
    )  # fmt: skip
    assert await place(simulation, "db") == "b"


async def test_volume_zone() -> None:
    simulation = Simulation(
        node("a", zone="x"), node("b", zone="y"), claim("data", volume="pv"), volume("pv", zone="y"),
        pod("db", **with_claim()),
    )  # fmt: skip
    assert await place(simulation, "db") == "b"


async def test_read_write_once_pod() -> None:
    simulation = Simulation(
        node("a"), claim("data", volume="pv", mode="ReadWriteOncePod"), volume("pv"),
        pod("first", **with_claim()), pod("second", **with_claim()),
    )  # fmt: skip
    assert sorted(await simulation.run()) == ["first"]
    assert "ReadWriteOncePod access mode already in-use by another pod" in simulation.message("second")


async def test_volume_limit_of_a_driver() -> None:
    limits = {"drivers": [{"name": "disk", "nodeID": "a", "allocatable": {"count": 1}}]}
    simulation = Simulation(
        node("a"), make(CSINode, {"metadata": {"name": "a"}, "spec": limits}),
        claim("one", volume="pv-1"), claim("two", volume="pv-2"),
        volume("pv-1", driver="disk"), volume("pv-2", driver="disk"),
        pod("first", **with_claim("one")), pod("second", **with_claim("two")),
    )  # fmt: skip
    assert sorted(await simulation.run()) == ["first"]
    assert "1 node(s) exceed max volume count" in simulation.message("second")


# Dynamic resources


def resource_claim(name: str, count: int = 1) -> Any:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
    meta = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    return make(ResourceClaim, {"metadata": meta, "spec": {"devices": {"requests": [request]}}})


def devices(host: str, number: int) -> Any:
    return make(
        ResourceSlice,
        {
            "metadata": {"name": host},
            "spec": {
                "nodeName": host,
                "driver": "gpu.example.com",
                "pool": {"name": host, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{index}"} for index in range(number)],
            },
        },
    )


def with_devices(name: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}


async def test_devices_are_allocated_once() -> None:
    simulation = Simulation(
        node("a"), node("b"), make(DeviceClass, {"metadata": {"name": "gpu"}}), devices("b", 2),
        resource_claim("one"), resource_claim("two", 2),
        pod("first", **with_devices("one")), pod("second", **with_devices("two")),
    )  # fmt: skip
    assert await simulation.run() == {"first": "b"}
    assert "2 cannot allocate all claims" in simulation.message("second")


async def test_pod_waits_for_its_resource_claim() -> None:
    simulation = Simulation(node("a"), pod("first", **with_devices("missing")))
    await simulation.run()
    (queued,) = simulation.core.queue.pods()
    assert (queued.place, queued.gate) == ("gated", "DynamicResources")
