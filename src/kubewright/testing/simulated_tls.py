"""Verification of certificates in TLS handshakes, at the simulated date.

OpenSSL compares the validity of certificates with the clock of the operating system. In a loop with a
simulated clock, certificates are issued and renewed at simulated dates: one that was renewed after a
simulated year would not be valid yet. Connections that are made in such a loop therefore leave the dates out
of the verification by OpenSSL, and the chain that OpenSSL has verified is compared with the simulated date
when the handshake is complete. Everything else about the verification is as before.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.tls.client_certificates import NO_CHECK_TIME

if TYPE_CHECKING:
    from .replaced_functions import ReplacedFunctions
    from .simulated_clock import SimulatedClock

_EXPIRED, _NOT_YET_VALID = 10, 9
"""Codes of OpenSSL: X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID."""

_lock = threading.Lock()


def replace_verification(functions: ReplacedFunctions[SimulatedClock]) -> None:
    """Add the functions of the `ssl` module that make connections and do handshakes."""
    functions.replace(ssl.SSLContext, "wrap_bio", _wrap_bio)
    functions.replace(ssl.SSLContext, "wrap_socket", _wrap_socket)
    for connection in (ssl.SSLObject, ssl.SSLSocket):
        functions.replace(connection, "do_handshake", _with_simulated_date(connection.do_handshake))


def _wrap_bio(clock: SimulatedClock, context: ssl.SSLContext, *args: Any, **options: Any) -> ssl.SSLObject:
    connection: ssl.SSLObject = _without_dates(context, partial(_real_wrap_bio, context, *args, **options))
    return connection


def _wrap_socket(
    clock: SimulatedClock,
    context: ssl.SSLContext,
    sock: socket.socket,
    server_side: bool = False,
    do_handshake_on_connect: bool = True,
    *args: Any,
    **options: Any,
) -> ssl.SSLSocket:
    wrap = partial(_real_wrap_socket, context, sock, server_side, False, *args, **options)
    connection = _without_dates(context, wrap)  # with its private attributes
    connection.do_handshake_on_connect = do_handshake_on_connect
    if do_handshake_on_connect and connection._connected:
        try:
            connection.do_handshake()
        except (OSError, ValueError):
            connection.close()
            raise
    wrapped: ssl.SSLSocket = connection
    return wrapped


def _without_dates(context: ssl.SSLContext, wrap: Callable[[], Any]) -> Any:
    """Make a connection that OpenSSL verifies without dates, unless it does so anyway or does not verify."""
    with _lock:
        flags = context.verify_flags
        if context.verify_mode == ssl.CERT_NONE or flags & NO_CHECK_TIME:
            return wrap()
        context.verify_flags = ssl.VerifyFlags(flags | NO_CHECK_TIME)
        try:
            connection = wrap()  # copies the flags
        finally:
            context.verify_flags = flags
    connection._has_simulated_dates = True
    return connection


_real_wrap_bio, _real_wrap_socket = ssl.SSLContext.wrap_bio, ssl.SSLContext.wrap_socket


def _with_simulated_date(do_handshake: Callable[..., Any]) -> Callable[..., Any]:
    def function(clock: SimulatedClock, connection: Any, *args: Any, **options: Any) -> None:
        do_handshake(connection, *args, **options)
        if getattr(connection, "_has_simulated_dates", False):
            for each in connection._sslobj.get_verified_chain() or ():
                _check(each.get_info(), clock.wall_time())

    return function


def _check(certificate: dict[str, Any], moment: float) -> None:
    """Raise the error of OpenSSL for a certificate that is not valid."""
    begin, end = certificate["notBefore"], certificate["notAfter"]
    if moment < ssl.cert_time_to_seconds(begin):
        code, message = _NOT_YET_VALID, f"certificate is not yet valid (simulated clock, valid from {begin})"
    elif moment > ssl.cert_time_to_seconds(end):
        code, message = _EXPIRED, f"certificate has expired (simulated clock, valid until {end})"
    else:
        return
    error = ssl.SSLCertVerificationError(1, f"certificate verify failed: {message}")
    error.verify_code, error.verify_message = code, message
    raise error
