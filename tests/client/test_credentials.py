"""Token files, exec plug-ins, OIDC and certificate rotation."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubewright.apiserver import APIServer, serve
from kubewright.client import (
    Client,
    ClusterConfig,
    ConfigError,
    ConnectionFailed,
    Credentials,
    CredentialsError,
    ExecPlugin,
    HTTPTransport,
    Impersonation,
    PEMData,
)
from kubewright.client.config.exec_plugin import ExecCredentials
from kubewright.client.config.oidc import OIDCToken
from kubewright.storage import MemoryStorage
from kubewright.tls.certificates import CertificateAuthority


async def test_token_file_is_reread(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "token"
    path.write_text("one\n")
    credentials = Credentials(ClusterConfig(server="https://x", token_file=str(path)), clock=lambda: now[0])
    assert (await credentials.headers())["Authorization"] == "Bearer one"
    path.write_text("two")
    assert (await credentials.headers())["Authorization"] == "Bearer one"
    now[0] = 61
    assert (await credentials.headers())["Authorization"] == "Bearer two"
    path.unlink()
    now[0] = 122
    assert (await credentials.headers())["Authorization"] == "Bearer two"
    with pytest.raises(CredentialsError, match="cannot read token file"):
        await Credentials(ClusterConfig(server="https://x", token_file=str(path))).headers()


async def test_impersonation_and_basic_headers() -> None:
    who = Impersonation(user="jane", groups=("a", "b"), uid="7", extra={"example.com/scopes": ("x",)})
    config = ClusterConfig(server="https://x", username="u", password="p", impersonation=who)
    headers = await Credentials(config).headers()
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"u:p").decode()
    assert headers.getall("Impersonate-Group") == ["a", "b"]
    assert headers["Impersonate-Extra-example.com%2Fscopes"] == "x"


def plugin(
    tmp_path: Path, status: dict[str, Any] | str, version: str = "v1", **options: Any
) -> ClusterConfig:
    """A plug-in that counts its runs and prints this status, with the count in place of COUNT."""
    script, counter = tmp_path / "plugin.py", tmp_path / "count"
    api = f"client.authentication.k8s.io/{version}"
    printed = (
        status
        if isinstance(status, str)
        else json.dumps({"kind": "ExecCredential", "apiVersion": api, "status": status})
    )
    script.write_text(
        f"""
import os, pathlib
counter = pathlib.Path({str(counter)!r})
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
pathlib.Path({str(tmp_path / "info")!r}).write_text(os.environ.get("KUBERNETES_EXEC_INFO", ""))
print({printed!r}.replace("COUNT", str(count)))
"""
    )
    made = ExecPlugin(
        api_version=api, command=sys.executable, args=(str(script),), interactive_mode="Never", **options
    )
    return ClusterConfig(server="https://x", exec=made, source="test")


async def test_plugin_runs_again_after_expiry_or_401(tmp_path: Path) -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    expires = (now[0] + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = plugin(tmp_path, {"token": "token-COUNT", "expirationTimestamp": expires}, "v1beta1")
    credentials = ExecCredentials(config, now=lambda: now[0])
    assert await asyncio.gather(credentials.token(), credentials.token()) == ["token-1", "token-1"]
    now[0] += timedelta(minutes=59, seconds=55)
    assert await credentials.token() == "token-2"
    now[0] -= timedelta(minutes=59)
    assert await credentials.token() == "token-2"
    assert credentials.invalidate()
    assert await credentials.token() == "token-3"


async def test_plugin_receives_cluster_info_on_request(tmp_path: Path) -> None:
    await ExecCredentials(plugin(tmp_path, {"token": "t"}, provide_cluster_info=True)).token()
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://x"}}


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ("no json", "did not print JSON"),
        ("{}", "did not print an ExecCredential"),
        ({}, "neither a token nor a client certificate"),
        ({"token": "t", "expirationTimestamp": "soon"}, "invalid expirationTimestamp"),
    ],
)
async def test_plugin_errors_name_the_plugin(tmp_path: Path, status: Any, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint):
        await ExecCredentials(plugin(tmp_path, status)).token()


async def test_missing_plugin_error_has_install_hint() -> None:
    made = ExecPlugin(
        api_version="client.authentication.k8s.io/v1", command="/no/such", install_hint="brew install it"
    )
    with pytest.raises(CredentialsError, match=r"(?s)could not be started.*brew install it"):
        await ExecCredentials(ClusterConfig(server="https://x", exec=made)).token()


def jwt(expires: float, name: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires, "n": name}).encode()).decode().rstrip("=")
    return f"h.{claims}.s"


async def test_an_id_token_is_refreshed_before_it_expires() -> None:
    old, new = jwt(time.time() + 5, "old"), jwt(time.time() + 3600, "new")
    asked: list[dict[str, Any]] = []

    async def discovery(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"http://{request.host}/token"})

    async def token(request: web.Request) -> web.Response:
        asked.append(dict(await request.post()))
        return web.json_response({"id_token": new, "refresh_token": "r2"})

    app = web.Application()
    app.add_routes([web.get("/.well-known/openid-configuration", discovery), web.post("/token", token)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
        source = OIDCToken(
            {"idp-issuer-url": issuer, "client-id": "c", "id-token": old, "refresh-token": "r1"}
        )
        assert await asyncio.gather(source.token(), source.token()) == [new, new]
        assert [each["refresh_token"] for each in asked] == ["r1"]
        assert source.invalidate()
        await source.token()
        assert asked[1]["refresh_token"] == "r2"
    finally:
        await runner.cleanup()
    with pytest.raises(CredentialsError, match="no refresh-token; log in again"):
        await OIDCToken({"idp-issuer-url": issuer, "client-id": "c", "id-token": old}).token()


async def test_rotated_certificates_are_used_for_new_connections(tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    now = [0.0]
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def rotate(user: str) -> None:
        authority.issue(user, groups=("system:masters",)).write(certificate, key)

    server = APIServer(MemoryStorage())
    seen: list[str] = []
    async with serve(server, authority=authority) as front:
        rotate("first")

        async def who(request: Any) -> Any:
            from kubewright.apiserver.http.messages import text

            seen.append(request.user.name)
            return text(200, request.user.name)

        server.add_handler("/who", who)
        config = ClusterConfig(
            server=front.url,
            ca=PEMData(data=front.authority_pem),
            client_certificate=PEMData(file=str(certificate)),
            client_key=PEMData(file=str(key)),
        )
        transport = HTTPTransport(config, credentials=Credentials(config, clock=lambda: now[0]))
        for user in ("first", "first", "second"):
            if user == "second":
                rotate(user)
                now[0] += 6
            await transport.send("GET", "/who")
        await transport.aclose()
        assert seen == ["first", "first", "second"]
        wrong = HTTPTransport(
            ClusterConfig(server=front.url, ca=PEMData(data=CertificateAuthority.create().certificate))
        )
        with pytest.raises(ConnectionFailed, match=r"untrusted certificate.*certificate-authority") as caught:
            await wrong.send("GET", "/who")
        assert not caught.value.sent
        named = HTTPTransport(
            ClusterConfig(server=front.url, ca=config.ca, tls_server_name="elsewhere.example.com")
        )
        with pytest.raises(ConnectionFailed, match="Hostname mismatch"):
            await named.send("GET", "/who")


async def test_partial_certificate_rotation_keeps_context(tmp_path: Path) -> None:
    now, authority = [0.0], CertificateAuthority.create()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.issue("first").write(certificate, key)
    pair = {"client_certificate": PEMData(file=str(certificate)), "client_key": PEMData(file=str(key))}
    credentials = Credentials(ClusterConfig(server="https://x", **pair), clock=lambda: now[0])
    first = await credentials.ssl_context()
    second = authority.issue("second")
    certificate.write_bytes(second.certificate)
    now[0] += 6
    assert await credentials.ssl_context() is first
    key.write_bytes(second.key)
    now[0] += 6
    assert await credentials.ssl_context() is not first


async def test_mismatched_certificate_and_key_error() -> None:
    one, two = CertificateAuthority.create().issue("a"), CertificateAuthority.create().issue("b")
    config = ClusterConfig(
        server="https://x",
        client_certificate=PEMData(data=one.certificate),
        client_key=PEMData(data=two.key),
        source="kubeconfig",
    )
    with pytest.raises(ConfigError, match="kubeconfig: the client certificate and key do not match"):
        await Credentials(config).ssl_context()
    with pytest.raises(ConfigError, match="not valid PEM"):
        await Credentials(ClusterConfig(server="https://x", ca=PEMData(data=b"junk"))).ssl_context()


async def test_proxy_tunnel() -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        _host, port = head.split(b" ")[1].decode().rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server = APIServer(MemoryStorage())
    async with serve(server, hosts=("api.example.com",)) as front:
        config = ClusterConfig(
            server=f"https://api.example.com:{front.port}",
            ca=PEMData(data=front.authority_pem),
            proxy_url=f"http://u:p@127.0.0.1:{port}",
        )
        async with Client.connect(config, metrics=False) as client:
            assert (await client.version())["major"]
    listener.close()
    assert asked[0].startswith(b"CONNECT api.example.com:")
    assert b"Proxy-Authorization: Basic" in asked[0]
