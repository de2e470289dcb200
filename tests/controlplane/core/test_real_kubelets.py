"""Nodes that are not simulated: streams and proxies of the pods of a real kubelet."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.controlplane.core.kubelet_double import PODS, Handler, create_node_and_pod, serve_kubelet
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import NotFound
from kubewright.api.values.times import format_time, now
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.kubelets import kubelet_usage
from kubewright.controlplane.kubelets.pod_connections import is_global_unicast

TOKEN = {"Authorization": "Bearer secret"}
STATUS = b'\x03{"metadata":{},"status":"Success"}'
POD_IP = "10.244.7.5"


def plane_with_token(folder: Path, **options: object) -> ControlPlane:
    """Return a control plane with a token of an administrator."""
    tokens = folder / "tokens.csv"
    tokens.write_text('secret,admin,1,"system:masters"\n')
    return ControlPlane(token_auth_file=tokens, **options)  # type: ignore[arg-type]


def end_without_close_frame(*messages: bytes) -> Handler:
    """Return a handler of exec that sends messages and ends TCP, as kubelets do."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        for message in messages:
            await socket.send_bytes(message)
        assert request.transport is not None
        request.transport.close()
        return socket

    return handle


@pytest.mark.parametrize(("messages", "code"), [((b"\x01hi", STATUS), 1000), ((b"\x01hi",), 1011)])
async def test_a_kubelet_ends_the_connection_of_a_command(
    tmp_path: Path, messages: tuple[bytes, ...], code: int
) -> None:
    """The close code 1006 cannot be sent; without a status, the command has not succeeded."""
    handler = end_without_close_frame(*messages)
    async with serve_kubelet(handler) as port, plane_with_token(tmp_path) as plane:
        await create_node_and_pod(plane, port)
        url = f"{plane.url}{PODS}/p/exec?command=true&stdout=true"
        async with (
            aiohttp.ClientSession(headers=TOKEN) as session,
            session.ws_connect(
                url, protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"), ssl=False
            ) as socket,
        ):
            received = [message.data async for message in socket]
            assert (received, socket.close_code) == (list(messages), code)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", True),
        ("fd00::1", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
        ("", False),
    ],
)
def test_addresses_that_requests_are_forwarded_to(address: str, expected: bool) -> None:
    assert is_global_unicast(address) is expected


async def test_a_pod_with_a_loopback_address_is_not_reached(tmp_path: Path) -> None:
    async with plane_with_token(tmp_path) as plane, aiohttp.ClientSession(headers=TOKEN) as session:
        await create_node_and_pod(plane, 1, pod_ip="127.0.0.1")
        async with session.get(f"{plane.url}{PODS}/p:80/proxy/", ssl=False) as response:
            assert (response.status, (await response.json())["message"]) == (400, "address not allowed")


def test_requests_are_forwarded_to_the_address_of_a_pod(tmp_path: Path) -> None:
    """In a network namespace, whose loopback interface has the address of the pod."""
    unshare, ip = shutil.which("unshare"), shutil.which("ip")
    prepare = f"ip link set lo up && ip address add {POD_IP}/32 dev lo"
    if unshare is None or ip is None:
        pytest.skip("unshare and ip are not installed")
    if subprocess.run([unshare, "-rn", "sh", "-c", prepare], capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here")
    script = f"from {__name__} import *; asyncio.run(exercise_pod_proxy(Path({str(tmp_path)!r})))"
    command = f'{prepare} && exec "$0" -c "$1"'
    done = subprocess.run(
        [unshare, "-rn", "sh", "-c", command, sys.executable, script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def exercise_pod_proxy(folder: Path) -> None:
    """Check `pods/proxy` and `services/proxy` with a server on the address of a pod."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/redirect":
            return web.Response(status=302, headers={"Location": "/other?x=1"})
        if request.path == "/socket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str(f"echo {await socket.receive_str()}")
            await socket.close()
            return socket
        headers = {name: request.headers.get(name, "") for name in ("Authorization", "X-Forwarded-Uri")}
        text = f"{request.method} {request.rel_url} {await request.text()} {headers}"
        return web.Response(text=text)

    listener = await asyncio.get_running_loop().create_server(web.Server(handle), POD_IP, 8080)
    async with plane_with_token(folder) as plane, aiohttp.ClientSession(headers=TOKEN) as session:
        await create_node_and_pod(plane, 1, pod_ip=POD_IP)
        client = PathClient(plane.server, SYSTEM, user_agent="test")
        metadata = {"name": "s"}
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        await client.create(
            "/api/v1/namespaces/default/services", {"metadata": metadata, "spec": {"ports": ports}}
        )
        reference = {"kind": "Pod", "name": "p", "namespace": "default"}
        subset = {
            "addresses": [{"ip": POD_IP, "targetRef": reference}],
            "ports": [{"name": "http", "port": 8080}],
        }
        await client.create(
            "/api/v1/namespaces/default/endpoints", {"metadata": metadata, "subsets": [subset]}
        )
        pod, service = f"{PODS}/p:8080/proxy", "/api/v1/namespaces/default/services/s:http/proxy"
        for path in (pod, service, "/api/v1/namespaces/default/services/s:80/proxy"):
            async with session.post(f"{plane.url}{path}/a/b?q=1", data=b"body", ssl=False) as response:
                assert response.status == 200
                expected = {"Authorization": "", "X-Forwarded-Uri": f"{path}/a/b"}
                assert await response.text() == f"POST /a/b?q=1 body {expected}"
            async with session.get(f"{plane.url}{path}", ssl=False, allow_redirects=False) as response:
                assert (response.status, response.headers["Location"]) == (301, f"{path}/")
        async with session.get(f"{plane.url}{pod}/redirect", ssl=False, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (302, f"{pod}/other?x=1")
        async with session.ws_connect(f"{plane.url}{pod}/socket", ssl=False) as socket:
            await socket.send_str("hello")
            assert await socket.receive_str() == "echo hello"
        async with session.get(f"{plane.url}{PODS}/p:8081/proxy/", ssl=False) as response:
            text = f"error trying to reach service: dial tcp {POD_IP}:8081: connect: connection refused"
            assert (response.status, (await response.json())["message"]) == (503, text)
    listener.close()


async def test_usage_is_what_the_kubelet_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU usage is the increase between two samples; there is no usage before the second one."""
    monkeypatch.setattr(kubelet_usage, "INTERVAL", 0.01)
    samples = 0

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal samples
        if request.path != "/metrics/resource":
            return web.Response(status=404)
        samples += 1
        text = (
            "# HELP node_cpu_usage_seconds_total CPU time\n"
            f"node_cpu_usage_seconds_total {samples * 20} {samples * 10_000}\n"
            f"node_memory_working_set_bytes 1.048576e+06 {samples * 10_000}\n"
            'container_cpu_usage_seconds_total{container="c",namespace="default",pod="p"} '
            f"{samples * 2.5} {samples * 10_000}\n"
            'container_memory_working_set_bytes{container="c",namespace="default",pod="p"} 2.097152e+06\n'
        )
        return web.Response(text=text)

    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("nodes: []\n")
    async with (
        serve_kubelet(handle) as port,
        plane_with_token(tmp_path, nodes=nodes) as plane,
    ):
        await create_node_and_pod(plane, port)
        client = PathClient(plane.server, SYSTEM, user_agent="test")
        metrics = "/apis/metrics.k8s.io/v1beta1"
        for resource in ("nodes", "pods"):
            assert (await client.get(f"{metrics}/{resource}"))["items"] == []
        with pytest.raises(NotFound):
            await client.get(f"{metrics}/namespaces/default/pods/p")
        async with asyncio.timeout(120):
            while not (items := (await client.get(f"{metrics}/nodes"))["items"]):
                await asyncio.sleep(0.01)
        (node,) = items
        assert (node["usage"], node["window"]) == ({"cpu": "2", "memory": "1Mi"}, "10.000s")
        pod = await client.get(f"{metrics}/namespaces/default/pods/p")
        assert pod["containers"] == [{"name": "c", "usage": {"cpu": "250m", "memory": "2Mi"}}]


async def test_a_ready_node_loses_its_taint_before_the_first_pod(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("nodes: []\n")
    async with plane_with_token(tmp_path, nodes=nodes) as plane:
        client = PathClient(plane.server, SYSTEM, user_agent="test")
        created = await client.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        assert [taint["key"] for taint in created["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
        moment = format_time(now())
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": moment}
        await client.merge("/api/v1/nodes/n/status", {"status": {"conditions": [condition]}})
        async with asyncio.timeout(120):
            while "taints" in (await client.get("/api/v1/nodes/n"))["spec"]:
                await asyncio.sleep(0.01)
            while not (events := (await client.get("/api/v1/namespaces/default/events"))["items"]):
                await asyncio.sleep(0.01)
        assert (await client.get("/api/v1/pods"))["items"] == []
        assert [event["message"] for event in events] == ["Node n event: Registered Node n in Controller"]
