"""The example of exec-like subresources, with the client, and with kubectl over both protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from exec_subresource import GROUP, Machine, MachineSpec, app
from kubewright import Client, ObjectMeta
from kubewright.api.errors import APIError, Forbidden
from kubewright.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubewright.testing import TestServer, run_app

from .kubectl import Kubectl, requires_kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "exec_subresource"
PATH = f"/apis/{GROUP}/v1/namespaces/default/machines/web"
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}


@asynccontextmanager
async def start_machine(server: TestServer, port: int = 0) -> AsyncIterator[Client]:
    client = server.client()
    async with run_app(app, client):
        metadata = ObjectMeta(name="web", namespace="default", annotations={f"{GROUP}/port": str(port)})
        spec = MachineSpec(files={"motd": "Welcome.\n"})
        await client.create(Machine(metadata=metadata, spec=spec))
        yield client


@asynccontextmanager
async def start_web_server() -> AsyncIterator[int]:
    """A server that returns the request line."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(line)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + line)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_commands_of_the_client(cluster: TestServer) -> None:
    async with start_machine(cluster) as client:
        console = client.subresource("console", Machine, "web")
        result = await console.exec(["cat", "motd"])
        assert (result.stdout, result.stderr, result.exit_code) == (b"Welcome.\n", b"", 0)
        result = await console.exec(["cat", "missing"])
        assert (result.stderr, result.exit_code) == (b"cat: missing: No such file or directory\n", 1)
        result = await console.exec(["cat"], input=b"x" * 100_000)
        assert len(result.stdout) == 100_000
        result = await console.exec(input=b"hostname\nls\nexit 3\n")
        assert (result.stdout, result.exit_code) == (b"web\nmotd\n", 3)
        async with console.exec(["stty", "size"], tty=True) as process:
            await process.resize(100, 40)
            assert [data async for _, data in process] == [b"40 100\n"]
        with pytest.raises(APIError, match=r"error executing command: No closing quotation"):
            await console.exec(input=b"'\n")
        response = await client.rest.transport.send("GET", f"{PATH}/console", "stdout=true")
        assert (response.status, b"Upgrade request required" in response.body) == (400, True)
        response = await client.rest.transport.send("GET", f"{PATH}/log")
        assert response.body.splitlines()[-1] == b"web: ready debian:13"


async def test_ports_and_proxy(cluster: TestServer) -> None:
    async with start_web_server() as port, start_machine(cluster, port) as client:
        send = client.rest.transport.send
        response = await send("GET", f"{PATH}/web/a/b", "x=1")
        assert (response.status, response.body) == (200, b"GET /a/b?x=1 HTTP/1.1")
        assert (await send("GET", f"{PATH}/web/%2e%2e/b")).status == 400
        response = await send("POST", f"{PATH}/web/")
        assert response.body == b"POST / HTTP/1.1"
        socket = await client.rest.transport.websocket(
            f"{PATH}/portforward", f"ports={port}", protocols=("v4.channel.k8s.io",)
        )
        number = port.to_bytes(2, "little")
        assert {await socket.receive(), await socket.receive()} == {b"\0" + number, b"\1" + number}
        await socket.send(b"\0GET /forwarded HTTP/1.1\r\n\r\n")
        assert b"GET /forwarded" in (await socket.receive() or b"")  # type: ignore[operator]
        await socket.close()


async def test_connecting_requires_a_verb(cluster: TestServer) -> None:
    async with start_machine(cluster) as client:
        rules = [PolicyRule(api_groups=[GROUP], resources=["machines/console"], verbs=["create", "get"])]
        await client.create(ClusterRole(metadata=ObjectMeta(name="console"), rules=rules))
        group = "rbac.authorization.k8s.io"
        await client.create(
            ClusterRoleBinding(
                metadata=ObjectMeta(name="console"),
                role_ref=RoleRef(api_group=group, kind="ClusterRole", name="console"),
                subjects=[Subject(kind="User", name="ada", api_group=group)],
            )
        )
        ada = client.with_impersonation("ada").subresource("console", Machine, "web", namespace="default")
        async with asyncio.timeout(60):
            with pytest.raises(Forbidden, match='User "ada" cannot connect resource "machines"'):
                await ada.exec(["hostname"])


@requires_kubectl
async def test_kubectl(cluster: TestServer, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster, tmp_path)
    async with start_machine(cluster):
        server = f"--server={kubectl.server}{PATH}/kubectl"
        for environment in ({}, SPDY):
            run = await kubectl.run(server, "exec", "web", "--", "cat", "motd", environment=environment)
            assert (run.stdout, run.code) == ("Welcome.\n", 0), run.stderr
            run = await kubectl.run(
                server, "exec", "-i", "web", "--", "sh", input=b"echo a b\nexit 4\n", environment=environment
            )
            assert (run.stdout, run.code) == ("a b\n", 4), run.stderr
            assert "command terminated with exit code 4" in run.stderr
        assert "loading" in await kubectl("get", "--raw", f"{PATH}/log")
        applied = await kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", str(EXAMPLE / "sample.yaml")
        )
        assert "serverside-applied" in applied
        assert "The disk image." in await kubectl("explain", "machine.spec")
