"""Fixtures: a control plane, a dashboard of it, and a signed-in browser session."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kubewright.client import Client
from kubewright.dashboard import ClusterName, Dashboard
from kubewright.dashboard.objects import object_index
from kubewright.testing.server import TestServer, start_test_server


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    return {"asyncio": asyncio.SelectorEventLoop}


@pytest.fixture(autouse=True)
def complete_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests wait until all kinds have been read, however busy the machine is."""
    monkeypatch.setattr(object_index, "SYNC_SECONDS", 60.0)


class Browser:
    """Requests of a page of the dashboard, with its session and headers."""

    def __init__(self, dashboard: Dashboard, session: aiohttp.ClientSession) -> None:
        self.dashboard = dashboard
        self.session = session
        self.headers = {
            "Origin": dashboard.url,
            "Sec-Fetch-Site": "same-origin",
        }

    async def sign_in(self) -> None:
        self.headers["X-Kubewright-Dashboard"] = await sign_in(self.session, self.dashboard.new_address())

    def websocket(self, path: str, *protocols: str) -> Any:
        """Open a WebSocket as a page does, which cannot set headers: a subprotocol has the session."""
        headers = {**self.headers}
        session = f"kubewright.session.{headers.pop('X-Kubewright-Dashboard')}"
        return self.session.ws_connect(
            f"{self.dashboard.url}{path}", headers=headers, protocols=(*protocols, session)
        )

    def request(self, method: str, path: str, **options: Any) -> Any:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.session.request(method, f"{self.dashboard.url}{path}", headers=headers, **options)

    async def get(self, path: str, **options: Any) -> Any:
        async with self.request("GET", path, **options) as response:
            body = await response.read()
            assert response.status == 200, (path, response.status, body)
            return json.loads(body)

    async def status(self, path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
        async with self.request(method, path, **options) as response:
            return response.status, await response.json()

    @asynccontextmanager
    async def events(self, path: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Read Server-Sent Events as pairs of name and data."""
        async with self.request("GET", path, timeout=aiohttp.ClientTimeout(total=120)) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream"
            yield _events(response.content)


async def sign_in(session: aiohttp.ClientSession, address: str) -> str:
    """Open an address with a token and return the session that the page contains."""
    async with session.get(address) as response:
        assert response.status == 200
        found = re.search(r'<meta name="session" content="([^"]+)">', await response.text())
        assert found is not None
        return found.group(1)


async def _events(content: Any) -> AsyncIterator[tuple[str, Any]]:
    name, data = "", ""
    async for line in content:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            data = text.removeprefix("data: ")
        elif not text and name:
            yield name, json.loads(data)
            name = ""


@asynccontextmanager
async def browse(dashboard: Dashboard) -> AsyncIterator[Browser]:
    """Start a dashboard and sign in."""
    await dashboard.start()
    try:
        async with aiohttp.ClientSession() as session:
            browser = Browser(dashboard, session)
            await browser.sign_in()
            yield browser
    finally:
        await dashboard.stop()


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server(
        "in-process", None, controllers=False, disable_admission_plugins=["ServiceAccount"]
    ) as made:
        yield made


@pytest.fixture
async def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
async def browser(client: Client) -> AsyncIterator[Browser]:
    cluster = ClusterName(server="https://127.0.0.1:6443", context="test")
    async with browse(Dashboard(client, cluster=cluster)) as made:
        yield made
