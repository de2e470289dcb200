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

from .core import Core, Place
from .errors import AnswerTooLarge, ConnectionFailed
from .rest import Call
from .transport import Socket, Stream

if TYPE_CHECKING:
    from .forwarding import PortForward

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_NAMES = {_STDOUT: "stdout", _STDERR: "stderr"}
_PIECE = 32 * 1024
MAX_LINE = 64 << 20
"""Bytes of one line of a log."""

PodName = MetaObject | Unstructured | str


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


class Log:
    """A log: `await` it for its text, or iterate it for lines as they are written."""

    def __init__(self, open_stream: Callable[[], Awaitable[Stream]]) -> None:
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
                    raise AnswerTooLarge(f"the log has a line of more than {MAX_LINE >> 20} MiB")
            if rest:
                yield rest.decode(errors="replace")
        finally:
            await stream.aclose()


class RemoteProcess:
    """A command in a container, while it runs. Iterate it for `("stdout" | "stderr", bytes)`."""

    def __init__(self, socket: Socket) -> None:
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


class Exec(AbstractAsyncContextManager["RemoteProcess"]):
    """A command about to run: `await` it for the result, or enter it to talk with it."""

    def __init__(
        self, connect: Callable[[], Awaitable[Socket]], data: bytes | None, check: bool, what: str
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


class Streams(Core):
    """Verbs on running pods. A pod is an object or a name."""

    def log(
        self,
        pod: PodName,
        namespace: str | None = None,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: float | datetime | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> Log:
        """The log of a container; `since` is seconds ago or a time, `tail` the number of last lines."""

        async def start() -> Stream:
            place = await self._pod(pod, namespace)
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
            call = self.call("get", "GET", place, subresource="log", query=query, accept="text/plain, */*")
            return await self.open(call)

        return Log(start)

    def exec(
        self,
        pod: PodName,
        command: Sequence[str],
        namespace: str | None = None,
        *,
        container: str = "",
        input: bytes | None = None,
        stdin: bool = False,
        tty: bool = False,
        check: bool = False,
    ) -> Exec:
        """Run a command in a container: `await` for its result, `async with` to talk with it.

        `input` is sent to it; `check` raises `ExecError` unless it ends with 0.
        """
        if isinstance(command, str) or not command:
            raise TypeError('a command is a list of words: ["sh", "-c", "echo hello"]')

        async def connect() -> Socket:
            place = await self._pod(pod, namespace)
            words = [("command", word) for word in command]
            return await self._talk(place, "exec", container, stdin or input is not None, tty, words)

        return Exec(connect, input, check, f"{command[0]!r} in {_pod_name(pod)}")

    def attach(
        self,
        pod: PodName,
        namespace: str | None = None,
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Exec:
        """Attach to what runs in a container already."""

        async def connect() -> Socket:
            return await self._talk(await self._pod(pod, namespace), "attach", container, stdin, tty, [])

        return Exec(connect, None, False, f"attaching to {_pod_name(pod)}")

    def port_forward(
        self,
        pod: PodName,
        port: int,
        namespace: str | None = None,
        *,
        local_port: int = 0,
        address: str = "127.0.0.1",
    ) -> PortForward:
        """Listen here and forward every connection to a port of a pod; an async context manager."""
        from .forwarding import PortForward

        async def connect() -> Socket:
            place = await self._pod(pod, namespace)
            return await self._socket(place, "portforward", [("ports", str(port))], (PROTOCOLS[1],))

        return PortForward(connect, port, local_port, address)

    async def copy_to(
        self,
        pod: PodName,
        source: str | Path,
        destination: str,
        namespace: str | None = None,
        *,
        container: str = "",
    ) -> None:
        """Copy a file or directory into a container, as `destination`; the container needs `tar`."""
        from .copying import pack

        directory, _, name = destination.rstrip("/").rpartition("/")
        archive = await asyncio.to_thread(pack, Path(source), name)
        command = ["tar", "-xmf", "-", "-C", directory or "/"]
        await self.exec(pod, command, namespace, container=container, input=archive, check=True)

    async def copy_from(
        self,
        pod: PodName,
        source: str,
        destination: str | Path,
        namespace: str | None = None,
        *,
        container: str = "",
    ) -> None:
        """Copy a file or directory out of a container, as `destination`; the container needs `tar`.

        Nothing is written outside of `destination`, whatever the archive says.
        """
        from .copying import unpack

        directory, _, name = source.rstrip("/").rpartition("/")
        command = ["tar", "-cf", "-", "-C", directory or "/", name or "."]
        result = await self.exec(pod, command, namespace, container=container, check=True)
        await asyncio.to_thread(unpack, result.stdout, name or ".", Path(destination))

    async def _pod(self, pod: PodName, namespace: str | None) -> Place:
        if isinstance(pod, str):
            return await self.place("pods", pod, namespace)
        return await self.place(pod, "", namespace)

    async def _talk(
        self, place: Place, verb: str, container: str, stdin: bool, tty: bool, words: list[tuple[str, str]]
    ) -> Socket:
        options = [*words, ("stdout", "true"), ("stderr", "false" if tty else "true")]
        options += [(name, "true") for name, wanted in (("stdin", stdin), ("tty", tty)) if wanted]
        if container:
            options.append(("container", container))
        return await self._socket(place, verb, options, PROTOCOLS)

    async def _socket(
        self, place: Place, subresource: str, options: list[tuple[str, str]], protocols: tuple[str, ...]
    ) -> Socket:
        call = Call(
            "connect",
            "GET",
            place.path(subresource),
            urlencode(options),
            CIMultiDict(self.settings.headers),
            timeout=self.settings.timeout,
            resource=place.resource.gvr.group_resource,
            name=place.name,
            namespace=place.namespace,
            subresource=subresource,
        )
        return await self.rest.socket(call, protocols)


def _pod_name(pod: PodName) -> str:
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


__all__ = ["Exec", "ExecError", "ExecResult", "Log", "RemoteProcess"]
