"""Watches over WebSockets, as browsers open them: the token is a sub-protocol, and one is returned."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubewright.controlplane import ControlPlane

TOKEN = "base64url.bearer.authorization.k8s.io." + urlsafe_b64encode(b"secret").decode().rstrip("=")
NAMESPACES = "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dkube-system"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,admin,1,"system:masters"\n')
    async with ControlPlane(token_auth_file=tokens) as started:
        yield started


@pytest.mark.parametrize("offered", ["base64.binary.k8s.io", "binary.k8s.io", "v4.channel.k8s.io"])
async def test_the_offered_protocol_is_returned(plane: ControlPlane, offered: str) -> None:
    """Whatever it is, events are text: kube-apiserver does not encode those of watches."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{plane.url}{NAMESPACES}", protocols=(TOKEN, offered), ssl=False) as socket,
    ):
        assert socket.protocol == offered
        event = json.loads(await socket.receive_str(timeout=120))
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "kube-system")


async def test_a_watch_accepts_one_protocol(plane: ControlPlane) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            protocols = (TOKEN, "binary.k8s.io", "base64.binary.k8s.io")
            await session.ws_connect(f"{plane.url}{NAMESPACES}", protocols=protocols, ssl=False)
    assert raised.value.status == 400


@asynccontextmanager
async def forward_plain_text(plane: ControlPlane) -> AsyncIterator[int]:
    """Forward connections to the server: headless Chromium cancels when a server requests a certificate."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        other = await asyncio.open_connection("127.0.0.1", plane.port, ssl=context)
        await asyncio.gather(copy(reader, other[1]), copy(other[0], writer), return_exceptions=True)

    listener = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; install it with apt-get")
async def test_a_browser_watches_with_a_token(plane: ControlPlane) -> None:
    """Chromium closes the connection unless the response names one of the offered protocols."""
    playwright = pytest.importorskip("playwright.async_api")
    script = """([url, protocols]) => new Promise((resolve, reject) => {
        const socket = new WebSocket(url, protocols);
        socket.onmessage = (message) => { resolve([socket.protocol, message.data]); socket.close(); };
        socket.onclose = (event) => reject(new Error(`closed with code ${event.code}`));
    })"""
    async with forward_plain_text(plane) as port, playwright.async_playwright() as running:
        url, arguments = f"ws://127.0.0.1:{port}{NAMESPACES}", ["--no-sandbox", "--disable-gpu"]
        browser: Any = await running.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            page = await browser.new_page()
            protocol, data = await page.evaluate(script, [url, [TOKEN, "base64.binary.k8s.io"]])
        finally:
            await browser.close()
    assert protocol == "base64.binary.k8s.io"
    assert json.loads(data)["object"]["metadata"]["name"] == "kube-system"
