"""Into running pods: logs, commands, attaching and files. Port-forwarding is in `forwarding`.

    async for line in client.log("web-0", follow=True): ...
    result = await client.exec("web-0", ["date"])               # stdout, stderr, exit_code
    async with client.exec("web-0", ["sh"], stdin=True) as shell:
        await shell.write(b"echo hello; exit 3\\n")
        async for stream, data in shell: ...

Commands run over a WebSocket that carries several channels (`v5.channel.k8s.io`, or v4 of older servers, to
which the end of the input cannot be told). Permissions: get on `pods/log`, create and get on `pods/exec` and
the like.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from multidict import CIMultiDict

from kubewright.api import codec
from kubewright.api.errors import APIError
from kubewright.api.meta import MetaObject
from kubewright.api.times import format_time
from kubewright.api.unstructured import Unstructured
from kubewright.client.errors import ConnectionFailed, ResponseTooLarge
from kubewright.client.rest.rest_client import APIRequest
from kubewright.client.transport.interface import ResponseStream, WebSocketConnection
from kubewright.client.verbs.base import BaseClient, ResourceLocation

if TYPE_CHECKING:
    from .port_forward import PortForward

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_NAMES = {_STDOUT: "stdout", _STDERR: "stderr"}
_PIECE = 32 * 1024
MAX_LINE = 64 << 20
"""Bytes of one line of a log."""

PodRef = MetaObject | Unstructured | str


class ExecError(Exception):
    """A command that did not succeed; `result` has what it wrote."""

    def __init__(self, message: str, result: ExecResult) -> None:
        super().__init__(message)
        self.result = result


class ExecResult(NamedTuple):
    """What a command wrote, and how it ended."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class PodLog:
    """A log: `await` it for its text, or iterate it for lines as they are written."""

    def __init__(self, open_stream: Callable[[], Awaitable[ResponseStream]]) -> None:
        self._open = open_stream

    def __await__(self) -> Generator[Any, None, str]:
        return self._text().__await__()

    async def _text(self) -> str:
        return "".join([f"{line}\n" async for line in self])

    async def __aiter__(self) -> AsyncIterator[str]:
        stream = await self._open()
        try:
            rest = bytearray()
            async for chunk in stream:
                *lines, last = chunk.split(b"\n")
                for line in lines:
                    yield (rest + line).decode(errors="replace")
                    rest.clear()
                rest += last
                if len(rest) > MAX_LINE:
                    raise ResponseTooLarge(f"the log has a line of more than {MAX_LINE >> 20} MiB")
            if rest:
                yield rest.decode(errors="replace")
        finally:
            await stream.aclose()


class RemoteProcess:
    """A command in a container, while it runs. Iterate it for `("stdout" | "stderr", bytes)`."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        self.exit_code: int | None = None
        """Known when the command has ended."""

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
            raise ConnectionFailed("the connection ended before the command did")

    async def write(self, data: bytes) -> None:
        """Send to the standard input."""
        for start in range(0, len(data), _PIECE):
            await self._socket.send(bytes([_STDIN]) + data[start : start + _PIECE])

    async def close_stdin(self) -> None:
        """Say that the input has ended. Servers that speak v4 only cannot be told."""
        if self._socket.protocol.startswith("v5"):
            await self._socket.send(bytes([_CLOSE, _STDIN]))

    async def resize(self, width: int, height: int) -> None:
        """Tell the size of the terminal."""
        await self._socket.send(bytes([_RESIZE]) + codec.encode({"Width": width, "Height": height}))

    async def communicate(self, data: bytes | None = None) -> ExecResult:
        """Send the input, if any, and collect the output to the end."""
        outputs: dict[str, list[bytes]] = {"stdout": [], "stderr": []}

        async def feed() -> None:
            if data is not None:
                # The command may end, and the connection with it, before it has read everything.
                with suppress(ConnectionFailed):
                    await self.write(data)
                    await self.close_stdin()

        feeding = asyncio.create_task(feed())
        try:
            async for name, piece in self:
                outputs[name].append(piece)
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding
        assert self.exit_code is not None
        return ExecResult(b"".join(outputs["stdout"]), b"".join(outputs["stderr"]), self.exit_code)

    async def aclose(self) -> None:
        """Leave; what runs there may go on."""
        await self._socket.close()


class ExecCommand(AbstractAsyncContextManager["RemoteProcess"]):
    """A command about to run: `await` it for the result, or enter it to talk with it."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[WebSocketConnection]],
        data: bytes | None,
        check: bool,
        what: str,
    ) -> None:
        self._connect = connect
        self._data = data
        self._check = check
        self._what = what
        self._process: RemoteProcess | None = None

    def __await__(self) -> Generator[Any, None, ExecResult]:
        return self._run().__await__()

    async def _run(self) -> ExecResult:
        async with self as process:
            result = await process.communicate(self._data)
        if self._check and result.exit_code:
            said = result.stderr.decode(errors="replace").strip()[-500:]
            raise ExecError(f"{self._what} failed with exit code {result.exit_code}: {said}", result)
        return result

    async def __aenter__(self) -> RemoteProcess:
        self._process = RemoteProcess(await self._connect())
        return self._process

    async def __aexit__(self, *exc: object) -> None:
        if self._process is not None:
            await self._process.aclose()


class PodVerbs(BaseClient):
    """Verbs on running pods. A pod is an object or a name."""

    def log(
        self,
        pod: PodRef,
        namespace: str | None = None,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: float | datetime | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> PodLog:
        """The log of a container; `since` is seconds ago or a time, `tail` the number of last lines."""

        async def start() -> ResponseStream:
            location = await self._pod(pod, namespace)
            query: dict[str, Any] = {
                "container": container,
                "follow": follow or None,
                "previous": previous or None,
                "tailLines": tail,
                "sinceTime": format_time(since) if isinstance(since, datetime) else None,
                "sinceSeconds": max(1, round(since)) if isinstance(since, int | float) else None,
                "timestamps": timestamps or None,
                "limitBytes": limit_bytes,
            }
            call = self.call("get", "GET", location, subresource="log", query=query, accept="text/plain, */*")
            return await self.open(call)

        return PodLog(start)

    def exec(
        self,
        pod: PodRef,
        command: Sequence[str],
        namespace: str | None = None,
        *,
        container: str = "",
        input: bytes | None = None,
        stdin: bool = False,
        tty: bool = False,
        check: bool = False,
    ) -> ExecCommand:
        """Run a command in a container: `await` for its result, `async with` to talk with it.

        `input` is sent to it; `check` raises `ExecError` unless it ends with 0.
        """
        if isinstance(command, str) or not command:
            raise TypeError('a command is a list of words: ["sh", "-c", "echo hello"]')

        async def connect() -> WebSocketConnection:
            location = await self._pod(pod, namespace)
            words = [("command", word) for word in command]
            return await self._talk(location, "exec", container, stdin or input is not None, tty, words)

        return ExecCommand(connect, input, check, f"{command[0]!r} in {_pod_name(pod)}")

    def attach(
        self,
        pod: PodRef,
        namespace: str | None = None,
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> ExecCommand:
        """Attach to what runs in a container already."""

        async def connect() -> WebSocketConnection:
            return await self._talk(await self._pod(pod, namespace), "attach", container, stdin, tty, [])

        return ExecCommand(connect, None, False, f"attaching to {_pod_name(pod)}")

    def port_forward(
        self,
        pod: PodRef,
        port: int,
        namespace: str | None = None,
        *,
        local_port: int = 0,
        address: str = "127.0.0.1",
    ) -> PortForward:
        """Listen here and forward every connection to a port of a pod; an async context manager."""
        from .port_forward import PortForward

        async def connect() -> WebSocketConnection:
            location = await self._pod(pod, namespace)
            return await self._socket(location, "portforward", [("ports", str(port))], (PROTOCOLS[1],))

        return PortForward(connect, port, local_port, address)

    async def copy_to(
        self,
        pod: PodRef,
        source: str | Path,
        destination: str,
        namespace: str | None = None,
        *,
        container: str = "",
    ) -> None:
        """Copy a file or directory into a container, as `destination`; the container needs `tar`."""
        from .tar_archive import pack

        directory, _, name = destination.rstrip("/").rpartition("/")
        archive = await asyncio.to_thread(pack, Path(source), name)
        command = ["tar", "-xmf", "-", "-C", directory or "/"]
        await self.exec(pod, command, namespace, container=container, input=archive, check=True)

    async def copy_from(
        self,
        pod: PodRef,
        source: str,
        destination: str | Path,
        namespace: str | None = None,
        *,
        container: str = "",
    ) -> None:
        """Copy a file or directory out of a container, as `destination`; the container needs `tar`.

        Nothing is written outside of `destination`, whatever the archive says.
        """
        from .tar_archive import unpack

        directory, _, name = source.rstrip("/").rpartition("/")
        command = ["tar", "-cf", "-", "-C", directory or "/", name or "."]
        result = await self.exec(pod, command, namespace, container=container, check=True)
        await asyncio.to_thread(unpack, result.stdout, name or ".", Path(destination))

    async def _pod(self, pod: PodRef, namespace: str | None) -> ResourceLocation:
        if isinstance(pod, str):
            return await self.locate("pods", pod, namespace)
        return await self.locate(pod, "", namespace)

    async def _talk(
        self,
        location: ResourceLocation,
        verb: str,
        container: str,
        stdin: bool,
        tty: bool,
        words: list[tuple[str, str]],
    ) -> WebSocketConnection:
        options = [*words, ("stdout", "true"), ("stderr", "false" if tty else "true")]
        options += [(name, "true") for name, wanted in (("stdin", stdin), ("tty", tty)) if wanted]
        if container:
            options.append(("container", container))
        return await self._socket(location, verb, options, PROTOCOLS)

    async def _socket(
        self,
        location: ResourceLocation,
        subresource: str,
        options: list[tuple[str, str]],
        protocols: tuple[str, ...],
    ) -> WebSocketConnection:
        call = APIRequest(
            "connect",
            "GET",
            location.path(subresource),
            urlencode(options),
            CIMultiDict(self.settings.headers),
            timeout=self.settings.timeout,
            resource=location.resource.gvr.group_resource,
            name=location.name,
            namespace=location.namespace,
            subresource=subresource,
        )
        return await self.rest.socket(call, protocols)


def _pod_name(pod: PodRef) -> str:
    return pod if isinstance(pod, str) else pod.metadata.name or ""


def _exit_code(payload: bytes) -> int:
    """Read the status that ends a command; one that never ran is an error of the server's."""
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


__all__ = ["ExecCommand", "ExecError", "ExecResult", "PodLog", "RemoteProcess"]
