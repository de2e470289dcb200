"""Commands in containers, over a WebSocket with one channel per stream.

The protocol is `v5.channel.k8s.io`, or v4 with older servers, which cannot signal the end of the input.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, NamedTuple

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed, ResponseTooLarge
from kubewright.client.transport.interface import WebSocketConnection

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_NAMES = {_STDOUT: "stdout", _STDERR: "stderr"}
_CHUNK = 32 * 1024


class ExecError(Exception):
    """A command ended with an exit code other than 0; `result` has its output."""

    def __init__(self, message: str, result: ExecResult) -> None:
        super().__init__(message)
        self.result = result


class ExecResult(NamedTuple):
    """The output and exit code of a command."""

    stdout: bytes
    stderr: bytes
    exit_code: int


MAX_OUTPUT_BYTES = 512 << 20
"""Limit of the output of a command that is collected in memory."""


class RemoteProcess:
    """A running command in a container. Iterate it for `("stdout" | "stderr", bytes)`."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        self.exit_code: int | None = None
        """Set when the command has ended."""

    async def __aiter__(self) -> AsyncIterator[tuple[str, bytes]]:
        while (message := await self._socket.receive()) is not None:
            data = message.encode() if isinstance(message, str) else message
            if not data:
                continue
            channel, payload = data[0], data[1:]
            if channel == _ERROR:
                self.exit_code = _exit_code(payload)
            elif channel in _NAMES and payload:
                yield _NAMES[channel], payload
        if self.exit_code is None:
            raise ConnectionFailed("the connection was closed before the command ended")

    async def write(self, data: bytes) -> None:
        """Write to standard input."""
        for start in range(0, len(data), _CHUNK):
            await self._socket.send(bytes([_STDIN]) + data[start : start + _CHUNK])

    async def close_stdin(self) -> None:
        """Close standard input; no effect with servers that support v4 only."""
        if self._socket.protocol.startswith("v5"):
            await self._socket.send(bytes([_CLOSE, _STDIN]))

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        await self._socket.send(bytes([_RESIZE]) + codec.encode({"Width": width, "Height": height}))

    async def communicate(self, data: bytes | None = None) -> ExecResult:
        """Write the input, if any, and collect the output until the command ends.

        Raises `ResponseTooLarge` for more output than `MAX_OUTPUT_BYTES`.
        """
        outputs: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        size = 0

        async def feed() -> None:
            if data is not None:
                # The command can end, and the connection with it, before it has read all of its input.
                with suppress(ConnectionFailed):
                    await self.write(data)
                    await self.close_stdin()

        feeding = asyncio.create_task(feed())
        try:
            async for name, chunk in self:
                outputs[name].append(chunk)
                size += len(chunk)
                if size > MAX_OUTPUT_BYTES:
                    raise ResponseTooLarge(
                        f"the command wrote more than {MAX_OUTPUT_BYTES:,} bytes; read its output in parts: "
                        "async with client.exec(...) as process"
                    )
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding
        assert self.exit_code is not None
        return ExecResult(b"".join(outputs["stdout"]), b"".join(outputs["stderr"]), self.exit_code)

    async def aclose(self) -> None:
        """Close the connection; the command may continue to run."""
        await self._socket.close()


class ExecCommand(AbstractAsyncContextManager["RemoteProcess"]):
    """A command to run: `await` it for its `ExecResult`, or use it in `async with` to interact with it."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[WebSocketConnection]],
        input: bytes | None,
        check: bool,
        description: str,
    ) -> None:
        self._connect = connect
        self._input = input
        self._check = check
        self._description = description
        self._process: RemoteProcess | None = None

    def __await__(self) -> Generator[Any, None, ExecResult]:
        return self._run().__await__()

    async def _run(self) -> ExecResult:
        async with self as process:
            result = await process.communicate(self._input)
        if self._check and result.exit_code:
            output = result.stderr.decode(errors="replace").strip()[-500:]
            raise ExecError(f"{self._description} failed with exit code {result.exit_code}: {output}", result)
        return result

    async def __aenter__(self) -> RemoteProcess:
        self._process = RemoteProcess(await self._connect())
        return self._process

    async def __aexit__(self, *exc: object) -> None:
        if self._process is not None:
            await self._process.aclose()


def _exit_code(payload: bytes) -> int:
    """Return the exit code from the error channel; raise `APIError` if the command did not start."""
    try:
        status = codec.loads(payload)
    except codec.DecodeError:
        raise APIError(payload.decode(errors="replace")) from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
            return int(cause["message"])
    raise APIError.from_status(status)
