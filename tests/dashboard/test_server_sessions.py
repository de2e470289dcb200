"""Sign-in with one-time tokens, and the checks of every request."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubewright.client import Client
from kubewright.dashboard import Dashboard, DashboardError
from kubewright.dashboard.sessions import HEADER, SESSION_SECONDS, Sessions
from kubewright.tls.certificates import CertificateAuthority

from .conftest import Browser, browse, sign_in


async def test_a_token_works_once(client: Client) -> None:
    addresses: list[str] = []
    dashboard = Dashboard(client, on_address=addresses.append)
    await dashboard.start()
    try:
        async with aiohttp.ClientSession() as browser:
            session = await sign_in(browser, addresses[0])
            async with browser.get(f"{dashboard.url}/api/info", headers={HEADER: session}) as response:
                assert response.status == 200
            async with browser.get(addresses[0]) as response:
                assert response.status == 401
            assert await sign_in(browser, addresses[1]) != session
    finally:
        await dashboard.stop()


async def test_a_session_is_bound_to_the_origin_of_the_page(browser: Browser) -> None:
    """There is no cookie, which browsers would send to every port of the host, also to forwarded ones."""
    address = browser.dashboard.new_address()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(address) as response:
            assert response.headers["Cache-Control"] == "no-store"
            assert "Set-Cookie" not in response.headers
        async with session.get(f"{browser.dashboard.url}/api/info") as response:
            assert response.status == 401
            assert "Set-Cookie" not in response.headers
        assert not list(session.cookie_jar)
    async with browser.request("GET", "/") as response:
        assert browser.headers[HEADER] not in await response.text()


async def test_streams_and_websockets_have_their_own_ways_to_send_a_session(browser: Browser) -> None:
    session = browser.headers[HEADER]
    plain = {"Origin": browser.dashboard.url}
    async with aiohttp.ClientSession(headers=plain) as other:
        async with other.get(f"{browser.dashboard.url}/api/stream?overview=1&session={session}") as response:
            assert response.status == 200
        # Only the stream: other addresses with a session could be forwarded, logged or shared.
        for path in ("/api/info", "/k8s/api/v1/pods"):
            async with other.get(f"{browser.dashboard.url}{path}?session={session}") as response:
                assert response.status == 401
        path = f"{browser.dashboard.url}/k8s/api/v1/namespaces/default/pods/a/exec?command=sh"
        for protocols, status in (((), 401), ((f"kubewright.session.{session}", "v4.channel.k8s.io"), 404)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await other.ws_connect(path, protocols=protocols)
            assert caught.value.status == status


@pytest.mark.parametrize("key", [b"", b"key"])
async def test_undecodable_bytes_of_a_browser_are_no_internal_error(
    client: Client, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with browse(Dashboard(client, session_key=key)) as browser:
        host = browser.dashboard.url.removeprefix("http://")
        signed_in = f"{HEADER}: {browser.headers[HEADER]}".encode()
        for header, status in (
            (b"%s: \xff.\xfe" % HEADER.encode(), 401),
            (b"Cookie: \xff", 401),
            (b"%s\r\nSec-Fetch-Site: \xff" % signed_in, 403),
            (b"%s\r\nAccept: \xff" % signed_in, 406),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", browser.dashboard.port)
            head = b"GET /k8s/api/v1/pods HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n\r\n"
            writer.write(head % (host.encode(), header))
            response = await reader.read()
            writer.close()
            assert int(response.split(b" ", 2)[1]) == status, response
    assert not [record for record in caplog.records if record.exc_info]


async def test_data_requires_a_session(browser: Browser) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/api/info", "/api/stream", "/k8s/api/v1/pods"):
            async with session.get(browser.dashboard.url + path) as response:
                assert response.status == 401, path
                assert "the address with a token" in await response.text()
        async with session.get(f"{browser.dashboard.url}/k8s/api/v1/pods") as response:
            assert (await response.json())["reason"] == "Unauthorized"
        for path in ("/", "/static/app.js"):
            async with session.get(browser.dashboard.url + path) as response:
                assert response.status == 200


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Host": "evil.example:80"}, "is not a name of this dashboard"),
        ({"Sec-Fetch-Site": "same-site"}, "requests of other sites are rejected"),
        ({"Origin": "https://evil.example"}, "is not this dashboard"),
        ({"Origin": ""}, "is not this dashboard"),
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
            browser.dashboard.url + path,
            headers={"Origin": "http://evil.example"},
            protocols=(f"kubewright.session.{browser.headers[HEADER]}",),
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


async def test_unknown_paths_and_methods_are_errors(browser: Browser) -> None:
    assert (await browser.status("/api/missing"))[0] == 404
    status, body = await browser.status("/api/overview", "POST")
    assert status == 405
    assert body["error"]["message"] == "/api/overview supports GET, not POST"
    async with browser.request("HEAD", "/api/stream") as response:
        assert response.status == 405


async def test_missing_files_are_not_pages(browser: Browser) -> None:
    async with browser.request("GET", "/static/chunks/missing.js") as response:
        assert response.status == 404


async def test_other_machines_need_tls(client: Client, tmp_path: Path) -> None:
    with pytest.raises(DashboardError, match="--tls-cert"):
        Dashboard(client, bind="0.0.0.0")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text("nothing")
    key.write_text("nothing")
    with pytest.raises(DashboardError, match="cannot use"):
        await Dashboard(client, bind="0.0.0.0", certificate=certificate, key=key).start()


async def test_other_machines_are_served_over_tls(client: Client, tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    pair = authority.issue("dashboard", hosts=("127.0.0.1", "dash.example"), server=True)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    dashboard = Dashboard(client, bind="0.0.0.0", certificate=certificate, key=key, hosts=["dash.example"])
    await dashboard.start()
    context = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    try:
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            address = dashboard.new_address()
            assert address.startswith("https://127.0.0.1:")
            signed_in = {HEADER: await sign_in(session, address)}
            named = {**signed_in, "Host": f"dash.example:{dashboard.port}"}
            async with session.get(f"{dashboard.url}/api/info", headers=named) as response:
                assert response.status == 200
            other = {**signed_in, "Host": f"other.example:{dashboard.port}"}
            async with session.get(f"{dashboard.url}/api/info", headers=other) as response:
                assert response.status == 403
    finally:
        await dashboard.stop()


def test_signed_sessions_outlive_a_restart_and_expire() -> None:
    now = [1000.0]
    first = Sessions(key=b"key", clock=lambda: now[0])
    cookie = first.exchange(first.new_token())
    assert cookie is not None
    second = Sessions(key=b"key", clock=lambda: now[0])
    assert second.is_valid(cookie)
    assert not Sessions(key=b"other").is_valid(cookie)
    expires, _, rest = cookie.partition(".")
    assert not second.is_valid(f"{int(expires) + 1}.{rest}")
    assert not second.is_valid("")
    now[0] += SESSION_SECONDS + 1
    assert not second.is_valid(cookie)
    plain = Sessions(clock=lambda: now[0])
    session = plain.exchange(plain.new_token())
    assert session is not None
    assert plain.is_valid(session)
    now[0] += SESSION_SECONDS + 1
    assert not plain.is_valid(session)


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
