"""Pods and nodes for scheduler tests, a simulated cluster, and a scheduler on a control plane."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.waiting import eventually

from kubewright.api.core.v1 import Node, Pod, PodCondition
from kubewright.api.encoding.codec import decode
from kubewright.api.meta import MetaObject
from kubewright.client import Client, merge_patch
from kubewright.manager import Cluster, Manager
from kubewright.testing.server import start_test_server
from kubewright.workloads.scheduler import Profile, Scheduler, SchedulerCore, StaticLister, add_scheduler

T = TypeVar("T", bound=MetaObject)
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_uids = itertools.count(1)


def make(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return an object from its JSON form."""
    return decode(json.dumps(data).encode(), kind)


def node_data(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    **allocatable: str,
) -> dict[str, Any]:
    """Return a node; further arguments are extended resources, with `__` for `/` and `_` for `.`."""
    extended = {name.replace("__", "/").replace("_", "."): value for name, value in allocatable.items()}
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **extended}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOSTNAME: name, **({ZONE: zone} if zone else {}), **(labels or {})},
        },
        "spec": {
            **({"taints": list(taints)} if taints else {}),
            **({"unschedulable": True} if unschedulable else {}),
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def node(name: str, **options: Any) -> Node:
    """Return a node object."""
    return make(Node, node_data(name, **options))


def pod_data(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod with one container; further arguments are fields of the spec."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    container: dict[str, Any] = {"name": "main", "image": "example.com/app:1"}
    if requests:
        container["resources"] = {"requests": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **({"labels": dict(labels)} if labels else {})},
        "spec": {"containers": [container], **spec},
    }


def pod(name: str, *, status: Mapping[str, Any] | None = None, **options: Any) -> Pod:
    """Return a pod object with a uid."""
    data = pod_data(name, **options)
    data["metadata"]["uid"] = f"uid-{next(_uids)}"
    if status:
        data["status"] = dict(status)
    return make(Pod, data)


def required_affinity(key: str, *, anti: bool = False, **labels: str) -> dict[str, Any]:
    """Return `spec.affinity` with one required pod affinity or anti-affinity term."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    kind = "podAntiAffinity" if anti else "podAffinity"
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


class RecordingReporter:
    """Reporter that stores events and conditions."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.conditions: dict[str, PodCondition] = {}
        self.nominations: dict[str, str] = {}

    def record_event(
        self, pod: Pod, type: str, reason: str, action: str, message: str, related: Pod | None
    ) -> None:
        self.events.append((pod.metadata.name or "", reason, message))

    def update_status(self, pod: Pod, condition: PodCondition, nominated_node: str | None) -> None:
        self.conditions[pod.metadata.name or ""] = condition
        if nominated_node is not None:
            self.nominations[pod.metadata.name or ""] = nominated_node


class Simulation:
    """A scheduler core on given objects, with a clock that the test sets."""

    def __init__(
        self,
        *objects: MetaObject,
        profiles: Sequence[Profile] = (Profile(),),
        seed: int = 1,
        **options: Any,
    ) -> None:
        self.now = 0.0
        self.reporter = RecordingReporter()
        self.lister = StaticLister()
        self.core = SchedulerCore(
            profiles,
            lister=self.lister,
            clock=lambda: self.now,
            rng=random.Random(seed),
            reporter=lambda name: self.reporter,
            **options,
        )
        self.add(*objects)

    def add(self, *objects: MetaObject) -> None:
        """Add nodes, pods and other objects."""
        for obj in objects:
            if isinstance(obj, Node):
                self.core.set_node(obj)
            elif isinstance(obj, Pod):
                self.core.set_pod(obj)
            else:
                self.lister.put(obj)

    async def run(self) -> dict[str, str]:
        """Schedule all pods that are ready; return the node of each scheduled pod."""
        await self.core.run_until_idle()
        self.core.cache.update_snapshot(self.core.snapshot)
        return {
            info.name: name
            for name, node in sorted(self.core.snapshot.by_name.items())
            for info in node.pods.values()
        }

    def message(self, name: str) -> str:
        """The message of the condition of a pod."""
        return self.reporter.conditions[name].message or ""


class ScheduledCluster:
    """A control plane in this process with a scheduler, and no controllers."""

    def __init__(self, client: Client, scheduler: Scheduler, manager: Manager) -> None:
        self.client = client
        self.scheduler = scheduler
        self.manager = manager

    async def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects."""
        for data in objects:
            await self.client.create(dict(data))
            if data["kind"] == "Node":
                # New nodes have the taint not-ready, which the node lifecycle controller removes.
                taints = data["spec"].get("taints")
                name = data["metadata"]["name"]
                await self.client.patch(Node, name, merge_patch({"spec": {"taints": taints}}))

    async def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """Read a pod from the server."""
        return await self.client.get(Pod, name, namespace=namespace)

    async def node_of(self, name: str) -> str:
        """Wait until a pod is scheduled; return its node."""

        async def check() -> str:
            found = await self.pod(name)
            return (found.spec.node_name if found.spec else None) or ""

        return str(await eventually(check))

    async def condition(self, name: str, type: str = "PodScheduled") -> PodCondition:
        """Wait until a pod has a condition with a message; return it."""

        async def check() -> PodCondition | None:
            found = await self.pod(name)
            conditions = (found.status.conditions if found.status else None) or ()
            return next((each for each in conditions if each.type == type and each.message), None)

        found: PodCondition = await eventually(check)
        return found

    async def events(self, name: str, reason: str) -> list[dict[str, Any]]:
        """Wait for events about a pod."""

        async def check() -> list[dict[str, Any]]:
            listed = await self.client.list("events.events.k8s.io", namespace="default")
            return [
                each.raw
                for each in listed
                if each.raw["regarding"]["name"] == name and each.raw["reason"] == reason
            ]

        found: list[dict[str, Any]] = await eventually(check)
        return found


@asynccontextmanager
async def start_scheduled_cluster(
    profiles: Sequence[Profile] = (Profile(),), **options: Any
) -> AsyncIterator[ScheduledCluster]:
    """Start a control plane and a scheduler."""
    async with start_test_server("in-process") as server:
        client = server.client()
        manager = Manager(Cluster(server.client()), handle_signals=False)
        scheduler = add_scheduler(manager, profiles, rng=random.Random(1), **options)
        stop = asyncio.Event()
        running = asyncio.create_task(manager.run(stop))
        try:
            yield ScheduledCluster(client, scheduler, manager)
        finally:
            stop.set()
            await running
