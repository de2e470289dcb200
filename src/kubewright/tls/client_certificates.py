"""Requests for client certificates that do not verify them in the TLS handshake.

kube-apiserver accepts any client certificate in the handshake and verifies it when it authenticates a
request, so that an unknown or expired one is a 401 and a token on the same connection can still be valid.
Python's `ssl` module can request a certificate only together with its verification, which ends the connection
when it fails. What it has is a callback for handshake messages, which runs before OpenSSL processes them:
when the client's certificate arrives, the connection switches to a context that trusts exactly this
certificate. OpenSSL then checks only that the client has its private key. Nothing is shared between
connections, and after the handshake the callback is not called any more.

Two differences to kube-apiserver remain: a certificate whose extended key usage excludes clients fails the
handshake, and the names of the accepted authorities are not sent (there is no function for it), so that
clients with several certificates choose without them.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any

logger = logging.getLogger("kubewright.apiserver")

HANDSHAKE, CERTIFICATE, FINISHED = 22, 11, 20
NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, which the `ssl` module does not name."""


def request_client_certificates(context: ssl.SSLContext) -> None:
    """Request certificates from clients and accept any; who uses a certificate has to verify it."""
    context.verify_mode = ssl.CERT_OPTIONAL
    flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    context.verify_flags = ssl.VerifyFlags(flags | NO_CHECK_TIME)
    established = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    established.verify_mode = ssl.CERT_OPTIONAL

    def on_message(
        connection: ssl.SSLObject, direction: str, version: int, content: int, kind: int, data: bytes
    ) -> None:
        if direction != "read" or content != HANDSHAKE:
            return
        if kind == CERTIFICATE:
            certificate = leaf_certificate(data, with_context=version == ssl.TLSVersion.TLSv1_3)
            if certificate:
                connection.context = _trusting(certificate)
        elif kind == FINISHED:
            connection.context = established

    observed: Any = context  # typeshed lacks the attribute, which the ssl module documents in its docstring
    observed._msg_callback = on_message


def _trusting(certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        context.load_verify_locations(cadata=certificate)
    except ssl.SSLError as error:
        # OpenSSL rejects it, too.
        logger.debug("malformed client certificate", extra={"error": str(error)})
    return context


def leaf_certificate(message: bytes, *, with_context: bool) -> bytes:
    """Return the first certificate (DER) of a Certificate handshake message; empty if it has none.

    `with_context` is for TLS 1.3, whose message begins with the context of the request.
    """
    body = memoryview(message)[4:]
    if with_context and body:
        body = body[1 + body[0] :]
    size = int.from_bytes(body[3:6], "big")
    certificate = bytes(body[6 : 6 + size])
    return certificate if len(certificate) == size else b""
