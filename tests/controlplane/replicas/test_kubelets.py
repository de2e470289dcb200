"""A kubelet on three replicas behind one address: fail-over under load and a rolling restart.

No pod may be restarted, the node stays ready, and no acknowledged write is lost. Skipped without a kubelet
(`kubewright.testing.real_nodes`); the node changes the network of the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane.replicas.cluster import Cluster, Replica
from tests.waiting import eventually

from kubewright.api.apps.v1 import Deployment
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap, Node, Pod
from kubewright.api.errors import AlreadyExists, APIError
from kubewright.api.meta import ObjectMeta
from kubewright.client import Client, load_config, merge_patch
from kubewright.client.errors import ConnectionFailed
from kubewright.controlplane.credentials.credentials import CredentialStore, load_or_create_ca
from kubewright.node.machine.images import import_image
from kubewright.node.machine.local_node import LocalNode, NodeSettings
from kubewright.node.machine.programs import find_programs
from kubewright.storage.url import open_storage
from kubewright.testing.real_nodes import IMAGES, KUBELET, PAUSE_IMAGE, why_unavailable
from kubewright.tls.certificates import CertificateAuthority, KeyPair

pytestmark = pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "available")
IMAGE = os.environ.get(PAUSE_IMAGE, "registry.k8s.io/pause:3.10")
NAME = "ha-node"


def machine_address() -> str:
    """Return the address of this machine that others connect to; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


class Balancer:
    """A TCP load balancer: new connections go to the replicas in turn, and to the next one after an error."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = list(replicas)
        self._turns = itertools.cycle(range(len(self.replicas)))
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self, address: str) -> AsyncIterator[str]:
        """Listen; yield the URL."""
        server = await asyncio.start_server(self._accept, address, 0)
        try:
            yield f"https://{address}:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        first = next(self._turns)
        for replica in self.replicas[first:] + self.replicas[:first]:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", replica.port)
            except OSError:
                continue
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            return
        writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


class Load:
    """Writes config maps one after the other, and again if the outcome of a write is not known."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.acknowledged: list[str] = []
        self.failures = 0

    async def run(self) -> None:
        for number in itertools.count():
            name = f"load-{number}"
            while True:
                try:
                    await self._client.create(
                        ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"n": name})
                    )
                except AlreadyExists:
                    pass  # an attempt without a response
                except (APIError, ConnectionFailed, OSError):
                    self.failures += 1
                    await asyncio.sleep(0.1)
                    continue
                self.acknowledged.append(name)
                break
            await asyncio.sleep(0.01)


async def leader(client: Client) -> str:
    lease = await client.get_or_none(Lease, "kube-controller-manager", namespace="kube-system")
    return (lease.spec.holder_identity if lease is not None and lease.spec is not None else None) or ""


async def scale(client: Client, replicas: int) -> list[Pod]:
    """Scale the deployment; return its pods, all of them ready."""
    change = merge_patch({"spec": {"replicas": replicas}})
    await eventually(
        lambda: client.patch(Deployment, "app", change, namespace="default"),
        ignore=(APIError, ConnectionFailed, OSError),
    )

    async def ready() -> list[Pod] | None:
        found = [pod for pod in await client.list(Pod, namespace="default") if pod.metadata.labels]
        done = [pod for pod in found if _is_ready(pod) and pod.metadata.deletion_timestamp is None]
        return done if len(done) == len(found) == replicas else None

    found: list[Pod] = await eventually(ready, ignore=(APIError, ConnectionFailed, OSError))
    return found


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status is not None else None) or []
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def containers(pods: Sequence[Pod]) -> dict[str, tuple[str, int]]:
    """Return the container and its restarts, by UID of the pod."""
    found: dict[str, tuple[str, int]] = {}
    for pod in pods:
        assert pod.status is not None
        assert pod.status.container_statuses
        (status,) = pod.status.container_statuses
        found[pod.metadata.uid or ""] = status.container_id or "", status.restart_count or 0
    return found


async def became_ready(client: Client) -> Any:
    """Return when the node has become ready."""
    node = await client.get(Node, NAME)
    conditions = (node.status.conditions if node.status is not None else None) or []
    (ready,) = [each for each in conditions if each.type == "Ready"]
    assert ready.status == "True"
    return ready.last_transition_time


@asynccontextmanager
async def joined_node(
    address: str, url: str, client: Client, authority: CertificateAuthority, folder: Path
) -> AsyncIterator[LocalNode]:
    """Run this machine as a node of the replicas behind a URL."""
    programs = find_programs(Path(os.environ[KUBELET]))
    settings = NodeSettings(
        name=NAME,
        address=address,
        server=url,
        ca=authority.certificate,
        cluster_cidr="10.244.0.0/16",
        dns="10.0.0.10",
        pause_image=os.environ.get(PAUSE_IMAGE, ""),
    )

    def issue(user: str, groups: Sequence[str]) -> KeyPair:
        return authority.issue(user, groups=groups)

    node = LocalNode(programs, settings, directory=folder, issue=issue)
    await node.start(client)
    try:
        for archive in filter(None, os.environ.get(IMAGES, "").split(os.pathsep)):
            await import_image(programs.ctr, node.socket, Path(archive))
        yield node
    finally:
        await node.stop()


@pytest.mark.parametrize("store", ["etcd", "postgresql"])
async def test_pods_outlive_replicas(store: str, tmp_path: Path, tmp_path_factory: Any) -> None:
    address = machine_address()
    shared = ("--real-nodes", "--no-dns", "--bind", "0.0.0.0", "--advertise-address", address)
    options = (*shared, "--lease-duration", "6s")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(tmp_path, store=store, options=options))
        replicas = cluster.replicas
        async with open_storage(cluster.store("")) as storage:
            authority = await load_or_create_ca(CredentialStore(storage), "authority", "kubewright-ca")
        url = await stack.enter_async_context(Balancer(replicas).serve(address))
        config = replace(load_config(replicas[0].kubeconfig), server=url)
        client = await stack.enter_async_context(Client.connect(config))
        folder = tmp_path_factory.mktemp("n", numbered=True)
        await stack.enter_async_context(joined_node(address, url, client, authority, folder))
        template = {
            "metadata": {"labels": {"app": "app"}},
            "spec": {"containers": [{"name": "c", "image": IMAGE}], "terminationGracePeriodSeconds": 1},
        }
        await client.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "app", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "app"}}, "template": template, "replicas": 1},
            }
        )
        before = containers(await scale(client, 4))
        since = await became_ready(client)
        load = Load(client)
        running = asyncio.create_task(load.run())
        try:
            leaders = [await leader(client)]
            for count, replica in enumerate(replicas, 5):
                replica.kill()
                await scale(client, count)
                leaders.append(await leader(client))
                await replica.start()
            assert len(set(leaders)) > 1, "the replica that runs the controllers was not killed"
            for replica in replicas:
                await replica.stop()
                await replica.start()
            after = containers(await scale(client, 8))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert {uid: after[uid] for uid in before} == before, "a pod was replaced or restarted"
        assert all(restarts == 0 for _, restarts in after.values())
        assert await became_ready(client) == since, "the node was not ready in between"
        stored = {each.name for each in await client.list(ConfigMap, namespace="default")}
        assert load.acknowledged
        assert stored.issuperset(load.acknowledged)
