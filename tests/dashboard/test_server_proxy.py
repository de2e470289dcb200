"""`/k8s/`: requests, watches and WebSockets with the credentials of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kubewright.client import Client, ClusterConfig
from kubewright.dashboard import Dashboard
from kubewright.testing.server import start_test_server

from .conftest import Browser, browse

CONFIG_MAPS = "/k8s/api/v1/namespaces/default/configmaps"


@pytest.fixture(params=["in-process", "tls"])
async def any_browser(request: Any) -> AsyncIterator[Browser]:
    async with start_test_server(request.param, None, controllers=False) as server:
        client = server.client()
        async with browse(Dashboard(client)) as made:
            yield made
        await client.aclose()


async def test_objects_are_created_listed_and_applied(any_browser: Browser) -> None:
    browser = any_browser
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    status, created = await browser.status(CONFIG_MAPS, "POST", json=body)
    assert (status, created["metadata"]["name"]) == (201, "a")
    apply = {"Content-Type": "application/apply-patch+yaml"}
    changed = json.dumps({**body, "data": {"x": "2"}})
    query = "?fieldManager=kubewright-dashboard"
    status, conflict = await browser.status(f"{CONFIG_MAPS}/a{query}", "PATCH", data=changed, headers=apply)
    assert status == 409
    assert conflict["details"]["causes"][0]["field"] == ".data.x"
    status, dry = await browser.status(
        f"{CONFIG_MAPS}/a{query}&force=true&dryRun=All", "PATCH", data=changed, headers=apply
    )
    assert (status, dry["data"]["x"]) == (200, "2")
    assert (await browser.get(f"{CONFIG_MAPS}/a"))["data"]["x"] == "1"
    table = await browser.get(
        CONFIG_MAPS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    )
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][0] == "a"


async def test_a_watch_is_streamed_and_closed_with_the_page(any_browser: Browser) -> None:
    browser = any_browser
    async with browser.request("GET", f"{CONFIG_MAPS}?watch=true") as response:
        assert response.status == 200
        await browser.status(CONFIG_MAPS, "POST", json={"metadata": {"name": "b"}})
        line = await asyncio.wait_for(response.content.readline(), 60)
    assert json.loads(line)["object"]["metadata"]["name"] == "b"


async def test_headers_of_the_browser_do_not_reach_the_api_server(browser: Browser) -> None:
    impersonate = {"Impersonate-User": "jane", "Authorization": "Bearer wrong"}
    assert (await browser.get("/k8s/api/v1/namespaces", headers=impersonate))["kind"] == "NamespaceList"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/k8s/api/v1/namespaces/default/pods/a/proxy/", 403),
        ("/k8s/api/v1/namespaces/default/services/a:80/proxy", 403),
        ("/k8s/api/v1/nodes/a/proxy/logs", 403),
        ("/k8s/api/v1/namespaces/default/pods/a/%70roxy/", 403),
        ("/k8s/debug/pprof", 404),
        ("/k8s/api/v1/namespaces/default%2Fpods", 400),
    ],
)
async def test_paths_that_are_not_the_api_are_rejected(browser: Browser, path: str, status: int) -> None:
    from yarl import URL

    url = URL(browser.dashboard.url + path, encoded=True)
    async with browser.session.get(url, headers=browser.headers) as response:
        assert response.status == status
        assert (await response.json())["kind"] == "Status"


async def test_read_only_rejects_changes_and_exec(client: Client) -> None:
    async with browse(Dashboard(client, read_only=True)) as browser:
        status, body = await browser.status(CONFIG_MAPS, "POST", json={"metadata": {"name": "a"}})
        assert status == 403
        assert "--read-only" in body["message"]
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await browser.websocket("/k8s/api/v1/namespaces/default/pods/a/exec?command=sh")
        assert caught.value.status == 403
        assert (await browser.get("/k8s/api/v1/pods"))["kind"] == "PodList"


async def test_an_unreachable_api_server_is_reported() -> None:
    config = ClusterConfig(server="http://127.0.0.1:1")
    async with (
        Client.connect(config, metrics=False) as client,
        browse(Dashboard(client)) as browser,
    ):
        status, body = await browser.status("/k8s/api/v1/pods")
        assert status == 502
        assert "cannot be reached" in body["message"]
