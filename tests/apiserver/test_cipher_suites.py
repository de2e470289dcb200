"""Cipher suites of a server, by the names of Go."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from kubewright.controlplane import ControlPlane
from kubewright.tls.cipher_suites import check_cipher_suites, set_cipher_suites

GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
CHACHA = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"


def test_names() -> None:
    check_cipher_suites([GCM, CHACHA, "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_AES_128_GCM_SHA256"])
    for name in ("TLS_RSA_WITH_RC4_128_SHA", "AES128-SHA", "TLS_RSA_WITH_CHACHA20_POLY1305"):
        with pytest.raises(ValueError, match=f"Cipher suite {name} not supported or doesn't exist"):
            ControlPlane(tls_cipher_suites=[name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    set_cipher_suites(context, ["TLS_AES_128_GCM_SHA256"])
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def handshake(plane: ControlPlane, *ciphers: str) -> str:
    """Return the cipher suite that a TLS 1.2 client negotiates."""
    context = ssl.create_default_context(cadata=plane.ca.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if ciphers:
        context.set_ciphers(":".join(ciphers))
    assert plane.port is not None
    with (
        socket.create_connection(("127.0.0.1", plane.port), timeout=60) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as secure,
    ):
        found = secure.cipher()
    assert found is not None
    return found[0]


async def test_only_the_given_suites_are_negotiated() -> None:
    async with ControlPlane(controllers=False, tls_cipher_suites=[CHACHA]) as plane:
        assert await asyncio.to_thread(handshake, plane) == "ECDHE-ECDSA-CHACHA20-POLY1305"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(handshake, plane, "ECDHE-ECDSA-AES128-GCM-SHA256")
