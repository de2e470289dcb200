"""Logs, exec, attach, port-forward and copies, against the kubelet side of the protocol."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import Pod
from kubewright.apiserver import APIServer, HTTPRequest, HTTPResponse, serve
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client, ExecError, HTTPTransport, load_config
from kubewright.storage import MemoryStorage

SUCCESS = {"metadata": {}, "status": "Success"}


def failure(code: int) -> dict[str, Any]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


class Kubelet:
    """Pods that exist as this object says: files, a log, and a few commands."""

    def __init__(self, *, protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")) -> None:
        self.files: dict[str, bytes] = {}
        self.queries: list[dict[str, list[str]]] = []
        self.protocols = protocols
        self.following = asyncio.Event()

    async def handle(self, request: HTTPRequest) -> HTTPResponse:
        self.queries.append(request.query.values)
        part = request.path.rsplit("/", 1)[1]
        if part == "log":
            return HTTPResponse(200, stream=self.log(request.query.get("follow")), content_type="text/plain")
        if "/missing/" in request.path:
            body = {
                "kind": "Status",
                "status": "Failure",
                "code": 404,
                "reason": "NotFound",
                "message": "no pod",
            }
            return HTTPResponse(404, json.dumps(body).encode())
        handler = {"exec": self.exec, "attach": self.attach, "portforward": self.forward}[part]

        async def handle(socket: Any) -> None:
            await handler(socket, request)

        protocols = ("v4.channel.k8s.io",) if part == "portforward" else self.protocols
        return HTTPResponse(101, websocket=handle, protocols=protocols)

    async def log(self, follow: str) -> AsyncIterator[bytes]:
        yield b"one\ntw"
        yield b"o\nthree"
        if follow:
            self.following.set()
            yield b"\nfour\n"
            await asyncio.Event().wait()

    async def exec(self, socket: Any, request: HTTPRequest) -> None:
        command = request.query.all("command")
        stdin = await self.read_stdin(socket) if request.query.get("stdin") else b""
        code = 0
        if command[0] == "cat":
            await socket.send(b"\x01" + stdin[:3])
            await socket.send(b"\x01" + stdin[3:])
        elif command[0] == "tar" and command[1] == "-xmf":
            with tarfile.open(fileobj=io.BytesIO(stdin)) as archive:
                for member in archive:
                    file = archive.extractfile(member)
                    if file is not None:
                        self.files[f"{command[-1].rstrip('/')}/{member.name}"] = file.read()
        elif command[0] == "tar":
            await socket.send(b"\x01" + self.archive(command[-2], command[-1]))
        else:
            await socket.send(b"\x02not found")
            code = 127
        await socket.send(b"\x03" + json.dumps(failure(code) if code else SUCCESS).encode())
        await socket.close()

    def archive(self, directory: str, name: str) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, data in self.files.items():
                member = tarfile.TarInfo(path.removeprefix(directory.rstrip("/") + "/"))
                if member.name == name or member.name.startswith(f"{name}/"):
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        return buffer.getvalue()

    async def read_stdin(self, socket: Any) -> bytes:
        data = b""
        while (message := await socket.receive()) is not None:
            if message[0] == 255:
                break
            data += message[1:]
            if socket.protocol.startswith("v4"):
                break
        return data

    async def attach(self, socket: Any, request: HTTPRequest) -> None:
        await socket.send(b"\x01hello")
        while (message := await socket.receive()) is not None:
            if message[0] == 4:
                await socket.send(b"\x01" + message[1:])
            elif message == b"\x00bye\n":
                break
        await socket.send(b"\x03" + json.dumps(SUCCESS).encode())
        await socket.close()

    async def forward(self, socket: Any, request: HTTPRequest) -> None:
        port = int(request.query.get("ports"))
        for channel in (0, 1):
            await socket.send(bytes([channel]) + port.to_bytes(2, "little"))
        if port == 81:
            await socket.send(b"\x01nothing listens on 81")
            return
        message = await socket.receive()
        assert message[0] == 0
        await socket.send(b"\x00" + message[1:].upper())


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture(params=["in-process", "network"])
async def client(request: pytest.FixtureRequest, kubelet: Kubelet, tmp_path: Path) -> AsyncIterator[Client]:
    server = APIServer(MemoryStorage())
    server.add_prefix_handler("/api/v1/namespaces", kubelet.handle)
    if request.param == "in-process":
        yield Client.from_transport(InProcessTransport(server))
        return
    async with serve(server) as front:
        front.write_kubeconfig(tmp_path / "kubeconfig")
        transport = HTTPTransport(load_config(tmp_path / "kubeconfig"))
        yield Client.from_transport(transport)
        await transport.aclose()


async def test_logs_are_text_or_lines(client: Client, kubelet: Kubelet) -> None:
    pod = Pod(metadata=ObjectMeta(name="web", namespace="shop"))
    assert await client.log(pod, container="c", tail=5, since=90, timestamps=True) == "one\ntwo\nthree\n"
    assert kubelet.queries[0] == {
        "container": ["c"],
        "tailLines": ["5"],
        "sinceSeconds": ["90"],
        "timestamps": ["true"],
    }
    lines = []
    async for line in client.log("web", follow=True):
        lines.append(line)
        if line == "four":
            break
    assert lines == ["one", "two", "three", "four"]


async def test_exec_returns_output_and_exit_code(client: Client, kubelet: Kubelet) -> None:
    result = await client.exec("web", ["cat", "-"], input=b"hello" * 20_000, container="c")
    assert (result.stdout, result.exit_code) == (b"hello" * 20_000, 0)
    assert kubelet.queries[0]["command"] == ["cat", "-"]
    failed = await client.exec("web", ["nothing"])
    assert failed == (b"", b"not found", 127)
    with pytest.raises(ExecError, match="'nothing' in pod web failed with exit code 127: not found"):
        await client.exec("web", ["nothing"], check=True)
    with pytest.raises(TypeError, match="list of arguments"):
        client.exec("web", "ls")


async def test_exec_with_v4_protocol(client: Client, kubelet: Kubelet) -> None:
    kubelet.protocols = ("v4.channel.k8s.io",)
    assert (await client.exec("web", ["cat"], input=b"hello")).stdout == b"hello"


async def test_rejected_websocket_raises_api_error(client: Client) -> None:
    from kubewright.api import NotFound

    with pytest.raises(NotFound, match="no pod"):
        await client.exec("missing", ["ls"])


async def test_attach_session(client: Client) -> None:
    async with client.attach("web", stdin=True, tty=True) as process:
        seen = []
        async for stream, data in process:
            seen.append((stream, data))
            if data == b"hello":
                await process.resize(80, 24)
            else:
                await process.write(b"bye\n")
    assert seen == [("stdout", b"hello"), ("stdout", b'{"Width":80,"Height":24}')]
    assert process.exit_code == 0


async def test_port_forward(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with client.port_forward("web", 80) as forward:

        async def ask(text: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(text)
            received = await reader.read()
            writer.close()
            return received

        assert await asyncio.gather(ask(b"one"), ask(b"two")) == [b"ONE", b"TWO"]
    async with client.port_forward("web", 81) as forward:
        assert await ask(b"x") == b""
    assert ("port forwarding failed", 81, "nothing listens on 81") in [
        (each.message, each.port, each.error) for each in caplog.records if hasattr(each, "port")
    ]


async def test_copy_files_and_directories(client: Client, kubelet: Kubelet, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_bytes(b"content")
    await client.copy_to("web", source, "/data/there")
    assert kubelet.files == {"/data/there/deep/file": b"content"}
    await client.copy_from("web", "/data/there", tmp_path / "back")
    assert (tmp_path / "back" / "deep" / "file").read_bytes() == b"content"
    await client.copy_from("web", "/data/there/deep/file", tmp_path / "single")
    assert (tmp_path / "single").read_bytes() == b"content"


async def test_archive_cannot_write_outside_destination(
    client: Client, kubelet: Kubelet, tmp_path: Path
) -> None:
    kubelet.files = {"/data/there/../../../evil": b"x"}
    with pytest.raises(tarfile.OutsideDestinationError):
        await client.copy_from("web", "/data/there", tmp_path / "a" / "b")
    assert not list(tmp_path.rglob("evil"))
