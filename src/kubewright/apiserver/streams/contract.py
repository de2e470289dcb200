"""What handlers of commands and ports read and write, independent of the protocol."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class TerminalSize(NamedTuple):
    """Size of a terminal, in characters."""

    columns: int
    rows: int


class ProcessStreams(Protocol):
    """Standard input and output of a command, over any protocol."""

    tty: bool

    async def read_stdin(self) -> bytes:
        """Return input; empty at its end."""

    async def write_stdout(self, data: bytes) -> None:
        """Write to standard output."""

    async def write_stderr(self, data: bytes) -> None:
        """Write to standard error."""

    async def read_size(self) -> TerminalSize | None:
        """Return the next size of the client's terminal; `None` if it does not change any more."""


class ByteStream(Protocol):
    """A connection to a port."""

    async def receive(self) -> bytes:
        """Return received bytes; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Send bytes."""
