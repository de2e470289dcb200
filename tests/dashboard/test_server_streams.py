"""exec, port-forward and logs of pods through `/k8s/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.meta import ObjectMeta
from kubewright.dashboard import Dashboard
from kubewright.testing.server import TestServer, start_test_server
from kubewright.workloads.nodes.containers.runtime import ExecOutput

from .conftest import Browser, browse

POD = "/k8s/api/v1/namespaces/default/pods/web"


@pytest.fixture(params=["in-process", "tls"])
async def nodes(request: Any) -> AsyncIterator[TestServer]:
    async with start_test_server(request.param, None, nodes=1) as server:
        client = server.client()
        pod = Pod(
            metadata=ObjectMeta(name="web", namespace="default"),
            spec=PodSpec(containers=[Container(name="web", image="nginx:1")]),
        )
        await client.create(pod)
        await client.wait(pod, until=lambda pod: bool(pod.status and pod.status.phase == "Running"))
        yield server
        await client.aclose()


async def test_exec_logs_and_port_forward(nodes: TestServer) -> None:
    async def shout(request: Any) -> ExecOutput:
        return ExecOutput((await request.streams.read_stdin()).decode().upper(), "", 3)

    async def upper(stream: Any) -> None:
        await stream.send((await stream.receive()).upper())

    nodes.pods.on_exec("web", shout)
    nodes.pods.on_port_forward("web", upper, port=8080)
    nodes.pods.write_log("web", "<script>alert(1)</script>\n")
    client = nodes.client()
    async with browse(Dashboard(client)) as browser:
        await check_exec(browser)
        await check_port_forward(browser)
        async with browser.request("GET", f"{POD}/log?follow=true") as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            line = await asyncio.wait_for(response.content.readline(), 60)
            assert line == b"<script>alert(1)</script>\n"
            nodes.pods.write_log("web", "second\n")
            assert await asyncio.wait_for(response.content.readline(), 60) == b"second\n"
    await client.aclose()


async def check_exec(browser: Browser) -> None:
    path = f"{POD}/exec?command=shout&stdin=true&stdout=true"
    async with browser.websocket(path, "v5.channel.k8s.io", "v4.channel.k8s.io") as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        await socket.send_bytes(b"\x00hello\n")
        await socket.send_bytes(b"\xff\x00")  # closes stdin
        messages = []
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY and message.data[1:]:
                messages.append(message.data)
    assert b"\x01HELLO\n" in messages
    status = json.loads(next(each for each in messages if each[0] == 3)[1:])
    assert status["details"]["causes"][0]["message"] == "3"


async def check_port_forward(browser: Browser) -> None:
    async with browser.websocket(f"{POD}/portforward?ports=8080", "v4.channel.k8s.io") as socket:
        await socket.send_bytes(b"\x00hi")
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY and message.data == b"\x00HI":
                break
        else:
            raise AssertionError("the port was not forwarded")


async def test_a_missing_pod_is_reported_before_the_upgrade(nodes: TestServer) -> None:
    client = nodes.client()
    async with browse(Dashboard(client)) as browser:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await browser.websocket(f"{POD}-missing/exec?command=sh&stdout=true", "v5.channel.k8s.io")
        assert caught.value.status == 404
    await client.aclose()
