"""Logs, exec, attach and port-forward of simulated pods, through the API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import SimulatedCluster, start_cluster

from kubewright.api.errors import APIError, BadRequest
from kubewright.api.unstructured import Unstructured
from kubewright.client.rest.request import APIRequest
from kubewright.client.streams.exec import ExecError
from kubewright.workloads.nodes import ExecOutput, ExecRequest
from kubewright.workloads.nodes.containers.runtime import ByteStream


@pytest.fixture(params=["in-process", "tls"])
async def cluster(request: Any) -> AsyncIterator[SimulatedCluster]:
    async with start_cluster(request.param) as started:
        await started.create_pod("web", simulate={"logs": "one\ntwo\nthree\n"})
        await started.wait_ready("web")
        yield started


async def test_logs(cluster: SimulatedCluster) -> None:
    client = cluster.client
    assert await client.log("web") == "one\ntwo\nthree\n"
    assert await client.log("web", tail=1) == "three\n"
    assert (await client.log("web", limit_bytes=5)).rstrip() == "one\nt"
    assert await client.log("web", since=3600) == "one\ntwo\nthree\n"
    stamped = await client.log("web", timestamps=True, tail=1)
    assert stamped.endswith("Z three\n")
    with pytest.raises(BadRequest, match='previous terminated container "app" in pod "web" not found'):
        await client.log("web", previous=True)


async def test_logs_are_followed_until_the_container_ends(cluster: SimulatedCluster) -> None:
    lines: list[str] = []

    async def follow() -> None:
        async for line in cluster.client.log("web", follow=True):
            lines.append(line.strip())

    following = asyncio.create_task(follow())
    async with asyncio.timeout(120):
        while len(lines) < 3:
            await asyncio.sleep(0.01)
        cluster.nodes.pods.write_log("web", "four")
        while len(lines) < 4:
            await asyncio.sleep(0.01)
        cluster.nodes.pods.crash("web")
        await following
    assert lines == ["one", "two", "three", "four"]
    await cluster.wait_for("web", lambda status: status["containerStatuses"][0]["restartCount"] == 1)
    assert await cluster.client.log("web", previous=True) == "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize("protocol", ["binary.k8s.io", "base64.binary.k8s.io"])
async def test_logs_over_a_websocket(cluster: SimulatedCluster, protocol: str) -> None:
    socket = await cluster.client.rest.transport.websocket(
        "/api/v1/namespaces/default/pods/web/log", "container=app", protocols=(protocol,)
    )
    received = b""
    while (message := await socket.receive()) is not None:
        received += base64.b64decode(message) if protocol.startswith("base64") else message
    assert received == b"one\ntwo\nthree\n"


async def test_logs_of_a_container_that_has_not_started(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("slow", simulate={"start-delay": "1h"})
    await cluster.wait_for("slow", lambda status: "containerStatuses" in status)
    with pytest.raises(BadRequest, match='container "app" in pod "slow" is waiting to start'):
        await cluster.client.log("slow")


async def test_built_in_commands(cluster: SimulatedCluster) -> None:
    client = cluster.client
    result = await client.exec("web", ["echo", "hi"])
    assert (result.stdout, result.exit_code) == (b"hi\n", 0)
    result = await client.exec("web", ["sh", "-c", "echo a > /tmp/x; cat /tmp/x && cat /missing || echo no"])
    assert result.stdout == b"a\nno\n"
    assert b"No such file" in result.stderr
    assert (await client.exec("web", ["cat"], input=b"from stdin")).stdout == b"from stdin"
    assert (await client.exec("web", ["missing"])).exit_code == 127
    with pytest.raises(ExecError, match="exit code 1"):
        await client.exec("web", ["false"], check=True)


async def test_a_shell_on_a_terminal_echoes_and_prompts(cluster: SimulatedCluster) -> None:
    screen = b""
    async with cluster.client.exec("web", ["sh"], stdin=True, tty=True) as process:
        await process.write(b"echx\x7fo one; false\recho 'two\x15cat none\r\x1b[Aexit\r")
        async for _, data in process:
            screen += data
    assert screen.decode().replace("\b \b", "").split("\r\n") == [
        "$ echxo one; false",
        "one",
        "$ echo 'twocat none",
        "cat: none: No such file or directory",
        "$ exit",
        "",
    ]


async def test_exec_handler(cluster: SimulatedCluster) -> None:
    async def handle(request: ExecRequest) -> ExecOutput:
        data = await request.streams.read_stdin()
        return ExecOutput(f"{request.command} {data!r}", "warning", 3)

    cluster.nodes.pods.on_exec("app=web", handle)
    result = await cluster.client.exec("web", ["psql", "-c", "select 1"], input=b"x")
    assert result == (b"['psql', '-c', 'select 1'] b'x'", b"warning", 3)


async def test_copy(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("content")
    await cluster.client.copy_to("web", tmp_path / "folder", "/data/copy")
    assert (await cluster.client.exec("web", ["cat", "/data/copy/a.txt"])).stdout == b"content"
    await cluster.client.copy_from("web", "/data/copy", tmp_path / "back")
    assert (tmp_path / "back" / "a.txt").read_text() == "content"


async def test_attach_receives_output(cluster: SimulatedCluster) -> None:
    async with cluster.client.attach("web") as process:
        received = b""
        async with asyncio.timeout(120):
            async for _, data in process:
                received += data
                if received.endswith(b"three\n"):
                    cluster.nodes.pods.complete("web")
    assert received == b"one\ntwo\nthree\n"
    assert process.exit_code == 0


async def test_port_forward_to_a_function_and_to_a_local_port(cluster: SimulatedCluster) -> None:
    async def shout(stream: ByteStream) -> None:
        while data := await stream.receive():
            await stream.send(data.upper())

    async def whisper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).lower())
        await writer.drain()
        writer.close()

    local = await asyncio.start_server(whisper, "127.0.0.1", 0)
    cluster.nodes.pods.on_port_forward("app=web", shout, port=80)
    cluster.nodes.pods.on_port_forward("app=web", local.sockets[0].getsockname()[1], port=81)
    for port, expected in ((80, b"HELLO\n"), (81, b"hello\n")):
        async with cluster.client.port_forward("web", port) as forward, asyncio.timeout(120):
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(b"Hello\n")
            assert await reader.readline() == expected
            writer.close()
    local.close()


POD = "/api/v1/namespaces/default/pods/web"


async def test_ports_of_one_query_parameter(cluster: SimulatedCluster) -> None:
    """The generated clients join the ports with commas."""

    async def shout(stream: ByteStream) -> None:
        await stream.send((await stream.receive()).upper())

    cluster.nodes.pods.on_port_forward("web", shout)
    request = APIRequest("connect", "GET", f"{POD}/portforward", "ports=80,81")
    socket = await cluster.client.rest.open_websocket(request, ("v4.channel.k8s.io",))
    async with asyncio.timeout(120):
        starts = [await socket.receive() for _ in range(4)]
        assert starts == [b"\x00P\x00", b"\x01P\x00", b"\x02Q\x00", b"\x03Q\x00"]
        await socket.send(b"\x02hello")
        assert await socket.receive() == b"\x02HELLO"
    await socket.close()
    for text, reason in (("x", "invalid syntax"), ("", "invalid syntax"), ("70000", "value out of range")):
        request = APIRequest("connect", "GET", f"{POD}/portforward", f"ports=80,{text}")
        with pytest.raises(BadRequest, match=f'ParseUint: parsing "{text}": {reason}'):
            await cluster.client.rest.open_websocket(request, ("v4.channel.k8s.io",))


@pytest.mark.parametrize("protocol", ["v4.base64.channel.k8s.io", "base64.channel.k8s.io"])
async def test_commands_over_text_messages(cluster: SimulatedCluster, protocol: str) -> None:
    """The channel is a digit, and the data is base64."""

    async def shout(request: ExecRequest) -> ExecOutput:
        return ExecOutput((await request.streams.read_stdin()).decode().upper(), "", 0)

    cluster.nodes.pods.on_exec("app=web", shout)
    query = "command=shout&stdin=true&stdout=true"
    request = APIRequest("connect", "GET", f"{POD}/exec", query)
    socket = await cluster.client.rest.open_websocket(request, (protocol,))
    async with asyncio.timeout(120):
        assert socket.protocol == protocol
        await socket.send("0" + base64.b64encode(b"hello").decode())
        message = await socket.receive()
    assert message == "1" + base64.b64encode(b"HELLO").decode()
    await socket.close()


async def test_the_status_of_a_command_over_text_messages(cluster: SimulatedCluster) -> None:
    request = APIRequest("connect", "GET", f"{POD}/exec", "command=false&stdout=true")
    socket = await cluster.client.rest.open_websocket(request, ("v4.base64.channel.k8s.io",))
    async with asyncio.timeout(120):
        message = await socket.receive()
    assert isinstance(message, str)
    assert message[0] == "3"
    assert b'"NonZeroExitCode"' in base64.b64decode(message[1:])


async def test_booleans_of_the_query(cluster: SimulatedCluster) -> None:
    """Only `false` and `0` are false, in upper or lower case."""
    request = APIRequest(
        "connect", "GET", f"{POD}/exec", "command=echo&command=hi&stdout=True&stderr=False&tty=0"
    )
    socket = await cluster.client.rest.open_websocket(request, ("v4.channel.k8s.io",))
    async with asyncio.timeout(120):
        assert await socket.receive() == b"\x01hi\n"
    await socket.close()
    response = await cluster.client.rest.send(
        APIRequest("get", "GET", f"{POD}/log", "timestamps=True&tailLines=1&previous=FALSE")
    )
    assert response.body.endswith(b"Z three\n")


async def test_log_options_are_checked_before_the_pod_is_read(cluster: SimulatedCluster) -> None:
    for query, message in (
        ("tailLines=abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("limitBytes=", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("sinceTime=x", 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
    ):
        with pytest.raises(APIError) as caught:
            await cluster.client.rest.send(APIRequest("get", "GET", f"{POD}-missing/log", query))
        assert message in str(caught.value)


async def test_kubelet_requires_permission(cluster: SimulatedCluster) -> None:
    """A client that connects to the port directly is not authenticated."""
    import aiohttp

    listener = cluster.nodes.registration.listener
    assert listener is not None
    url = f"https://127.0.0.1:{listener.port}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        async with session.get(f"{url}/healthz") as response:
            assert await response.text() == "ok"
        async with session.get(f"{url}/containerLogs/default/web/app") as response:
            assert response.status == 401


async def test_failed_node_does_not_serve(cluster: SimulatedCluster) -> None:
    await cluster.client.log("web")
    cluster.nodes.fail("node-0")
    with pytest.raises(APIError):
        await cluster.client.log("web")


async def test_pod_proxy(cluster: SimulatedCluster) -> None:
    async def serve(stream: ByteStream) -> None:
        request = await stream.receive()
        target = request.split(b" ")[1]
        await stream.send(b"HTTP/1.1 201 Created\r\nX-Test: yes\r\nContent-Length: %d\r\n\r\n" % len(target))
        await stream.send(target)

    cluster.nodes.pods.on_port_forward("web", serve, port=8080)
    client = cluster.client
    request = client.build_request(
        "get", "GET", await client.locate("pods", "web:8080"), subresource="proxy/a/b", query={"q": "1"}
    )
    response = await client.send(request)
    assert (response.status, response.body) == (201, b"/a/b?q=1")
    spec = {"ports": [{"port": 80, "targetPort": 8080}]}
    metadata = {"name": "web", "namespace": "default"}
    await client.create(
        Unstructured({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    )
    pod = await client.get("pods", "web")
    target = {"kind": "Pod", "name": "web", "namespace": "default"}
    subset = {
        "addresses": [{"ip": pod.raw["status"]["podIP"], "targetRef": target}],
        "ports": [{"port": 8080}],
    }
    await client.create(
        Unstructured({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})
    )
    for name in ("web", "web:80"):
        path = f"/api/v1/namespaces/default/services/{name}/proxy/c"
        response = await client.rest.send(APIRequest("get", "GET", path, ""))
        assert (response.status, response.body) == (201, b"/c")
