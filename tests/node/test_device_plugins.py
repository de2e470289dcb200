"""Device plug-ins on simulated nodes: registration, capacity, assignment and health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="requires kubewright[node]")

from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster
from tests.workloads.nodes.simulated_cluster import SimulatedCluster

from device_plugin import SerialPorts
from kubewright.node import Allocation, Device, DevicePlugin, RPCError
from kubewright.node.devices.messages import REGISTER, RegisterRequest
from kubewright.node.rpc import Channel
from kubewright.testing.server import start_test_server

RESOURCE = "example.com/serial-port"


@asynccontextmanager
async def start_simulated(kubelets: Path, **options: Any) -> AsyncIterator[SimulatedCluster]:
    async with start_test_server("in-process", nodes=1, kubelet_directory=kubelets, **options) as server:
        server.nodes.settings.start_delay = 0.0
        manager: Any = None
        yield SimulatedCluster(server, server.client(), manager, server.nodes)


@asynccontextmanager
async def running(plugin: DevicePlugin, kubelets: Path, node: str = "node-0") -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(plugin.run(stop, kubelet_directory=kubelets / node, poll_interval=0.05))
    try:
        yield
    finally:
        stop.set()
        await task


def container(amount: int, **fields: Any) -> dict[str, Any]:
    limits = {RESOURCE: str(amount)}
    return {"name": "app", "image": "nginx:1", "resources": {"limits": limits}, **fields}


async def counts(cluster: SimulatedCluster) -> tuple[str, str]:
    """Return capacity and allocatable of the resource."""
    status = (await cluster.client.get("nodes", "node-0")).raw["status"]
    return status["capacity"].get(RESOURCE, ""), status["allocatable"].get(RESOURCE, "")


def ports(path: Path, *names: str) -> Path:
    path.mkdir(exist_ok=True)
    for name in names:
        (path / name).write_text(f"port {name}\n")
    return path


async def test_devices_are_advertised_scheduled_and_assigned(kubelets: Path, eventually: Any) -> None:
    async with start_simulated(kubelets) as cluster:
        devices = ports(kubelets / "dev", "tty0", "tty1", "tty2")
        async with running(SerialPorts(devices, interval=0.02), kubelets):
            await eventually(lambda: _equals(counts(cluster), ("3", "3")))
            # Without a node name: the scheduler has to find the node.
            await cluster.create_pod("first", containers=[container(2)], nodeName="")
            await cluster.wait_ready("first", timeout=120)
            await cluster.create_pod("second", containers=[container(2)], nodeName="")
            status = await cluster.wait_for("second", lambda status: status.get("conditions"))
            assert f"1 Insufficient {RESOURCE}" in status["conditions"][0]["message"]

            run = _run(cluster, "first")
            assert run.allocation.envs == {"SERIAL_PORTS": "/dev/tty0,/dev/tty1"}
            assert await exec_output(cluster, "first", "printenv", "SERIAL_PORTS") == "/dev/tty0,/dev/tty1\n"
            assert "tty0\ntty1\n" in await exec_output(cluster, "first", "ls", "/dev")

            # The devices are free when the pod has ended.
            await cluster.client.delete("pods", "first", namespace="default")
            await cluster.wait_ready("second", timeout=120)


async def test_unhealthy_devices_lower_what_is_allocatable(kubelets: Path, eventually: Any) -> None:
    async with start_simulated(kubelets) as cluster:
        devices = ports(kubelets / "dev", "tty0", "tty1")
        async with running(SerialPorts(devices, interval=0.02), kubelets):
            await eventually(lambda: _equals(counts(cluster), ("2", "2")))
            (devices / "tty0").unlink()
            await eventually(lambda: _equals(counts(cluster), ("2", "1")))
            await cluster.create_pod("one", containers=[container(1)])
            await cluster.wait_ready("one", timeout=120)
            assert _run(cluster, "one").allocation.envs == {"SERIAL_PORTS": "/dev/tty1"}
        # A plug-in that has ended has no healthy devices.
        await eventually(lambda: _equals(counts(cluster), ("2", "0")))


async def test_a_restarted_kubelet_keeps_assignments(kubelets: Path, eventually: Any) -> None:
    plugin = SerialPorts(ports(kubelets / "dev", "tty0", "tty1"), interval=0.02)
    async with start_simulated(kubelets) as cluster, running(plugin, kubelets):
        await eventually(lambda: _equals(counts(cluster), ("2", "2")))
        await cluster.create_pod("before", containers=[container(1)])
        await cluster.wait_ready("before", timeout=120)
        assert cluster.nodes.plugins is not None
        await cluster.nodes.plugins.restart("node-0")
        devices = cluster.nodes.plugins.nodes["node-0"].devices
        await eventually(lambda: devices.counts()[RESOURCE].allocatable == 2)
        await eventually(lambda: _equals(counts(cluster), ("2", "2")))
        await cluster.create_pod("after", containers=[container(1)])
        await cluster.wait_ready("after", timeout=120)
        assert _run(cluster, "after").allocation.envs == {"SERIAL_PORTS": "/dev/tty1"}


class Picky(DevicePlugin):
    """Rejects one device, and fails the first start of a container."""

    resource = RESOURCE

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[list[str]] = []

    async def devices(self) -> AsyncIterator[list[Device]]:
        yield [Device("a", numa_nodes=(1,)), Device("b"), Device("broken")]

    async def get_preferred_allocation(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        return sorted(available, reverse=size == 1)[:size]

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        if "broken" in ids:
            raise OSError("the device does not respond")
        return Allocation(envs={"DEVICES": ",".join(ids)}, annotations={"example.com/ids": ",".join(ids)})

    async def pre_start_container(self, ids: Sequence[str]) -> None:
        self.starts.append(list(ids))
        if len(self.starts) == 1:
            raise RPCError("reset failed", code="INTERNAL")


async def test_failed_allocations_reject_the_pod(kubelets: Path, eventually: Any) -> None:
    async with start_simulated(kubelets) as cluster:
        cluster.nodes.settings.crash_backoff = 0.05
        plugin = Picky()
        async with running(plugin, kubelets):
            await eventually(lambda: _equals(counts(cluster), ("3", "3")))
            # The plug-in prefers the last device for a single one.
            await cluster.create_pod("rejected", containers=[container(1)])
            status = await cluster.wait_for("rejected", lambda status: status["phase"] == "Failed")
            assert status["reason"] == "UnexpectedAdmissionError"
            assert status["message"] == (
                "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = "
                "the device does not respond, which is unexpected"
            )
            # Init containers and containers share devices.
            init = container(2, name="init") | {"command": ["true"]}
            await cluster.create_pod("accepted", initContainers=[init], containers=[container(1)])
            await cluster.wait_ready("accepted", timeout=120)
            assert _run(cluster, "accepted").allocation.envs == {"DEVICES": "a"}
            assert plugin.starts == [["a", "b"], ["a", "b"], ["a"]]
            await cluster.wait_for_reasons("accepted", "Failed")


async def test_registrations_that_are_not_valid(kubelets: Path) -> None:
    async with (
        start_simulated(kubelets),
        Channel(kubelets / "node-0" / "device-plugins" / "kubelet.sock") as channel,
    ):
        request = RegisterRequest(version="v1alpha1", endpoint="x.sock", resource_name=RESOURCE)
        with pytest.raises(RPCError, match='API version "v1alpha1" is not supported by kubelet'):
            await channel.call(REGISTER, request)
        request = RegisterRequest(version="v1beta1", endpoint="x.sock", resource_name="kubernetes.io/x")
        with pytest.raises(RPCError, match=r'the ResourceName "kubernetes\.io/x" is invalid'):
            await channel.call(REGISTER, request)


def test_resource_names_are_checked() -> None:
    class Unnamed(DevicePlugin):
        resource = "gpu"

    with pytest.raises(ValueError, match="expected the name of an extended resource"):
        Unnamed()


async def test_errors_of_the_device_list_end_the_plug_in(kubelets: Path) -> None:
    class Repeated(DevicePlugin):
        resource = RESOURCE

        async def devices(self) -> AsyncIterator[list[Device]]:
            yield [Device("a"), Device("a")]

    with pytest.raises(ValueError, match="two devices have the same id"):
        await Repeated().run(asyncio.Event(), kubelet_directory=kubelets)


async def test_paths_too_long_for_sockets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="paths of sockets have at most 107"):
        async with start_simulated(tmp_path / ("x" * 100)):
            pass


@linux_only
async def test_processes_get_devices_and_mounts(kubelets: Path, eventually: Any) -> None:
    async with start_process_cluster(kubelet_directory=kubelets) as cluster:
        devices = ports(kubelets / "dev", "tty0")
        async with running(SerialPorts(devices, interval=0.02), kubelets):
            await eventually(lambda: _equals(counts(cluster), ("1", "1")))
            limits = {"limits": {RESOURCE: "1"}}
            root = "${KUBEWRIGHT_ROOT:-}"
            script = f'cat "{root}$SERIAL_PORTS"; echo held > "{root}/var/lock/serial/tty0"; sleep 600'
            await cluster.run_pod("reader", "sh", "-c", script, resources=limits)
            assert isinstance(cluster, ProcessCluster)
            assert await cluster.wait_for_log("reader", "port tty0") == "port tty0\n"
            await eventually(lambda: (devices / "lock" / "tty0").exists())


async def _equals(found: Any, expected: object) -> bool:
    return bool(await found == expected)


def _run(cluster: SimulatedCluster, pod: str) -> Any:
    state = cluster.nodes.pods.matching(pod)[0].find("app")
    assert state is not None
    return state.run


async def exec_output(cluster: SimulatedCluster, pod: str, *command: str) -> str:
    """Run a command in a simulated container and return its output."""
    from kubewright.workloads.nodes.containers.runtime import CollectedStreams, ExecRequest

    streams = CollectedStreams()
    worker = cluster.nodes.pods.matching(pod)[0]
    request = ExecRequest(list(command), worker.pod, "app", streams)
    await cluster.nodes.runtime.exec(_run(cluster, pod), request)
    return streams.output.decode()
