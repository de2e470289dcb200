"""Local ports of the dashboard that are forwarded to pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.meta import ObjectMeta
from kubewright.dashboard import Dashboard
from kubewright.testing.server import TestServer, start_test_server

from .conftest import Browser, browse

PATH = "/api/port-forwards"


@pytest.fixture
async def nodes() -> AsyncIterator[TestServer]:
    async with start_test_server("in-process", None, nodes=1) as server:
        client = server.client()
        pod = Pod(
            metadata=ObjectMeta(name="web", namespace="default"),
            spec=PodSpec(containers=[Container(name="web", image="nginx:1")]),
        )
        await client.create(pod)
        await client.wait(pod, until=lambda pod: bool(pod.status and pod.status.phase == "Running"))
        yield server


async def test_a_local_port_reaches_the_pod_until_it_is_stopped(nodes: TestServer) -> None:
    async def upper(stream: Any) -> None:
        await stream.send((await stream.receive()).upper())

    nodes.pods.on_port_forward("web", upper, port=8080)
    async with browse(Dashboard(nodes.client())) as browser:
        body = {"namespace": "default", "name": "web", "port": 8080}
        status, created = await browser.status(PATH, "POST", json=body)
        assert status == 201
        reader, writer = await asyncio.open_connection("127.0.0.1", created["localPort"])
        writer.write(b"hello")
        assert await reader.read(100) == b"HELLO"
        writer.close()
        assert await browser.get(PATH) == {
            "forwards": [{"id": created["id"], "localPort": created["localPort"], **body}]
        }

        assert (await browser.status(f"{PATH}?id={created['id']}", "DELETE"))[0] == 200
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", created["localPort"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"namespace": "default", "name": "web", "port": 0}, "port must be a number from 1 to 65535, not 0"),
        ({"namespace": "default", "port": 80}, "namespace and name of the pod are required"),
        ({"namespace": "..", "name": "web", "port": 80}, "namespace '..' is not the name of an object"),
        (
            {"namespace": "a/../b?x", "name": "web", "port": 80},
            "namespace 'a/../b?x' is not the name of an object",
        ),
        ({"namespace": "default", "name": "..", "port": 80}, "name '..' is not the name of an object"),
        ([], "the body must be an object with namespace, name and port"),
    ],
)
async def test_invalid_requests_are_rejected(browser: Browser, body: object, message: str) -> None:
    status, response = await browser.status(PATH, "POST", json=body)
    assert (status, response["error"]["message"]) == (400, message)


async def test_a_pod_that_does_not_exist_is_not_found(browser: Browser) -> None:
    body = {"namespace": "default", "name": "none", "port": 80}
    assert (await browser.status(PATH, "POST", json=body))[0] == 404


async def test_a_read_only_dashboard_forwards_no_ports(server: TestServer) -> None:
    async with browse(Dashboard(server.client(), read_only=True)) as browser:
        status, response = await browser.status(PATH, "POST", json={})
        assert (status, response["error"]["message"]) == (
            403,
            "the dashboard is read-only; start it without --read-only",
        )
