"""TCP ports of servers: whether one is in use, and errors that name the address."""

from __future__ import annotations

import socket


def check_port(host: str, port: int) -> None:
    """Raise `OSError` if another process listens on a port, even with SO_REUSEPORT."""
    if not port:
        return
    for family, type_, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, type_, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                raise explain_listen_error(error, host, port) from error


def explain_listen_error(error: OSError, host: str, port: int) -> OSError:
    """Return an error with the address, and the reason once."""
    # asyncio repeats the address before the reason.
    why = (error.strerror or str(error)).rpartition(": ")[2]
    return OSError(error.errno, f"cannot listen on {host}:{port}: {why.lower()}")
