"""Ports of servers that are started again on the same port, in other processes."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 15_000
_DYNAMIC = 32_768
_returned: set[int] = set()


def unused_port() -> int:
    """Return a port of loopback that no process uses, another one with each call.

    The system does not assign it to other sockets: it is below the range of ports that it assigns. A port of
    that range, as from binding port 0, could be in use before its server starts, or starts again.
    """
    try:
        dynamic = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        dynamic = _DYNAMIC
    ports = range(_LOWEST, dynamic if dynamic > _LOWEST + 1000 else _DYNAMIC)
    while True:
        port = random.SystemRandom().choice(ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _returned:
            _returned.add(port)
            return port
