"""Random edits of a Deployment always end in the declared state, and never exceed the surge limit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import eventually
from tests.workloads.controllers.conftest import manifest, template

from kubewright.api.apps.v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubewright.api.core.v1 import Node, Pod
from kubewright.api.owners import controller_of
from kubewright.client import Client, patches
from kubewright.testing.server import start_test_server
from kubewright.testing.time import fake_time

LABELS = {"app": "web"}
MAX_SURGE = 2

edits = st.one_of(
    st.tuples(st.just("scale"), st.integers(0, 6)),
    st.tuples(st.just("image"), st.integers(1, 3)),
    st.tuples(st.just("delete pod"), st.integers(0, 5)),
    st.tuples(st.just("fail pod"), st.integers(0, 5)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("cordon"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.integers(0, 40)),
)


def web(replicas: int) -> dict[str, Any]:
    strategy = {"rollingUpdate": {"maxSurge": MAX_SURGE, "maxUnavailable": 1}}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": template(LABELS, image="web:1"),
        "strategy": strategy,
    }
    return manifest("Deployment", "web", spec)


class Model:
    """The declared state, and the largest number of pods that is allowed since the start."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.replicas = 3
        self.image = "web:1"
        self.limit = self.replicas + MAX_SURGE
        self.most = 0

    async def observe(self) -> None:
        """Record the largest number of pods that are not terminating."""
        alive: set[str] = set()
        async for event in self.client.watch(Pod, namespace="default"):
            pod = event.object
            finished = pod.status is not None and pod.status.phase in ("Failed", "Succeeded")
            if event.type == "DELETED" or pod.metadata.deletion_timestamp is not None or finished:
                alive.discard(pod.name)
            else:
                alive.add(pod.name)
            self.most = max(self.most, len(alive))

    async def edit(self, action: str, value: int) -> None:
        """Apply one edit."""
        if action == "scale":
            self.replicas = value
            self.limit = max(self.limit, value + MAX_SURGE)
            await self.client.scale(Deployment, "web", namespace="default", replicas=value)
        elif action == "image":
            self.image = f"web:{value}"
            container = {"name": "c", "image": self.image}
            await self._patch({"spec": {"template": {"spec": {"containers": [container]}}}})
        elif action == "pause":
            await self._patch({"spec": {"paused": bool(value)}})
        elif action == "cordon":
            cordon = patches.merge_patch({"spec": {"unschedulable": bool(value)}})
            await self.client.patch(Node, "node-0", cordon)
        elif action == "wait":
            await asyncio.sleep(value / 10)
        elif pods := await self.client.list(Pod, namespace="default"):
            pod = pods[value % len(pods)]
            if action == "delete pod":
                await self.client.delete(Pod, pod.name, namespace="default", missing_ok=True)
            else:
                failed = patches.merge_patch({"status": {"phase": "Failed"}})
                await self.client.patch(Pod, pod.name, failed, namespace="default", subresource="status")

    async def _patch(self, change: dict[str, Any]) -> None:
        patch = patches.strategic_merge_patch(change)
        await self.client.patch(Deployment, "web", patch, namespace="default")

    async def has_converged(self) -> bool:
        """Whether exactly the declared pods run, all of them owned, and the status says so."""
        deployment = await self.client.get(Deployment, "web", namespace="default")
        status = deployment.status
        assert status is not None
        counters = (status.replicas or 0, status.updated_replicas or 0, status.available_replicas or 0)
        if counters != (self.replicas,) * 3 or status.observed_generation != deployment.metadata.generation:
            return False
        sets = {each.metadata.uid for each in await self.client.list(ReplicaSet, namespace="default")}
        pods = []
        for pod in await self.client.list(Pod, namespace="default"):
            owner = controller_of(pod)
            if owner is None or owner.uid not in sets:
                return False
            if pod.status is not None and pod.status.phase == "Running":
                pods.append(pod)
            elif pod.status is None or pod.status.phase != "Failed":
                return False
        images = {(pod.spec.containers or [])[0].image for pod in pods if pod.spec is not None}
        return len(pods) == self.replicas and images <= {self.image}


async def check(steps: list[tuple[str, int]]) -> None:
    async with start_test_server("in-process", nodes=2) as server:
        client = server.client()
        await client.create(web(3))
        model = Model(client)
        observing = asyncio.create_task(model.observe())
        try:
            for action, value in steps:
                await model.edit(action, value)
            await model.edit("pause", 0)
            await eventually(model.has_converged, timeout=600, interval=1)
            assert model.most <= model.limit
            before = await server.plane.storage.revision()
            await asyncio.sleep(5)
            events = await client.list("events", namespace="default")
            assert await server.plane.storage.revision() - before <= 10, events[-3:]
        finally:
            observing.cancel()
            await asyncio.gather(observing, return_exceptions=True)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(edits, max_size=8))
def test_edits_converge(steps: list[tuple[str, int]]) -> None:
    fake_time(check(steps))


async def test_rollout_continues_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with start_test_server("in-process", nodes=2, store=store) as server:
        client = server.client()
        await client.create(web(6))
        await eventually(_available(client, 6))
        model = Model(client)
        await model.edit("image", 2)
        await asyncio.sleep(0.2)
    async with start_test_server("in-process", nodes=2, store=store) as server:
        model = Model(server.client())
        model.replicas, model.image = 6, "web:2"
        await eventually(model.has_converged, timeout=600, interval=1)


def _available(client: Client, count: int) -> Any:
    async def check() -> bool:
        found = await client.get(Deployment, "web", namespace="default")
        return found.status is not None and found.status.available_replicas == count

    return check


async def test_all_kinds_become_available() -> None:
    async with start_test_server("in-process", nodes=3) as server:
        client = server.client()
        db = {
            "replicas": 2,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template({"app": "db"}),
        }
        agent = {"selector": {"matchLabels": {"app": "agent"}}, "template": template({"app": "agent"})}
        await client.create(web(3))
        await client.create(manifest("StatefulSet", "db", db))
        await client.create(manifest("DaemonSet", "agent", agent))

        async def available() -> bool:
            deployment = (await client.get(Deployment, "web", namespace="default")).status
            stateful_set = (await client.get(StatefulSet, "db", namespace="default")).status
            daemon_set = (await client.get(DaemonSet, "agent", namespace="default")).status
            return (
                (deployment and deployment.available_replicas),
                (stateful_set and stateful_set.available_replicas),
                (daemon_set and daemon_set.number_available),
            ) == (3, 2, 3)

        await eventually(available)
        nodes = [pod.spec.node_name for pod in await client.list(Pod, namespace="default") if pod.spec]
        assert set(nodes) == {"node-0", "node-1", "node-2"}
