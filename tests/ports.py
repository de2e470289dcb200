"""Ports for servers that a test starts after it needs their numbers, or starts again.

A port that was free a moment ago can be taken by a connection of another process. A reserved port cannot: its
socket stays bound, does not listen, and lets servers of the test bind the port as well (SO_REUSEADDR).
Connections to it fail while no server listens.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def reserve_ports(count: int) -> Iterator[list[int]]:
    """Reserve ports of 127.0.0.1 until the block ends."""
    with ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
        yield [holder.getsockname()[1] for holder in holders]
