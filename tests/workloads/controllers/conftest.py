"""A control plane with the workload controllers of this package, and a kubelet that makes pods ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.core.v1 import Pod
from kubewright.api.errors import APIError
from kubewright.api.values.times import format_time
from kubewright.client import Client, patches
from kubewright.client.kind_types import ALL_NAMESPACES
from kubewright.controlplane.workload_connection import EmbeddedConnection
from kubewright.testing.server import start_test_server
from kubewright.testing.time import FakeTimeLoop
from kubewright.workloads import COMPONENTS, Workloads

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
)
HOLD = "test/hold"
"""Annotation of pods that the kubelet does not make ready."""


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """Run the tests of this folder in simulated time."""
    return {"fake-time": FakeTimeLoop}


class Cluster:
    """A running control plane with workload controllers."""

    def __init__(self, client: Client, workloads: Workloads) -> None:
        self.client = client
        self.workloads = workloads
        self.images_that_fail: set[str] = set()
        """Pods with these images do not become ready."""

    async def run_kubelet(self) -> None:
        """Make pods ready, and delete those that are terminating."""
        async for event in self.client.watch(Pod, namespace=ALL_NAMESPACES):
            pod = event.object
            try:
                if event.type != "DELETED":
                    await self._sync(pod)
            except APIError:
                continue

    async def _sync(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            if not meta.finalizers:
                await self.client.delete(Pod, pod.name, namespace=pod.namespace, grace_period=0)
            return
        assert pod.spec is not None
        image = (pod.spec.containers or [])[0].image
        if HOLD in (meta.annotations or {}) or image in self.images_that_fail:
            return
        if pod.status is None or pod.status.phase in (None, "Pending"):
            await self.set_ready(pod)

    async def set_ready(self, pod: Pod, ready: bool = True) -> None:
        """Set the phase to Running and the condition Ready."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": format_time(datetime.now(UTC)),
        }
        status = {"phase": "Running", "conditions": [condition]}
        await self.client.patch(
            Pod,
            pod.name,
            patches.merge_patch({"status": status}),
            namespace=pod.namespace,
            subresource="status",
        )

    async def pods(self, labels: dict[str, str] | None = None) -> list[Pod]:
        """Return the pods of the default namespace that are not terminating, by name."""
        found = await self.client.list(Pod, namespace="default", labels=labels)
        alive = [pod for pod in found if pod.metadata.deletion_timestamp is None]
        return sorted(alive, key=lambda pod: pod.name)

    async def events(self, kind: str, name: str) -> list[str]:
        """Return reason and message of the events of an object, oldest first."""
        found = await self.client.list("events", namespace="default")
        about = [
            each.raw
            for each in found
            if each.raw["involvedObject"]["kind"] == kind and each.raw["involvedObject"]["name"] == name
        ]
        about.sort(key=lambda each: each["metadata"]["name"])
        return [f"{each['reason']}: {each['message']}" for each in about]


@asynccontextmanager
async def run_cluster(names: Iterable[str] = CONTROLLERS, *, kubelet: bool = True) -> AsyncIterator[Cluster]:
    """Run a control plane with some controllers."""
    wanted = set(names)
    async with start_test_server("in-process") as server:
        components = [component for component in COMPONENTS if component.name in wanted]
        connection = EmbeddedConnection(server.plane)
        async with Workloads(connection, nodes=0, components=components) as workloads:
            cluster = Cluster(server.client(), workloads)
            running = asyncio.create_task(cluster.run_kubelet()) if kubelet else None
            try:
                yield cluster
            finally:
                if running is not None:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A control plane with all controllers and a kubelet."""
    async with run_cluster() as running:
        yield running


def template(
    labels: dict[str, str], *, image: str = "nginx:1", annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a pod template with one container."""
    return {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 1, **spec},
    }


def manifest(kind: str, name: str, spec: dict[str, Any], *, api_version: str = "apps/v1") -> dict[str, Any]:
    """Return an object in the default namespace."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
