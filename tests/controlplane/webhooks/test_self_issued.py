"""Webhooks whose certificates OpenSSL takes for self-signed, as those of Knative and Tekton."""

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

from kubewright.controlplane.webhooks.client import CallError, Target, WebhookClient


@asynccontextmanager
async def serve(folder: Path, certificate: bytes, key: bytes) -> AsyncIterator[WebhookClient]:
    """Serve a webhook; yield a client that resolves services to it."""
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"kind": "Echo"})

    server = web.Server(respond)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]

    async def resolve(namespace: str, name: str, wanted: int) -> tuple[str, int]:
        return "127.0.0.1", port

    client = WebhookClient(resolve)
    try:
        yield client
    finally:
        await client.close()
        listener.close()
        await server.shutdown(0.1)


def target(bundle: bytes) -> Target:
    service = {"namespace": "default", "name": "hook"}
    return Target.of({"service": service, "caBundle": b64encode(bundle).decode()})


async def test_the_signature_of_an_authority_with_the_same_name_is_verified(tmp_path: Path) -> None:
    authority, leaf, key = make_certificates(Shape())
    async with serve(tmp_path, leaf, key) as client:
        for _ in range(2):
            assert (await client.post(target(authority), b"{}"))["kind"] == "Echo"


@pytest.mark.parametrize("shape", REJECTED)
async def test_other_certificates_with_the_name_of_their_issuer_are_rejected(
    tmp_path: Path, shape: Shape
) -> None:
    authority, leaf, key = make_certificates(shape)
    async with serve(tmp_path, leaf, key) as client:
        with pytest.raises(CallError, match="x509"):
            await client.post(target(authority), b"{}")


async def test_another_authority_with_the_same_name_is_not_trusted(tmp_path: Path) -> None:
    _, leaf, key = make_certificates(Shape())
    other, _, _ = make_certificates(Shape())
    async with serve(tmp_path, leaf, key) as client:
        with pytest.raises(CallError, match="x509: certificate signed by unknown authority"):
            await client.post(target(other), b"{}")
