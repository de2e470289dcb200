"""CSI drivers on simulated nodes: errors and retries, topology, secrets, inline volumes, kubelet restarts."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="requires kubewright[node]")

from tests.workloads.nodes.simulated_cluster import SimulatedCluster

from kubewright.api.core.v1 import Node, PersistentVolume, PersistentVolumeClaim
from kubewright.api.storage.v1 import CSINode, VolumeAttachment
from kubewright.client import Client
from kubewright.client.wait import is_deleted
from kubewright.node import Internal, ResourceExhausted
from kubewright.node.csi import (
    ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest,
    CreateVolumeRequest,
    CSIDriver,
    DeleteVolumeRequest,
    NodePublishVolumeRequest,
    NodeUnpublishVolumeRequest,
    Topology,
    Volume,
)
from kubewright.node.plugin_registration import PluginInfo, PluginRegistrar
from kubewright.testing.server import start_test_server

ZONE = "topology.disks.csi.example.com/zone"


class Disks(CSIDriver):
    """Volumes in memory; the calls are recorded, and errors can be added per call."""

    name = "disks.csi.example.com"
    supports_ephemeral = True
    pod_info_on_mount = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []
        self.errors: dict[str, list[Exception]] = {}

    def _record(self, name: str, request: Any) -> None:
        self.calls.append((name, request))
        if errors := self.errors.get(name):
            raise errors.pop(0)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def last(self, name: str) -> Any:
        return next(request for found, request in reversed(self.calls) if found == name)

    async def create_volume(self, request: CreateVolumeRequest) -> Volume:
        self._record("create", request)
        required = request.accessibility_requirements
        zones = [each.segments for each in (required.preferred if required is not None else ())]
        topology = [Topology(segments=dict(zones[0]))] if zones else []
        return Volume(
            volume_id=f"disk-{len(self.calls)}",
            capacity_bytes=1 << 30,
            volume_context={"type": "fast"},
            accessible_topology=topology,
        )

    async def delete_volume(self, request: DeleteVolumeRequest) -> None:
        self._record("delete", request)

    async def controller_publish_volume(self, request: ControllerPublishVolumeRequest) -> Mapping[str, str]:
        self._record("attach", request)
        return {"device": "/dev/vdb"}

    async def controller_unpublish_volume(self, request: ControllerUnpublishVolumeRequest) -> None:
        self._record("detach", request)

    async def node_publish_volume(self, request: NodePublishVolumeRequest) -> None:
        self._record("publish", request)
        Path(request.target_path).mkdir(exist_ok=True)

    async def node_unpublish_volume(self, request: NodeUnpublishVolumeRequest) -> None:
        self._record("unpublish", request)
        Path(request.target_path).rmdir()

    def node_topology(self) -> Mapping[str, str]:
        return {ZONE: "north"}


class World:
    """A cluster with one simulated node and the driver."""

    def __init__(self, cluster: SimulatedCluster, driver: Disks, kubelets: Path) -> None:
        self.cluster, self.driver, self.kubelets = cluster, driver, kubelets

    @property
    def client(self) -> Client:
        return self.cluster.client

    async def create_class(self, **fields: Any) -> None:
        await self.client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "disks"},
                "provisioner": Disks.name,
                **fields,
            }
        )

    async def create_claim(self, name: str = "data") -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "disks",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        metadata = {"name": name, "namespace": "default"}
        await self.client.create(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        )

    async def create_pod(self, name: str, claim: str = "data", **fields: Any) -> None:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        await self.cluster.create_pod(name, **{"volumes": volumes, "nodeName": "", **fields})

    async def delete_pod(self, name: str) -> None:
        await self.client.delete("pods", name, namespace="default", grace_period=1)
        await self.client.wait("pods", name, namespace="default", until=is_deleted, timeout=120)


@pytest.fixture
async def world(kubelets: Path) -> AsyncIterator[World]:
    async with start_test_server("in-process", nodes=1, kubelet_directory=kubelets) as server:
        server.nodes.settings.start_delay = 0.0
        manager: Any = None
        cluster = SimulatedCluster(server, server.client(), manager, server.nodes)
        driver = Disks()
        async with running(driver, cluster, kubelets):
            yield World(cluster, driver, kubelets)


@asynccontextmanager
async def running(driver: Disks, cluster: SimulatedCluster, kubelets: Path) -> AsyncIterator[None]:
    stop = asyncio.Event()
    client = cluster.server.client()
    task = asyncio.create_task(
        driver.run(stop, node="node-0", kubelet_directory=kubelets / "node-0", client=client)
    )

    def registered(found: CSINode | None) -> bool:
        return bool(found and found.spec and found.spec.drivers)

    await client.wait(CSINode, name="node-0", until=registered, timeout=120)
    try:
        yield
    finally:
        stop.set()
        await task


async def test_failed_calls_are_reported_and_repeated(world: World, eventually: Any) -> None:
    driver = world.driver
    driver.errors = {
        "create": [Internal("the storage does not respond")],
        "attach": [Internal("no free slot")],
        "publish": [Internal("cannot mount")],
        "unpublish": [Internal("busy")],
        "detach": [Internal("still in use")],
        "delete": [Internal("locked")],
    }
    await world.create_class()
    await world.create_claim()
    await world.create_pod("app")
    await world.cluster.wait_ready("app", timeout=120)
    await world.cluster.wait_for_reasons(
        "data", "Provisioning", "ProvisioningFailed", "ProvisioningSucceeded"
    )
    await world.cluster.wait_for_reasons("app", "FailedAttachVolume", "SuccessfulAttachVolume", "FailedMount")
    events = [each.raw for each in await world.client.list("events", namespace="default")]
    (message,) = {each["message"] for each in events if each["reason"] == "FailedMount"}
    assert message.startswith('MountVolume.SetUp failed for volume "pvc-')
    assert message.endswith(": rpc error: code = Internal desc = cannot mount")

    request = driver.last("publish")
    assert request.publish_context == {"device": "/dev/vdb"}
    assert request.volume_context["csi.storage.k8s.io/pod.name"] == "app"
    assert request.volume_context["type"] == "fast"
    assert request.target_path.startswith(str(world.kubelets / "node-0" / "pods"))
    assert driver.last("attach").node_id == "node-0"

    await world.delete_pod("app")
    await world.client.delete(PersistentVolumeClaim, "data", namespace="default")
    await eventually(lambda: driver.names().count("delete") == 2)
    order = list(dict.fromkeys(driver.names()))
    assert order == ["create", "attach", "publish", "unpublish", "detach", "delete"]
    await eventually(lambda: driver.names().count("detach") >= 2)
    await eventually(lambda: _is_empty(world.client, PersistentVolume))
    await eventually(lambda: _is_empty(world.client, VolumeAttachment))

    async def has_no_volumes() -> bool:
        status = (await world.client.get(Node, "node-0")).status
        return status is not None and not status.volumes_in_use and not status.volumes_attached

    await eventually(has_no_volumes)


async def test_topology_and_late_binding(world: World, eventually: Any) -> None:
    world.driver.errors["create"] = [ResourceExhausted("no space in this zone")]
    await world.create_class(volumeBindingMode="WaitForFirstConsumer")
    await world.create_claim()
    await asyncio.sleep(0.2)
    assert world.driver.calls == []
    await world.create_pod("app")
    await world.cluster.wait_ready("app", timeout=120)
    request = world.driver.last("create")
    assert [each.segments for each in request.accessibility_requirements.preferred] == [{ZONE: "north"}]
    (volume,) = await world.client.list(PersistentVolume)
    assert volume.spec is not None
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    (term,) = volume.spec.node_affinity.required.node_selector_terms or ()
    (requirement,) = term.match_expressions or ()
    assert (requirement.key, requirement.values) == (ZONE, ["north"])
    node = await world.client.get(Node, "node-0")
    assert (node.metadata.labels or {})[ZONE] == "north"
    annotations = node.metadata.annotations or {}
    assert annotations["csi.volume.kubernetes.io/nodeid"] == '{"disks.csi.example.com": "node-0"}'
    assert annotations["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
    found = await world.client.get(CSINode, "node-0")
    assert found.spec is not None
    (driver,) = found.spec.drivers or ()
    assert (driver.name, driver.node_id, driver.topology_keys) == (Disks.name, "node-0", [ZONE])


async def test_secrets_and_retained_volumes(world: World, eventually: Any) -> None:
    for name in ("create", "mount"):
        await world.client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": "default"},
                "stringData": {"token": f"secret-{name}"},
            }
        )
    prefix = "csi.storage.k8s.io/"
    await world.create_class(
        reclaimPolicy="Retain",
        parameters={
            "tier": "gold",
            f"{prefix}fstype": "ext4",
            f"{prefix}provisioner-secret-name": "create",
            f"{prefix}provisioner-secret-namespace": "${pvc.namespace}",
            f"{prefix}node-publish-secret-name": "mount",
            f"{prefix}node-publish-secret-namespace": "default",
        },
    )
    await world.create_claim()
    await world.create_pod("app")
    await world.cluster.wait_ready("app", timeout=120)
    created = world.driver.last("create")
    assert (created.parameters, created.secrets) == ({"tier": "gold"}, {"token": "secret-create"})
    assert created.volume_capabilities[0].mount.fs_type == "ext4"
    assert world.driver.last("publish").secrets == {"token": "secret-mount"}
    await world.delete_pod("app")
    await world.client.delete(PersistentVolumeClaim, "data", namespace="default")

    async def is_released() -> bool:
        (volume,) = await world.client.list(PersistentVolume)
        return bool(volume.status and volume.status.phase == "Released")

    await eventually(is_released)
    assert "delete" not in world.driver.names()


async def test_inline_volumes_and_kubelet_restarts(world: World, eventually: Any) -> None:
    inline = {"driver": Disks.name, "volumeAttributes": {"size": "1Mi"}}
    await world.cluster.create_pod("inline", volumes=[{"name": "scratch", "csi": inline}])
    await world.cluster.wait_ready("inline", timeout=120)
    request = world.driver.last("publish")
    assert request.volume_id.startswith("csi-")
    assert request.volume_context["size"] == "1Mi"
    assert request.volume_context["csi.storage.k8s.io/ephemeral"] == "true"
    assert "attach" not in world.driver.names()

    # A restarted kubelet finds the driver and the mounted volumes again.
    plugins = world.cluster.nodes.plugins
    assert plugins is not None
    await plugins.restart("node-0")
    await eventually(lambda: plugins.nodes["node-0"].drivers.get(Disks.name))
    assert plugins.volume_path("node-0", _uid(world, "inline"), "scratch") == request.target_path
    await world.delete_pod("inline")
    assert world.driver.names()[-1] == "unpublish"
    assert not Path(request.target_path).exists()


async def test_plug_ins_that_cannot_be_registered(
    kubelets: Path, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    registry = kubelets / "node-0" / "plugins_registry"
    registry.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(registry / "stale-reg.sock"))
    async with start_test_server("in-process", nodes=1, kubelet_directory=kubelets):
        registrar = PluginRegistrar(
            kubelets / "node-0", PluginInfo(type="DRAPlugin", name="other.example.com", endpoint="/x")
        )
        await registrar.start()
        await eventually(lambda: "kubelet rejected plug-in" in caplog.text)
        await eventually(lambda: failed_registrations(caplog, "stale-reg.sock"))
        await asyncio.sleep(0.6)
        assert len(failed_registrations(caplog, "stale-reg.sock")) == 1
        assert not registrar.registered.is_set()
        await registrar.stop()


def failed_registrations(caplog: pytest.LogCaptureFixture, socket: str) -> list[logging.LogRecord]:
    """Return the warnings about a socket; a retry is logged with a lower level."""
    return [
        each
        for each in caplog.records
        if each.getMessage() == "could not register plug-in, retrying"
        and each.levelno == logging.WARNING
        and getattr(each, "socket", "") == socket
    ]


async def test_pods_wait_for_a_driver(kubelets: Path, eventually: Any) -> None:
    async with start_test_server("in-process", nodes=1, kubelet_directory=kubelets) as server:
        server.nodes.settings.start_delay = 0.0
        manager: Any = None
        cluster = SimulatedCluster(server, server.client(), manager, server.nodes)
        inline = {"driver": Disks.name}
        await cluster.create_pod("early", volumes=[{"name": "scratch", "csi": inline}])
        await cluster.wait_for_reasons("early", "FailedMount")
        events = [each.raw for each in await server.client().list("events", namespace="default")]
        (message,) = {each["message"] for each in events if each["reason"] == "FailedMount"}
        assert f"driver name {Disks.name} not found in the list of registered CSI drivers" in message
        async with running(Disks(), cluster, kubelets):
            await cluster.wait_ready("early", timeout=120)
            await server.client().delete("pods", "early", namespace="default", grace_period=1)
            await server.client().wait("pods", "early", namespace="default", until=is_deleted, timeout=120)


def _uid(world: World, pod: str) -> str:
    return world.cluster.nodes.pods.matching(pod)[0].identity.uid


async def _is_empty(client: Client, kind: Any) -> bool:
    return not list(await client.list(kind))
