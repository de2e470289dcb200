"""A control plane whose containers are local processes, for the tests of this folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import SimulatedCluster

from kubewright.api.unstructured import Unstructured
from kubewright.testing.server import start_test_server
from kubewright.workloads.nodes.containers.container_log import LogOptions
from kubewright.workloads.nodes.containers.runtime import CollectedStreams, ContainerRun, ExecRequest
from kubewright.workloads.nodes.processes import environment
from kubewright.workloads.nodes.processes.volumes import volumes

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="requires Linux")


class ProcessCluster(SimulatedCluster):
    """A control plane with one node that runs processes."""

    async def run_pod(self, name: str, *command: str, **fields: Any) -> Unstructured:
        """Create a pod with one container; `spec` has fields of the pod, the others are of the container."""
        spec = fields.pop("spec", {})
        container = {"name": "app", "image": "none", "command": list(command), **fields}
        if not command:
            del container["command"]
        return await self.create_pod(
            name, containers=[container], **{"terminationGracePeriodSeconds": 60, **spec}
        )

    async def create(self, kind: str, name: str, **fields: Any) -> None:
        """Create an object of the core API group."""
        metadata = {"name": name, "namespace": "default"}
        await self.client.create(
            Unstructured({"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields})
        )

    async def container(
        self, name: str, condition: Callable[[dict[str, Any]], object], timeout: float = 120.0
    ) -> dict[str, Any]:
        """Wait until the status of the first container of a pod fulfils a condition, and return it."""

        def check(status: dict[str, Any]) -> object:
            found = status.get("containerStatuses")
            return found and condition(found[0])

        status = await self.wait_for(name, check, timeout)
        return dict(status["containerStatuses"][0])

    async def waiting(self, name: str, reason: str) -> str:
        """Wait for a waiting state; return its message."""
        found = await self.container(
            name, lambda status: (status["state"].get("waiting") or {}).get("reason") == reason
        )
        return str(found["state"]["waiting"].get("message", ""))

    async def exit_of(self, name: str) -> dict[str, Any]:
        """Wait until the container of a pod has ended; return its terminated state."""
        found = await self.container(name, lambda status: "terminated" in status["state"])
        return dict(found["state"]["terminated"])

    def current_run(self, name: str, container: str = "app", *, previous: bool = False) -> ContainerRun:
        """Return the current or previous run of a container."""
        worker = self.nodes.pods.matching(name)[0]
        state = worker.find(container)
        assert state is not None
        run = state.previous_run if previous else state.run
        assert run is not None
        return run

    async def logs(self, name: str, container: str = "app", *, previous: bool = False) -> str:
        """Return the log of a container."""
        log = self.nodes.runtime.log(self.current_run(name, container, previous=previous))
        return b"".join([data async for data in log.read(LogOptions())]).decode()

    async def wait_for_log(self, name: str, text: str, container: str = "app") -> str:
        """Wait until the log of a container contains a text."""
        await self.container(name, lambda status: status.get("containerID"))
        async with asyncio.timeout(120):
            while text not in (found := await self.logs(name, container)):
                await asyncio.sleep(0.02)
        return found

    async def exec(self, name: str, *command: str) -> tuple[int, str]:
        """Run a command in a container; return its exit code and output."""
        streams = CollectedStreams()
        worker = self.nodes.pods.matching(name)[0]
        request = ExecRequest(list(command), worker.pod, "app", streams)
        code = await self.nodes.runtime.exec(self.current_run(name), request)
        return code, streams.output.decode()


@asynccontextmanager
async def start_process_cluster(kind: Any = "in-process", **options: Any) -> AsyncIterator[ProcessCluster]:
    """Start a control plane with one node that runs processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "CONFIG_RETRY_SECONDS", 0.2)
        patch.setattr(volumes, "MOUNT_RETRY_SECONDS", 0.2)
        async with start_test_server(kind, **{"nodes": 1, "run_processes": True, **options}) as server:
            server.nodes.settings.start_delay = 0.0
            server.nodes.settings.crash_backoff = 0.1
            manager: Any = None
            yield ProcessCluster(server, server.client(), manager, server.nodes)
