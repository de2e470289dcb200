"""Fixtures: chosen workload components on an in-process control plane, in fake time.

Tests set the status of pods themselves; no scheduler and no nodes run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.waiting import TIMEOUT, eventually

from kubewright.client import Client
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.workload_connection import EmbeddedConnection
from kubewright.testing.server import start_test_server
from kubewright.testing.time import FakeTimeLoop
from kubewright.workloads import COMPONENTS, Workloads


class Components:
    """Running components, and a client of an administrator."""

    def __init__(
        self, client: Client, workloads: Workloads, requests: list[str], plane: ControlPlane
    ) -> None:
        self.client = client
        self.workloads = workloads
        self.plane = plane
        self.requests = requests
        """Writes that the server received from others than `client`."""

    async def eventually(self, check: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
        """Call an async function until it returns something true, without an exception; return that."""
        return await eventually(check, timeout, ignore=Exception)

    async def events(self, namespace: str = "default") -> list[tuple[str, str]]:
        """Return reason and message of the events, in order of their creation."""
        await asyncio.sleep(0.1)
        found = await self.client.list("events", namespace=namespace)
        found = sorted(found, key=lambda event: int(event.raw["metadata"]["resourceVersion"]))
        return [(event.raw["reason"], event.raw.get("message", "")) for event in found]

    async def set_pod(
        self,
        name: str,
        *,
        phase: str = "Running",
        ready: bool | None = None,
        ip: str = "",
        namespace: str = "default",
        **status: Any,
    ) -> None:
        """Set the status of a pod."""
        ready = phase == "Running" if ready is None else ready
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body: dict[str, Any] = {"phase": phase, **status}
        body["conditions"] = [
            *(status.get("conditions") or ()),
            {"type": "Ready", "status": str(ready), "lastTransitionTime": moment},
        ]
        if ip:
            body["podIP"] = ip
            body["podIPs"] = [{"ip": ip}]
        from kubewright.client import patches

        await self.client.patch(
            "pods",
            name,
            patches.merge_patch({"status": body}),
            namespace=namespace,
            subresource="status",
        )


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    return {"fake-time": FakeTimeLoop}


@pytest.fixture
def run() -> Callable[..., AbstractAsyncContextManager[Components]]:
    """Run the components with these names."""

    @asynccontextmanager
    async def running(
        *names: str, controllers: bool = False, cluster_cidrs: Sequence[str] = (), **options: Any
    ) -> AsyncIterator[Components]:
        chosen = [component for component in COMPONENTS if component.name in names]
        assert len(chosen) == len(names), "unknown component"
        if not controllers:
            options.setdefault("disable_admission_plugins", ("ServiceAccount",))
        async with start_test_server("in-process", controllers=controllers, **options) as server:
            requests: list[str] = []
            connection = EmbeddedConnection(server.plane)
            original = connection.client

            def client(user: str) -> Client:
                async def count(call: Any, proceed: Any) -> Any:
                    if call.method != "GET":
                        part = f"/{call.subresource}" if call.subresource else ""
                        requests.append(f"{call.verb} {call.resource}{part}")
                    return await proceed(call)

                return original(user).with_interceptor(count)

            connection.client = client  # type: ignore[method-assign]
            workloads = Workloads(connection, nodes=0, components=chosen, cluster_cidrs=cluster_cidrs)
            async with workloads:
                yield Components(server.client(), workloads, requests, server.plane)

    return running


def pod(name: str, labels: dict[str, str] | None = None, *, node: str = "n1", **spec: Any) -> dict[str, Any]:
    """Return a pod with one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec},
    }


def node(name: str, zone: str = "") -> dict[str, Any]:
    """Return a node."""
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture(name="pod")
def pod_fixture() -> Callable[..., dict[str, Any]]:
    return pod


@pytest.fixture(name="node")
def node_fixture() -> Callable[..., dict[str, Any]]:
    return node
