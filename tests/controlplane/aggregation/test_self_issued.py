"""Extension API servers whose certificates OpenSSL takes for self-signed; an authority signed them."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.controlplane.self_issued_certificates import REJECTED, Shape, make_certificates

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.controlplane.aggregation.proxy import Proxy
from kubewright.controlplane.aggregation.remote import Remote, Service
from kubewright.tls.certificates import CertificateAuthority


class Server:
    """A server with a certificate that can be replaced."""

    def __init__(self, folder: Path, port: int, context: ssl.SSLContext, remote: Remote) -> None:
        self._folder, self._context = folder, context
        self.port, self.remote = port, remote

    def present(self, certificate: bytes, key: bytes) -> None:
        """Use a certificate for new connections."""
        (self._folder / "tls.crt").write_bytes(certificate)
        (self._folder / "tls.key").write_bytes(key)
        self._context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with _serve(tmp_path) as made:
        yield made


@asynccontextmanager
async def _serve(folder: Path) -> AsyncIterator[Server]:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="ok", headers={"Connection": "close"})

    runner = web.Server(respond)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = CertificateAuthority.create("front").issue("proxy")

    async def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
        return "127.0.0.1", made.port

    remote = Remote(resolve, lambda: pair)
    made = Server(folder, 0, context, remote)
    made.present(*make_certificates(Shape())[1:])
    listener = await asyncio.get_running_loop().create_server(runner, "127.0.0.1", 0, ssl=context)
    made.port = listener.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        await remote.close()
        listener.close()
        await runner.shutdown(0.1)


def service(bundle: bytes) -> Service:
    return Service("default", "hook", 443, b64encode(bundle).decode(), insecure=False)


async def forward(server: Server, bundle: bytes) -> int:
    """Forward a request; return the status."""
    proxy = Proxy(server.remote, service(bundle))
    proxy.available = True
    return (await proxy(HTTPRequest("GET", "/apis", user=SYSTEM))).status


async def test_the_signature_of_an_authority_with_the_same_name_is_verified(server: Server) -> None:
    authority, leaf, key = make_certificates(Shape())
    server.present(leaf, key)
    status, body, _ = await server.remote.get(service(authority), "/apis", SYSTEM)
    assert (status, body) == (200, b"ok")
    assert await forward(server, authority) == 200


async def test_a_certificate_can_be_replaced(server: Server) -> None:
    authority, leaf, key = make_certificates(Shape())
    other, other_leaf, other_key = make_certificates(Shape())
    server.present(leaf, key)
    assert await forward(server, authority + other) == 200
    server.present(other_leaf, other_key)
    assert await forward(server, authority + other) == 200
    usual = CertificateAuthority.create("usual")
    bundle = authority + usual.certificate
    server.present(leaf, key)
    assert await forward(server, bundle) == 200
    pair = usual.issue("hook", hosts=["hook.default.svc"], server=True)
    server.present(pair.certificate, pair.key)
    assert await forward(server, bundle) == 200


@pytest.mark.parametrize("shape", REJECTED)
async def test_other_certificates_with_the_name_of_their_issuer_are_rejected(
    server: Server, shape: Shape
) -> None:
    authority, leaf, key = make_certificates(shape)
    server.present(leaf, key)
    with pytest.raises(OSError, match="x509"):
        await server.remote.get(service(authority), "/apis", SYSTEM)


async def test_another_authority_with_the_same_name_is_not_trusted(server: Server) -> None:
    other, _, _ = make_certificates(Shape())
    with pytest.raises(OSError, match="x509"):
        await server.remote.get(service(other), "/apis", SYSTEM)
