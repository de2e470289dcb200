"""Random edits of workloads, failures of nodes and restarts from SQLite end in the declared state.

A Deployment, a StatefulSet and Jobs run on three nodes. After any sequence of steps, once all nodes run
again, exactly the declared pods run, every pod has an existing owner, and the Deployment never had more pods
than its surge limit allows.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.waiting import eventually
from tests.workloads.controllers.conftest import manifest, template

from kubewright.api.apps.v1 import Deployment, ReplicaSet, StatefulSet
from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import Node, Pod
from kubewright.api.owners import controller_of
from kubewright.client import Client, patches
from kubewright.testing.server import TestServer, start_test_server
from kubewright.testing.time import FakeTimeLoop

EXAMPLES = int(os.environ.get("KUBEWRIGHT_CONVERGENCE_EXAMPLES", "4"))
"""Number of random sequences; set it higher for a long manual run."""
NODES = 3
MAX_SURGE = 2
DECLARED = {"web": 4, "db": 2}
LABELS = {name: {"app": name} for name in (*DECLARED, "job")}
KINDS: dict[str, type[Deployment | StatefulSet]] = {"web": Deployment, "db": StatefulSet}
names = st.sampled_from(sorted(DECLARED))
nodes = st.sampled_from([f"node-{number}" for number in range(NODES)])


def workload(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"replicas": DECLARED[name], "selector": {"matchLabels": LABELS[name]}}
    spec["template"] = template(LABELS[name], image="app:1")
    if name == "web":
        spec["strategy"] = {"rollingUpdate": {"maxSurge": MAX_SURGE, "maxUnavailable": 1}}
    else:
        spec["serviceName"] = name
    return manifest(KINDS[name].__name__, name, spec)


class ClusterMachine(RuleBasedStateMachine):
    """The declared state, and a control plane that has to reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner(loop_factory=FakeTimeLoop)
        self.stack = AsyncExitStack()
        self.replicas = dict(DECLARED)
        self.images = dict.fromkeys(DECLARED, "app:1")
        self.jobs: dict[str, int] = {}
        self.failed: set[str] = set()
        self.limit = DECLARED["web"] + MAX_SURGE
        self.most = 0
        self.server: TestServer
        self.client: Client

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.runner.run(coroutine)

    # Lifecycle

    @initialize()
    def start(self) -> None:
        self.run(self._start())
        self.run(self._create())

    async def _start(self) -> None:
        store = f"sqlite:{self.directory / 'state.db'}"
        self.server = await self.stack.enter_async_context(
            start_test_server("in-process", nodes=NODES, store=store)
        )
        self.client = self.server.client()
        observing = asyncio.create_task(self._observe(self.client))
        self.stack.callback(observing.cancel)

    async def _create(self) -> None:
        for name in DECLARED:
            await self.client.create(workload(name))

    async def _observe(self, client: Client) -> None:
        """Record the largest number of pods of the Deployment that are neither terminating nor finished."""
        alive: set[str] = set()
        async for event in client.watch(Pod, namespace="default", labels=LABELS["web"]):
            pod = event.object
            finished = pod.status is not None and pod.status.phase in ("Failed", "Succeeded")
            if event.type == "DELETED" or pod.metadata.deletion_timestamp is not None or finished:
                alive.discard(pod.name)
            else:
                alive.add(pod.name)
            self.most = max(self.most, len(alive))

    def teardown(self) -> None:
        try:
            if hasattr(self, "client"):
                self.run(self._converge())
        finally:
            self.run(self.stack.aclose())
            self.runner.close()
            shutil.rmtree(self.directory)

    # Steps

    @rule(name=names, replicas=st.integers(0, 5))
    def scale(self, name: str, replicas: int) -> None:
        self.replicas[name] = replicas
        if name == "web":
            self.limit = max(self.limit, replicas + MAX_SURGE)
        self.run(self._patch(name, {"spec": {"replicas": replicas}}))

    @rule(name=names, version=st.integers(1, 3))
    def set_image(self, name: str, version: int) -> None:
        self.images[name] = f"app:{version}"
        container = {"name": "c", "image": self.images[name]}
        self.run(self._patch(name, {"spec": {"template": {"spec": {"containers": [container]}}}}))

    @rule(completions=st.integers(1, 3))
    def create_job(self, completions: int) -> None:
        name = f"job-{len(self.jobs)}"
        self.jobs[name] = completions
        spec = {"completions": completions, "parallelism": 2, "backoffLimit": 100}
        pods = template(LABELS["job"], restartPolicy="Never")
        job = manifest("Job", name, {**spec, "template": pods}, api_version="batch/v1")
        self.run(self._create_object(job))

    @rule(position=st.integers(0, 9), fails=st.booleans())
    def remove_pod(self, position: int, fails: bool) -> None:
        self.run(self._remove_pod(position, fails))

    @rule(node=nodes, unschedulable=st.booleans())
    def cordon(self, node: str, unschedulable: bool) -> None:
        self.run(self.server.nodes.cordon(node, unschedulable=unschedulable))

    @rule(node=nodes)
    def fail_node(self, node: str) -> None:
        self.failed.add(node)
        self.server.nodes.fail(node)

    @precondition(lambda self: self.failed)
    @rule()
    def recover_node(self) -> None:
        self.run(self.server.nodes.recover(self.failed.pop()))

    @rule()
    def restart(self) -> None:
        self.failed.clear()
        self.run(self._restart())

    @rule(seconds=st.sampled_from([0.02, 0.3, 5.0, 70.0, 420.0]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    async def _restart(self) -> None:
        await self.stack.aclose()
        await self._start()

    async def _create_object(self, obj: dict[str, Any]) -> None:
        await self.client.create(obj)

    async def _patch(self, name: str, change: dict[str, Any]) -> None:
        patch = patches.strategic_merge_patch(change)
        await self.client.patch(KINDS[name], name, patch, namespace="default")

    async def _remove_pod(self, position: int, fails: bool) -> None:
        pods = await self.client.list(Pod, namespace="default")
        if not pods:
            return
        pod = pods[position % len(pods)]
        if fails:
            patch = patches.merge_patch({"status": {"phase": "Failed"}})
            await self.client.patch(Pod, pod.name, patch, namespace="default", subresource="status")
        else:
            await self.client.delete(Pod, pod.name, namespace="default", missing_ok=True)

    # Convergence

    async def _converge(self) -> None:
        for node in self.failed:
            await self.server.nodes.recover(node)
        for node in await self.client.list(Node):
            await self.server.nodes.cordon(node.name, unschedulable=False)
        self.missing = "nothing was checked"
        try:
            await eventually(self._has_converged, timeout=3600, interval=5)
        except TimeoutError:
            raise AssertionError(self.missing) from None
        assert self.most <= self.limit

    async def _has_converged(self) -> bool:
        for check in (self._check_deployment, self._check_stateful_set, self._check_jobs, self._check_pods):
            self.missing = await check()
            if self.missing:
                return False
        return True

    async def _check_deployment(self) -> str:
        found = await self.client.get(Deployment, "web", namespace="default")
        status, wanted = found.status, self.replicas["web"]
        assert status is not None
        counts = [status.replicas or 0, status.updated_replicas or 0, status.available_replicas or 0]
        current = status.observed_generation == found.metadata.generation
        return "" if current and counts == [wanted] * 3 else f"Deployment: {counts}, not {wanted}"

    async def _check_stateful_set(self) -> str:
        found = await self.client.get(StatefulSet, "db", namespace="default")
        status, wanted = found.status, self.replicas["db"]
        if status is None or status.observed_generation != found.metadata.generation:
            return "StatefulSet: generation not observed"
        counts = [status.replicas or 0, status.ready_replicas or 0]
        updated = not wanted or status.current_revision == status.update_revision
        return "" if counts == [wanted] * 2 and updated else f"StatefulSet: {counts}, not {wanted}"

    async def _check_jobs(self) -> str:
        for name, completions in self.jobs.items():
            job = await self.client.get(Job, name, namespace="default")
            conditions = (job.status.conditions if job.status else None) or ()
            complete = any(each.type == "Complete" and each.status == "True" for each in conditions)
            if not complete or job.status is None or job.status.succeeded != completions:
                return f"Job {name} is not complete"
        return ""

    async def _check_pods(self) -> str:
        owners = {
            owner.metadata.uid
            for kind in (ReplicaSet, StatefulSet, Job)
            for owner in await self.client.list(kind, namespace="default")
        }
        running: dict[str, list[Pod]] = {name: [] for name in DECLARED}
        for pod in await self.client.list(Pod, namespace="default"):
            owner, labels = controller_of(pod), pod.metadata.labels or {}
            if owner is None or owner.uid not in owners:
                return f"{pod.name} has no owner"
            phase = pod.status.phase if pod.status else ""
            if phase == "Running" and pod.metadata.deletion_timestamp is None and labels["app"] in running:
                running[labels["app"]].append(pod)
            elif phase not in ("Failed", "Succeeded"):
                return f"{pod.name} is {phase}"
        for name, pods in running.items():
            images = {(pod.spec.containers or [])[0].image for pod in pods if pod.spec is not None}
            if len(pods) != self.replicas[name] or not images <= {self.images[name]}:
                return f"{name}: {len(pods)} pods with {images}"
        expected = [f"db-{number}" for number in range(self.replicas["db"])]
        found = sorted(pod.name for pod in running["db"])
        return "" if found == expected else f"StatefulSet has the pods {found}"


def test_cluster_converges() -> None:
    run_state_machine_as_test(
        ClusterMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=10,
            deadline=None,
            derandomize=EXAMPLES < 10,
            suppress_health_check=list(HealthCheck),
        ),
    )


async def test_drain_respects_a_budget_while_a_node_fails() -> None:
    async with start_test_server("in-process", nodes=NODES) as server:
        client = server.client()
        spec = {"minAvailable": 4, "selector": {"matchLabels": LABELS["web"]}}
        budget = manifest("PodDisruptionBudget", "web", spec, api_version="policy/v1")
        await client.create(budget)
        web = workload("web")
        web["spec"]["replicas"] = 6
        await client.create(web)
        await server.plane.wait_until_idle()
        ready: list[int] = []
        observing = asyncio.create_task(_observe_ready(client, ready))
        await asyncio.sleep(1)
        server.nodes.fail("node-0")
        await asyncio.sleep(60)
        draining = asyncio.create_task(server.nodes.drain("node-1"))
        await asyncio.sleep(60)
        assert not draining.done()  # until the pods of node-0 are replaced, after 300 s
        await asyncio.wait_for(draining, 900)
        await server.plane.wait_until_idle()
        observing.cancel()
        pods = await client.list(Pod, namespace="default")
        placed = [pod.spec.node_name for pod in pods if pod.spec and pod.metadata.deletion_timestamp is None]
        assert placed == ["node-2"] * 6
        assert min(ready) >= 4


async def _observe_ready(client: Client, counts: list[int]) -> None:
    """Record the number of pods that are ready on nodes that run, after each change."""
    ready: set[str] = set()
    async for event in client.watch(Pod, namespace="default", labels=LABELS["web"]):
        pod = event.object
        conditions = (pod.status.conditions if pod.status else None) or ()
        is_ready = any(each.type == "Ready" and each.status == "True" for each in conditions)
        if event.type == "DELETED" or pod.metadata.deletion_timestamp is not None or not is_ready:
            ready.discard(pod.name)
        else:
            ready.add(pod.name)
        if len(ready) == 6 or counts:
            counts.append(len(ready))
