"""`ExecSession`: the standard streams of a client that is connected to an exec-like subresource."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright.apiserver.streams.contract import ProcessStreams, TerminalSize
    from kubewright.apiserver.streams.responses import ProcessOptions


class ExecSession:
    """A client with streams, as `kubectl exec` has them; over WebSocket or SPDY."""

    def __init__(self, streams: ProcessStreams, options: ProcessOptions) -> None:
        self._streams = streams
        self.command = list(options.command)
        """The command and its arguments."""
        self.container = options.container
        """The part of the object that the client named with `container`; often empty."""
        self.tty = options.tty
        """Whether the client has a terminal; standard error is then part of standard output."""
        self.stdin = options.stdin
        """Whether the client sends input."""

    async def read(self) -> bytes:
        """Return input of the client; empty at its end, and if it sends none."""
        return await self._streams.read_stdin()

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of the input without their ends; the last one need not be complete."""
        buffer = b""
        while data := await self.read():
            *complete, buffer = (buffer + data).replace(b"\r", b"\n" if self.tty else b"").split(b"\n")
            for line in complete:
                yield line.decode(errors="replace")
        if buffer:
            yield buffer.decode(errors="replace")

    async def write(self, data: bytes | str) -> None:
        """Write to standard output."""
        await self._streams.write_stdout(data.encode() if isinstance(data, str) else data)

    async def write_error(self, data: bytes | str) -> None:
        """Write to standard error."""
        await self._streams.write_stderr(data.encode() if isinstance(data, str) else data)

    async def terminal_size(self) -> TerminalSize | None:
        """Return the next size of the client's terminal; `None` if it does not change any more."""
        return await self._streams.read_size()
