"""etcd clusters: fail-over between members, and a database that is full."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from bench._ports import unused_port
from tests.controlplane.path_client import PathClient
from tests.storage.test_etcd import make_certificates

from kubewright.api.errors import AlreadyExists, InternalError
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.storage import EtcdStorage, StorageError, open_storage

from .cluster import EtcdMember, etcd_binary

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def etcdctl_command() -> list[str]:
    return [str(etcd_binary().with_name("etcdctl")), "--command-timeout=60s", "--dial-timeout=60s"]


async def test_storage_survives_the_loss_of_each_member(tmp_path: Path) -> None:
    ports = [(unused_port(), unused_port()) for _ in range(3)]
    members = [EtcdMember(etcd_binary(), tmp_path, number, ports) for number in range(3)]
    try:
        await asyncio.gather(*(member.start() for member in members))
        addresses = ",".join(member.address for member in members)
        async with open_storage(f"etcd://{addresses}/failover?timeout=20") as store:
            watch = store.watch("/", await store.revision())
            written: list[int] = []
            lost = 0
            for member in members:
                member.kill()
                wanted = len(written) + 5
                async with asyncio.timeout(120):
                    while len(written) < wanted:
                        try:
                            written.append(await store.create(f"/{len(written) + lost}", b"v"))
                        except StorageError:
                            lost += 1  # It may have been applied.
                await member.start()
            received: list[int] = []
            async with asyncio.timeout(60):
                while not received or received[-1] < written[-1]:
                    received += [event.revision for event in await anext(aiter(watch))]
            assert received == sorted(set(received))
            assert set(written) <= set(received)
    finally:
        for member in members:
            member.kill()


async def test_a_cluster_with_tls_and_passwords(tmp_path: Path) -> None:
    """A member that is paused, then one that is killed, with a token that has expired meanwhile."""
    certificates = make_certificates(tmp_path)
    ports = [(unused_port(), unused_port()) for _ in range(3)]
    members = [
        EtcdMember(etcd_binary(), tmp_path, number, ports, certificates=certificates) for number in range(3)
    ]
    files = {"cacert": "ca.pem", "cert": "client.pem", "key": "client.key"}
    options = {name: str(certificates / file) for name, file in files.items()}

    def etcdctl(*arguments: str) -> None:
        command = [*etcdctl_command(), f"--endpoints=https://{members[0].address}"]
        command += [f"--{name}={path}" for name, path in options.items()]
        subprocess.run([*command, *arguments], check=True, capture_output=True)

    (tmp_path / "password").write_text("hunter2")
    try:
        await asyncio.gather(*(member.start() for member in members))
        for words in (
            "user add root:secret",
            "user grant-role root root",
            "user add app:hunter2",
            "role add app",
            "role grant-permission app --prefix=true readwrite /app",
            "user grant-role app app",
            "auth enable",
        ):
            etcdctl(*words.split())
        query = urlencode({**options, "user": "app", "password_file": tmp_path / "password", "timeout": 30})
        url = f"etcd://{','.join(member.address for member in members)}/app?{query}&compact_every=0"
        async with ControlPlane(store=url, port=None, controllers=False) as plane:
            client = PathClient(plane.server, SYSTEM)
            watch = plane.storage.watch("/registry/configmaps/", await plane.storage.revision())
            await client.create(CONFIG_MAPS, {"metadata": {"name": "0"}})
            assert isinstance(plane.storage, EtcdStorage)
            connection = plane.storage._connection
            in_use = connection._at
            members[in_use].send(signal.SIGSTOP)
            connection.options = replace(connection.options, timeout=1)
            async with asyncio.timeout(60):
                while connection._at == in_use:  # another member is used after a timeout
                    with contextlib.suppress(StorageError):
                        await plane.storage.get("/registry/a")
            connection.options = replace(connection.options, timeout=2)
            await _create_until_accepted(client, "1")
            members[in_use].send(signal.SIGCONT)
            connection.metadata = (("token", "expired.1"),)
            members[connection._at].kill()
            await _create_until_accepted(client, "2")
            names: set[str] = set()
            async with asyncio.timeout(60):
                while not names >= {"0", "1", "2"}:
                    names |= {event.key.rpartition("/")[2] for event in await anext(aiter(watch))}
    finally:
        for member in members:
            member.kill()


async def _create_until_accepted(client: PathClient, name: str) -> None:
    """Create a ConfigMap; repeat it while etcd elects a leader."""
    async with asyncio.timeout(120):
        while True:
            try:
                await client.create(CONFIG_MAPS, {"metadata": {"name": name}})
                return
            except AlreadyExists:
                return  # The response of an earlier attempt was lost.
            except InternalError:
                await asyncio.sleep(0.05)


async def test_a_full_database_is_reported_and_recovers(tmp_path: Path) -> None:
    member = EtcdMember(etcd_binary(), tmp_path, 0, [(unused_port(), unused_port())])
    member.command.append(f"--quota-backend-bytes={4 * 1024 * 1024}")

    def etcdctl(*arguments: str) -> str:
        command = [*etcdctl_command(), f"--endpoints={member.address}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    try:
        await member.start()
        store = f"etcd://{member.address}/full?compact_every=0&timeout=60"
        async with ControlPlane(store=store, port=None, controllers=False) as plane:
            client = PathClient(plane.server, SYSTEM)
            await client.create(CONFIG_MAPS, {"metadata": {"name": "large"}})
            with pytest.raises(InternalError, match="database space exceeded") as caught:
                for number in range(20):
                    await client.merge(f"{CONFIG_MAPS}/large", {"data": {"text": str(number) * 300_000}})
            assert "etcdctl alarm disarm" in caught.value.message
            # Reads still succeed, other writes fail with the same message.
            assert (await client.get(f"{CONFIG_MAPS}/large"))["data"]
            with pytest.raises(InternalError, match="database space exceeded"):
                await client.create(CONFIG_MAPS, {"metadata": {"name": "small"}})
            await plane.storage.compact(await plane.storage.revision())
            etcdctl("defrag")
            etcdctl("alarm", "disarm")
            await client.create(CONFIG_MAPS, {"metadata": {"name": "small"}})
    finally:
        member.kill()
