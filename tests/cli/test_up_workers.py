"""`kubewright up --workers`: several processes with one port and one store are one API server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner
from tests.controlplane.access.test_authentication_config import SELF_REVIEW, Issuer
from tests.controlplane.access.test_authentication_config import config as issuer_config
from tests.controlplane.access.test_authentication_config import write as write_authentication
from tests.controlplane.access.test_authorization_config import Webhook
from tests.controlplane.access.test_authorization_config import config as webhook_config
from tests.controlplane.encryption.test_encrypted_storage import KEY, OTHER, keyed
from tests.controlplane.encryption.test_encrypted_storage import write_config as write_encryption

from kubewright.cli import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="SO_REUSEPORT divides connections on Linux")

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OLD_KEY, NEW_KEY = keyed("aescbc", ("key1", KEY)), keyed("secretbox", ("key2", OTHER))
CONNECTIONS = 16
"""Enough that each of two processes gets one of them: the kernel chooses by the client's port."""


class Server:
    """`kubewright up --workers 2` in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ready = directory / "ready"
        ready.unlink(missing_ok=True)
        self.errors = directory / "stderr"
        if not (directory / "authorization.yaml").exists():
            self.write_configurations(jwt=[], webhooks=[], providers=[OLD_KEY])
        with self.errors.open("wb") as errors:
            options = ("--workers", "2", "--quiet", "--store", "sqlite:state.db", "--ready-file", "ready")
            options += ("--shutdown-delay-duration", "1h")
            for name in ("authentication-config", "authorization-config", "encryption-provider-config"):
                options += (f"--{name}", f"{name.partition('-')[0]}.yaml")
            options += ("--encryption-provider-config-automatic-reload",)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kubewright.cli", "up", *options],
                cwd=directory,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        until = time.monotonic() + 120
        while not ready.exists():
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < until, "the server did not start in time"
            time.sleep(0.05)
        config = yaml.safe_load((directory / "state.kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = cluster["server"]
        self.context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        for name in ("client-certificate", "client-key"):
            (directory / name).write_bytes(base64.b64decode(user[f"{name}-data"]))
        self.context.load_cert_chain(directory / "client-certificate", directory / "client-key")

    def write_configurations(
        self, *, jwt: list[Any], webhooks: list[Any], providers: list[dict[str, Any]]
    ) -> None:
        """Write the files of `--authentication-config`, `--authorization-config` and the encryption."""
        write_authentication(self.directory / "authentication.yaml", jwt=jwt)
        authorizers = [*webhooks, *({"type": each, "name": each.lower()} for each in ("Node", "RBAC"))]
        document = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
            "authorizers": authorizers,
        }
        (self.directory / "authorization.yaml").write_text(yaml.safe_dump(document))
        write_encryption(self.directory / "encryption.yaml", *providers)

    def workers(self) -> list[int]:
        """Return the process IDs of the running workers."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"--worker\0" in _command_line(int(child))]

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context))

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Make a request on a connection of its own."""
        async with (
            self.session() as session,
            session.request(method, self.url + path, json=body, headers=headers) as response,
        ):
            return response.status, await response.json(content_type=None)

    async def statuses(self, path: str) -> set[int]:
        """Return the status codes of a path on several connections."""
        async with AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(self.session()) for _ in range(CONNECTIONS)]
            return {(await session.get(self.url + path)).status for session in sessions}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("workers"))
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.wait()


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_writes_of_each_connection_are_visible_to_all(server: Server) -> None:
    for number in range(CONNECTIONS):
        path = f"{CONFIG_MAPS}/c-{number}"
        status, created = await server.request("POST", CONFIG_MAPS, _config_map(f"c-{number}", a="1"))
        assert status == 201
        assert await server.request("GET", path) == (200, created)
        status, updated = await server.request("PUT", path, {**created, "data": {"a": "2"}})
        assert status == 200
        _, listed = await server.request("GET", CONFIG_MAPS)
        found = [item for item in listed["items"] if item["metadata"]["name"] == f"c-{number}"]
        assert [item["metadata"]["resourceVersion"] for item in found] == [
            updated["metadata"]["resourceVersion"]
        ]
        status, _ = await server.request("PUT", path, created)
        assert status == 409
        if number % 2:
            assert (await server.request("DELETE", path))[0] == 200
            assert (await server.request("GET", path))[0] == 404


@asynccontextmanager
async def _watches(server: Server, path: str) -> AsyncIterator[list[aiohttp.ClientResponse]]:
    async with AsyncExitStack() as stack:
        responses = []
        for _ in range(CONNECTIONS):
            session = await stack.enter_async_context(server.session())
            responses.append(await stack.enter_async_context(session.get(server.url + path)))
        yield responses


async def test_watches_of_each_connection_receive_all_events_in_order(server: Server) -> None:
    _, listed = await server.request("GET", CONFIG_MAPS)
    version = listed["metadata"]["resourceVersion"]
    async with _watches(server, f"{CONFIG_MAPS}?watch=1&resourceVersion={version}") as watches:
        created = []
        for number in range(8):
            _, obj = await server.request("POST", CONFIG_MAPS, _config_map(f"w-{number}"))
            created.append(obj["metadata"]["resourceVersion"])
        async with asyncio.timeout(60):
            for watch in watches:
                events = [json.loads(await watch.content.readline()) for _ in created]
                assert [event["object"]["metadata"]["resourceVersion"] for event in events] == created


async def test_kinds_are_served_by_all(server: Server) -> None:
    crd = {
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await server.request("POST", path, crd))[0] == 201
    async with asyncio.timeout(60):
        while True:
            _, found = await server.request("GET", f"{path}/toys.example.com")
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any((each["type"], each["status"]) == ("Established", "True") for each in conditions):
                break
            await asyncio.sleep(0.05)
    toys = "/apis/example.com/v1/namespaces/default/toys"
    for number in range(CONNECTIONS):
        body = {"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": f"t-{number}"}}
        status, created = await server.request("POST", toys, body)
        assert status == 201, created
        _, discovered = await server.request("GET", "/apis/example.com/v1")
        assert [each["name"] for each in discovered["resources"]] == ["toys"]


async def test_permissions_apply_in_all(server: Server) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    binding = {
        "metadata": {"name": "jane-views"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }

    async def statuses() -> set[int]:
        found = [
            await server.request("GET", CONFIG_MAPS, **{"Impersonate-User": "jane"})
            for _ in range(CONNECTIONS)
        ]
        return {status for status, _ in found}

    assert await statuses() == {403}
    assert (await server.request("POST", f"{rbac}/clusterrolebindings", binding))[0] == 201
    async with asyncio.timeout(60):
        while await statuses() != {200}:
            await asyncio.sleep(0.05)


async def test_changed_configuration_files_are_used_by_all(server: Server, tmp_path: Path) -> None:
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    (tmp_path / "webhook").mkdir()
    async with Issuer(tmp_path).serve() as issuer, Webhook(tmp_path / "webhook").serve() as webhook:
        assert isinstance(issuer, Issuer)
        assert isinstance(webhook, Webhook)
        token = {"Authorization": f"Bearer {issuer.token()}"}
        path = f"{CONFIG_MAPS}?limit=1"

        async def statuses() -> set[tuple[int, int]]:
            return {
                (
                    (await server.request("POST", review, SELF_REVIEW, **token))[0],
                    (await server.request("GET", path, **token))[0],
                )
                for _ in range(CONNECTIONS)
            }

        assert await statuses() == {(401, 401)}
        server.write_configurations(
            jwt=yaml.safe_load(issuer_config(issuer, tmp_path).read_text())["jwt"],
            webhooks=yaml.safe_load(webhook_config(webhook, tmp_path).read_text())["authorizers"][:1],
            providers=[NEW_KEY, OLD_KEY],
        )
        # Each process loads the file of keys when it reads a value of a key that it does not know.
        secrets = "/api/v1/namespaces/default/secrets"
        for number in range(CONNECTIONS):
            body = {"metadata": {"name": f"s-{number}"}, "stringData": {"a": str(number)}}
            assert (await server.request("POST", secrets, body))[0] == 201
            for _ in range(2):
                status, found = await server.request("GET", secrets)
                assert status == 200
                names = {each["metadata"]["name"] for each in found["items"]}
                assert names >= {f"s-{each}" for each in range(number + 1)}
        async with asyncio.timeout(60):
            while await statuses() != {(201, 200)}:
                await asyncio.sleep(0.05)
            digest = hashlib.sha256((server.directory / "encryption.yaml").read_bytes()).hexdigest()
            while not await _all_metrics_have(server, f'hash="sha256:{digest}"'):
                await asyncio.sleep(0.05)
    assert "cannot be decrypted" not in server.errors.read_text()
    # Without the webhook and the issuer, the tests that follow do not depend on them.
    server.write_configurations(jwt=[], webhooks=[], providers=[NEW_KEY, OLD_KEY])


async def _all_metrics_have(server: Server, text: str) -> bool:
    """Return whether a text is in `/metrics` on each of several connections."""
    for _ in range(CONNECTIONS):
        async with server.session() as session, session.get(f"{server.url}/metrics") as response:
            if text not in await response.text():
                return False
    return True


async def test_metrics_of_pods_are_served_by_all(server: Server) -> None:
    async def counts() -> set[tuple[int, int]]:
        found = [
            await server.request("GET", "/apis/metrics.k8s.io/v1beta1/nodes") for _ in range(CONNECTIONS)
        ]
        return {(status, len(nodes.get("items", ()))) for status, nodes in found}

    async with asyncio.timeout(60):
        while await counts() != {(200, 1)}:  # the node registers itself
            await asyncio.sleep(0.05)


async def test_a_worker_that_exits_is_replaced(server: Server) -> None:
    (worker,) = server.workers()
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(server.session()) for _ in range(CONNECTIONS)]
        watch = f"{server.url}{CONFIG_MAPS}?watch=1&resourceVersion=0"
        watches = [await stack.enter_async_context(session.get(watch)) for session in sessions]
        os.kill(worker, signal.SIGKILL)
        async with asyncio.timeout(60):
            while not server.workers() or server.workers() == [worker]:
                await asyncio.sleep(0.05)
        # The other process serves its connections, and new ones, meanwhile.
        assert (await server.request("GET", CONFIG_MAPS))[0] == 200
        assert (await server.request("POST", CONFIG_MAPS, _config_map("after-kill")))[0] == 201
        outcomes = {await _receives(watch, "after-kill") for watch in watches}
    assert outcomes == {True, False}, "the connections were not divided among the processes"
    assert "Warning: worker 1 exited with code -9; starting it again" in server.errors.read_text()


async def _receives(watch: aiohttp.ClientResponse, name: str) -> bool:
    """Return whether a watch receives an event; a connection to a process that was killed does not."""
    try:
        async with asyncio.timeout(60):
            while name.encode() not in await watch.content.readline():
                if watch.content.at_eof():
                    return False
    except aiohttp.ClientError:
        return False
    return True


async def test_data_survives_a_restart_and_workers_end_with_the_owner(server: Server) -> None:
    async with asyncio.timeout(60):
        while not server.workers():
            await asyncio.sleep(0.05)
    workers = server.workers()
    assert await server.statuses("/readyz") == {200}
    server.process.terminate()
    # All processes serve requests until --shutdown-delay-duration, or another signal.
    async with asyncio.timeout(60):
        while await server.statuses("/readyz") != {500}:
            await asyncio.sleep(0.05)
    assert await server.statuses("/livez") == {200}
    created = [
        (await server.request("POST", CONFIG_MAPS, _config_map(f"durable-{number}")))[1]
        for number in range(CONNECTIONS)
    ]
    server.process.terminate()
    server.process.wait(60)
    assert server.process.returncode == 0
    assert not any(b"--worker\0" in _command_line(each) for each in workers)
    again = Server(server.directory)
    try:
        (worker,) = again.workers()
        for obj in created:
            path = f"{CONFIG_MAPS}/{obj['metadata']['name']}"
            assert await again.request("GET", path) == (200, obj)
    finally:
        again.process.kill()
        again.process.wait()
    async with asyncio.timeout(60):
        while b"--worker\0" in _command_line(worker):
            await asyncio.sleep(0.05)
    async with asyncio.timeout(60):
        while "Error: worker 1: the process that owns the store has ended" not in again.errors.read_text():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--workers", "0"), "'--workers': 0 is not in the range"),
        (("--workers", "2", "--store", "etcd://localhost:1"), "on etcd or PostgreSQL, start several servers"),
        (("--worker", "1"), "--worker is for processes that --workers starts"),
    ],
)
def test_usage_errors(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBEWRIGHT_STORAGE_SOCKET", raising=False)
    result = CliRunner().invoke(main, ["up", *arguments])
    assert result.exit_code != 0
    assert complaint in result.output


async def test_a_port_in_use_is_reported(server_port: int, tmp_path: Path) -> None:
    from kubewright.controlplane import ControlPlane

    plane = ControlPlane(port=server_port, shares_port=True, kubeconfig=tmp_path / "kubeconfig")
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server_port}: address already in use"):
        await plane.start()


@pytest.fixture
def server_port() -> Iterator[int]:
    """A port on which another process listens with SO_REUSEPORT."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]
