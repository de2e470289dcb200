"""`SupervisorClient`: the connection of the server to the supervisor of one container."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .launch import LaunchSpec, SupervisorSpec, spec_file, start_supervisor

MAX_MESSAGE: Final = 64 * 1024


class Command:
    """A command that runs in a container."""

    def __init__(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.pid = 0
        self.error: asyncio.Future[str] = loop.create_future()
        """Done when the command is executed (with an empty text), or could not be."""
        self.exit_code: asyncio.Future[int] = loop.create_future()
        """The exit code, or the number of the signal, negative."""

    def start(self, error: str, pid: int = 0) -> None:
        """Store whether the command is executed, once."""
        if not self.error.done():
            self.pid = pid
            self.error.set_result(error)

    def exit(self, code: int) -> None:
        """Store how the command ended, once."""
        self.start("")
        if not self.exit_code.done():
            self.exit_code.set_result(code)


class SupervisorClient:
    """Starts the supervisor of a container, and exchanges messages with it."""

    def __init__(self) -> None:
        self.main = Command(0)
        self.process: asyncio.subprocess.Process | None = None
        self._commands: dict[int, Command] = {0: self.main}
        self._last = 0
        self._control: socket.socket | None = None
        self.closed = asyncio.Event()
        """Set when the supervisor has closed the connection."""
        self.has_reported = False
        """Whether the supervisor has reported that all processes have ended."""

    async def start(self, spec: SupervisorSpec, stdin: int) -> None:
        """Start the supervisor and the main command."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.setblocking(False)
        try:
            self.process = await start_supervisor(spec, stdin=stdin, control=other.fileno())
        except BaseException:
            own.close()
            raise
        finally:
            other.close()
        self._control = own
        asyncio.get_running_loop().add_reader(own.fileno(), self._receive)

    async def wait(self) -> int:
        """Return the exit code of the main command, after the supervisor has ended."""
        await self.closed.wait()
        assert self.process is not None
        await self.process.wait()
        return self.main.exit_code.result()

    def close(self) -> None:
        """Close the connection; a supervisor that runs kills all processes."""
        control, self._control = self._control, None
        if control is not None:
            asyncio.get_running_loop().remove_reader(control.fileno())
            control.close()
        for command in list(self._commands.values()):
            command.exit(-signal.SIGKILL)
        self._commands.clear()
        self.closed.set()

    # Messages

    def _receive(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(MAX_MESSAGE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        message: dict[str, Any] = json.loads(data)
        if (command := self._commands.get(message.get("started", -1))) is not None:
            command.start("", message["pid"])
        elif (command := self._commands.get(message.get("failed", -1))) is not None:
            command.start(message["reason"])
        elif (command := self._commands.pop(message.get("exited", -1), None)) is not None:
            self.has_reported = self.has_reported or command is self.main
            command.exit(message["code"])

    def _send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        """Send a message; raises `ConnectionError` if the container has ended."""
        if self._control is None:
            raise ConnectionError("container is not running")
        data = json.dumps({**message, "descriptors": len(descriptors)}).encode()
        try:
            socket.send_fds(self._control, [data], descriptors)
        except OSError as error:
            raise ConnectionError(f"container is not running: {error.strerror}") from None

    def execute(self, spec: LaunchSpec, streams: Sequence[int]) -> Command:
        """Start a command; `streams` are its standard input, output and error."""
        self._last += 1
        command = Command(self._last)
        with spec_file(spec) as file:
            self._send({"exec": command.number}, [file.fileno(), *streams])
        self._commands[command.number] = command
        return command

    def signal(self, number: int, command: Command | None = None, *, group: bool = False) -> None:
        """Send a signal to a command, or to all processes of its group; ignored after its end."""
        target = command or self.main
        if not target.exit_code.done():
            with contextlib.suppress(ConnectionError):
                self._send({"signal": int(number), "id": target.number, "group": group})

    def kill(self) -> None:
        """Kill all processes of the container; ignored after their end."""
        with contextlib.suppress(ConnectionError):
            self._send({"kill": True})

    def attach(self) -> int:
        """Return a descriptor that receives the output of the container, from now on."""
        read, write = os.pipe()
        try:
            self._send({"attach": True}, [write])
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return read
