"""Certificates with the name of their issuer and without its key identifier, as Knative and Tekton have."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.controlplane.webhooks.client import CallError, Target, WebhookClient

SERVICE = "hook.default.svc"
DAY = timedelta(days=1)


class Shape(NamedTuple):
    """What a certificate and its authority look like; by default a certificate that Go accepts."""

    name: str = SERVICE
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH
    is_expired: bool = False
    is_self_signed: bool = False
    """Whether the key of the certificate signed it."""
    authority_is_ca: bool = True
    authority_signs: bool = True
    authority_is_expired: bool = False
    constraint: str = ""
    """DNS name that the authority is limited to."""


def make_certificates(shape: Shape) -> tuple[bytes, bytes, bytes]:
    """Return the authority, the certificate and its key (PEM), as knative.dev/pkg generates them."""
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "knative.dev")])
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(public: ec.EllipticCurvePublicKey, *, expired: bool) -> x509.CertificateBuilder:
        end = now - DAY if expired else now + DAY
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(end)
        )

    def key_usage(signs: bool) -> x509.KeyUsage:
        fields = dict.fromkeys(
            (
                "content_commitment",
                "key_encipherment",
                "data_encipherment",
                "key_agreement",
                "crl_sign",
                "encipher_only",
                "decipher_only",
            ),
            False,
        )
        return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, **fields)

    made = builder(authority_key.public_key(), expired=shape.authority_is_expired)
    made = made.add_extension(x509.BasicConstraints(shape.authority_is_ca, None), critical=True)
    made = made.add_extension(key_usage(shape.authority_signs), critical=True)
    if shape.constraint:
        made = made.add_extension(x509.NameConstraints([x509.DNSName(shape.constraint)], None), critical=True)
    authority = made.sign(authority_key, hashes.SHA256())
    made = builder(key.public_key(), expired=shape.is_expired)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(shape.name)]), critical=False)
    made = made.add_extension(x509.ExtendedKeyUsage([shape.usage]), critical=False)
    leaf = made.sign(key if shape.is_self_signed else authority_key, hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), leaf.public_bytes(Encoding.PEM), pem


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


@pytest.mark.parametrize(
    "shape",
    [
        Shape(is_self_signed=True),
        Shape(is_expired=True),
        Shape(authority_is_expired=True),
        Shape(authority_is_ca=False),
        Shape(authority_signs=False),
        Shape(constraint="example.com"),
        Shape(name="other.default.svc"),
        Shape(usage=ExtendedKeyUsageOID.CLIENT_AUTH),
    ],
)
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
