"""Sign-in with one-time tokens, and the checks of every request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubewright.client import Client
from kubewright.dashboard import Dashboard, DashboardError

from .conftest import Browser, browse


async def test_a_token_works_once(client: Client) -> None:
    addresses: list[str] = []
    dashboard = Dashboard(client, on_address=addresses.append)
    await dashboard.start()
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as first:
            async with first.get(addresses[0], allow_redirects=False) as response:
                assert response.status == 303
                assert response.headers["Location"] == "/"
                cookie = response.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
            async with first.get(f"{dashboard.url}/api/info") as response:
                assert response.status == 200
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as second:
            async with second.get(addresses[0], allow_redirects=False) as response:
                assert response.status == 401
            async with second.get(addresses[1], allow_redirects=False) as response:
                assert response.status == 303
    finally:
        await dashboard.stop()


async def test_a_token_keeps_the_page_of_a_deep_link_and_never_leaves_the_server(client: Client) -> None:
    async with browse(Dashboard(client)) as browser:
        token = browser.dashboard.new_address().partition("token=")[2]
        url = f"{browser.dashboard.url}//evil.example/objects?kind=Pod&token={token}"
        async with browser.session.get(url, allow_redirects=False) as response:
            assert response.headers["Location"] == "/evil.example/objects?kind=Pod"


async def test_everything_requires_the_cookie(browser: Browser) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/static/app.js", "/api/info", "/api/stream", "/k8s/api/v1/pods"):
            async with session.get(browser.dashboard.url + path) as response:
                assert response.status == 401, path
                text = await response.text()
                assert "the address with a token" in text
        async with session.get(f"{browser.dashboard.url}/k8s/api/v1/pods") as response:
            assert (await response.json())["reason"] == "Unauthorized"


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Host": "evil.example:80"}, "is not a name of this dashboard"),
        ({"Sec-Fetch-Site": "same-site"}, "requests of other sites are rejected"),
        ({"Origin": "https://evil.example"}, "is not this dashboard"),
        ({"Origin": ""}, "is not this dashboard"),
        ({"X-Kubewright-Dashboard": ""}, "is missing"),
    ],
)
async def test_requests_of_other_pages_are_rejected(browser: Browser, headers: Any, problem: str) -> None:
    path = "/k8s/api/v1/namespaces/default/configmaps"
    status, body = await browser.status(path, "POST", headers=headers, json={"metadata": {"name": "a"}})
    assert status == 403
    assert problem in body["message"]
    assert not (await browser.get(path))["items"]


async def test_websockets_require_the_origin(browser: Browser) -> None:
    path = "/k8s/api/v1/namespaces/default/pods/a/exec?command=sh"
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await browser.session.ws_connect(
            browser.dashboard.url + path, headers={"Origin": "http://evil.example"}
        )
    assert caught.value.status == 403


async def test_pages_and_data_have_strict_policies(browser: Browser) -> None:
    async with browser.request("GET", "/objects/apps/v1/Deployment") as response:
        policy = response.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["Referrer-Policy"] == "no-referrer"
    async with browser.request("GET", "/k8s/api/v1/pods") as response:
        assert response.headers["Content-Security-Policy"].endswith("sandbox")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"


async def test_other_machines_need_tls(client: Client, tmp_path: Path) -> None:
    with pytest.raises(DashboardError, match="--tls-cert"):
        Dashboard(client, bind="0.0.0.0")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text("nothing")
    key.write_text("nothing")
    with pytest.raises(DashboardError, match="cannot use"):
        await Dashboard(client, bind="0.0.0.0", certificate=certificate, key=key).start()


async def test_a_port_in_use_is_reported(browser: Browser, client: Client) -> None:
    with pytest.raises(DashboardError, match=re.escape("choose another port with --port")):
        await Dashboard(client, port=browser.dashboard.port).start()


async def test_info_names_the_cluster_and_the_user(browser: Browser) -> None:
    info = await browser.get("/api/info")
    assert info["cluster"]["context"] == "test"
    assert info["cluster"]["version"].startswith("v1.")
    assert info["user"]["username"] == "kubernetes-admin"
    assert info["readOnly"] is False
    assert info["traces"] is False
