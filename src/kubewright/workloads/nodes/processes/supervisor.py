"""The parent of the processes of one container. Runs as a program of its own.

    python -I -S -c "..." CONTROL_FD SPEC_FD          (see `launch.start_supervisor`)

`SPEC_FD` has a JSON object with the fields of `launch.SupervisorSpec`. The supervisor starts the command of
the container and further commands (exec, probes, hooks) in it, writes the output to log files, and reports
exits. It is a subreaper: a process of the container whose parent has ended becomes its child, in whatever
session it is. When the main process ends, or the server, it kills all its descendants. Where a cgroup can be
created, the processes are in one, and are killed by it.

Messages on the control socket are JSON objects, one per packet. `id` is 0 for the main process.

| from the server | | to the server | |
|---|---|---|---|
| `exec` id | starts a command; descriptors: spec, streams | `started` id, `pid` | it is executed |
| `signal` number, id, `group` | sends a signal | `failed` id, `reason` | it could not be executed |
| `kill` | kills all processes | `exited` id, `code` | it has ended; 0 is the last message |
| `attach` | copies output to a descriptor | | |

When the server does not exist any more, the control socket is closed. Only the standard library is used.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from kubewright.workloads.nodes.processes import launcher
    from kubewright.workloads.nodes.processes.log_writer import LogWriter
    from kubewright.workloads.nodes.processes.process_tree import (
        become_subreaper,
        remove_cgroup,
        signal_descendants,
        write_file,
    )

    Message: TypeAlias = dict[str, Any]
else:
    # The folder is in the path: the package would import more than this program needs.
    import launcher
    from log_writer import LogWriter
    from process_tree import become_subreaper, remove_cgroup, signal_descendants, write_file

CHUNK = 64 * 1024
DRAIN_SECONDS = 1.0
"""How long output is read after the end of all processes, if another process has the streams."""
KILL_SECONDS = 10.0
"""How long the supervisor tries to end its descendants."""
LOG_SHARE = 0.25
"""The part of a CPU that the supervisor uses at most for output; the container waits for it."""
MAX_DESCRIPTORS = 8


class Supervisor:
    """Starts, signals and reaps the processes of a container."""

    def __init__(self, spec: Message, control: socket.socket) -> None:
        self._spec = spec
        self._control = control
        self._log = LogWriter(spec["log"], spec["log_size"], spec["log_files"])
        self._cgroup = spec["cgroup"]
        self._children: dict[int, int] = {}
        """Ids of commands by process id."""
        self._starting: dict[int, int] = {}
        """Ids of commands by the descriptor that reports whether they could be executed."""
        self._outputs: dict[int, str] = {}
        """Streams by descriptor."""
        self._attached: dict[int, bytes] = {}
        """Output that has not been copied yet, by descriptor."""
        self._pause_until = 0.0
        self._is_over = False
        self._code = -int(signal.SIGKILL)
        self._wake_read, wake_write = os.pipe()
        for descriptor in (self._wake_read, wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _ignore)

    def run(self) -> None:
        """Run the container until its main process ends, and end all others."""
        become_subreaper()
        if self._cgroup:
            try:
                os.mkdir(self._cgroup)
            except OSError:
                self._cgroup = ""
        self._start_main()
        try:
            while not self._is_over:
                self._step()
        finally:
            self._finish()

    # Commands

    def _start_main(self) -> None:
        terminal = self._spec["terminal"]
        if terminal >= 0:
            self._start(0, self._spec["command"], [0, 0, 0])
            self._outputs[terminal] = "stdout"
        else:
            out_read, out_write = os.pipe()
            error_read, error_write = os.pipe()
            self._start(0, self._spec["command"], [0, out_write, error_write])
            os.close(out_write)
            os.close(error_write)
            self._outputs = {out_read: "stdout", error_read: "stderr"}
        for descriptor in self._outputs:
            os.set_blocking(descriptor, False)
        # A terminal that the supervisor has open would not report the end of its last process.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)

    def _start(self, number: int, spec: Message, streams: list[int]) -> None:
        status_read, status_write = os.pipe()
        parent = os.getpid()
        process = os.fork()
        if process == 0:
            try:
                os.setsid()
                if self._cgroup:
                    write_file(f"{self._cgroup}/cgroup.procs", "0")
                for target, descriptor in enumerate(streams):
                    os.dup2(descriptor, target)
                for reset in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(reset, signal.SIG_DFL)
                launcher.launch(spec, parent)
            except BaseException as error:
                text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                os.write(status_write, text.encode(errors="replace")[:4000] or b"failed")
            finally:
                os._exit(128)
        os.close(status_write)
        self._children[process] = number
        self._starting[status_read] = number

    def _report_start(self, descriptor: int) -> None:
        number = self._starting.pop(descriptor)
        # Closed by the execution of the command, or its failure: this does not wait for the command.
        reason = os.read(descriptor, CHUNK)
        os.close(descriptor)
        if reason:
            self._send({"failed": number, "reason": reason.decode(errors="replace")})
        else:
            process = next((each for each, known in self._children.items() if known == number), 0)
            self._send({"started": number, "pid": process})

    def _reap(self) -> bool:
        """Report the processes that have ended; return whether there are others."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            number = self._children.get(process)
            if number is None:
                continue
            for descriptor in [each for each, known in self._starting.items() if known == number]:
                self._report_start(descriptor)
            del self._children[process]
            code = os.waitstatus_to_exitcode(status)
            if number == 0:
                self._code = code
                self._is_over = True
            else:
                self._send({"exited": number, "code": code})

    # Messages

    def _send(self, message: Message) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            # The server has ended.
            self._is_over = True

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._control, CHUNK, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._is_over = True
            return
        message: Message = json.loads(data)
        if len(descriptors) < message.get("descriptors", 0):
            for descriptor in descriptors:
                os.close(descriptor)
            if "exec" in message:
                self._send({"failed": message["exec"], "reason": os.strerror(errno.EMFILE)})
                self._send({"exited": message["exec"], "code": 128})
        elif "exec" in message:
            with os.fdopen(descriptors[0], "rb") as file:
                file.seek(0)
                spec = json.loads(file.read())
            self._start(message["exec"], spec, descriptors[1:])
            for descriptor in descriptors[1:]:
                os.close(descriptor)
        elif "signal" in message:
            self._signal(message)
        elif "attach" in message:
            os.set_blocking(descriptors[0], False)
            self._attached[descriptors[0]] = b""
        elif "kill" in message:
            self._is_over = True

    def _signal(self, message: Message) -> None:
        for process, number in self._children.items():
            if number == message["id"]:
                try:
                    # A child that was not reaped still has its number.
                    (os.killpg if message["group"] else os.kill)(process, message["signal"])
                except OSError:
                    pass

    # Output

    def _step(self) -> None:
        """Wait for messages, output and exits, and handle them."""
        now = time.monotonic()
        poll = select.poll()
        for descriptor in (self._control.fileno(), self._wake_read, *self._starting):
            poll.register(descriptor, select.POLLIN)
        timeout: float | None = None
        for descriptor, data in self._attached.items():
            poll.register(descriptor, select.POLLOUT if data else 0)
        if now < self._pause_until:
            timeout = (self._pause_until - now) * 1000
        elif not any(self._attached.values()):
            # As long as a client does not read, its container waits.
            for descriptor in self._outputs:
                poll.register(descriptor, select.POLLIN)
        for descriptor, event in poll.poll(timeout):
            if descriptor == self._control.fileno():
                self._receive()
            elif descriptor == self._wake_read:
                os.read(self._wake_read, CHUNK)
            elif descriptor in self._starting:
                self._report_start(descriptor)
            elif descriptor in self._outputs:
                self._read_output(descriptor)
            elif descriptor in self._attached:
                self._copy(descriptor, closed=bool(event & (select.POLLERR | select.POLLHUP)))
        self._reap()
        if os.getppid() != self._spec["parent"]:
            self._is_over = True

    def _read_output(self, descriptor: int) -> None:
        """Read output once, write it to the log, and copy it to clients."""
        began = time.thread_time()
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # A terminal reports the end of its last process as an error.
            data = b""
        if not data:
            os.close(descriptor)
            del self._outputs[descriptor]
            return
        self._log.write(data, self._outputs[descriptor])
        for each in list(self._attached):
            self._attached[each] += data
            self._copy(each)
        if not self._is_over:
            used = time.thread_time() - began
            self._pause_until = max(self._pause_until, time.monotonic()) + used * (1 / LOG_SHARE - 1)

    def _copy(self, descriptor: int, *, closed: bool = False) -> None:
        """Copy output to a client; detach one that has ended."""
        try:
            if closed:
                raise BrokenPipeError
            data = self._attached[descriptor]
            self._attached[descriptor] = data[os.write(descriptor, data) :]
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            del self._attached[descriptor]

    # End

    def _finish(self) -> None:
        """Kill all processes, write the rest of their output, and report the exit of the main process."""
        self._is_over = True
        self._kill_all()
        deadline = time.monotonic() + DRAIN_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            waiting = [each for each, data in self._attached.items() if data]
            if not self._outputs and not waiting:
                break
            poll = select.poll()
            for descriptor in self._outputs:
                poll.register(descriptor, select.POLLIN)
            for descriptor in waiting:
                poll.register(descriptor, select.POLLOUT)
            for descriptor, _ in poll.poll(left * 1000):
                if descriptor in self._outputs:
                    self._read_output(descriptor)
                else:
                    self._copy(descriptor)
        self._log.close()
        if self._cgroup:
            remove_cgroup(self._cgroup)
        self._send({"exited": 0, "code": self._code})

    def _kill_all(self) -> None:
        """Kill all descendants, until this process has no children."""
        deadline = time.monotonic() + KILL_SECONDS
        while self._reap() and time.monotonic() < deadline:
            if self._cgroup:
                write_file(f"{self._cgroup}/cgroup.kill", "1")
            # A stopped process cannot create others: first all are stopped, then killed.
            stopped: set[int] = set()
            while signal_descendants(signal.SIGSTOP, stopped) and time.monotonic() < deadline:
                pass
            signal_descendants(signal.SIGKILL, set())
            select.select([self._wake_read], [], [], 0.01)


def _ignore(number: int, frame: object) -> None:
    """Do nothing: the signal wakes the loop."""


def main() -> None:
    """Read the spec and run the container."""
    control, spec_file = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(spec_file, "rb") as file:
        file.seek(0)
        spec = json.loads(file.read())
    for descriptor in (control, *([spec["terminal"]] if spec["terminal"] >= 0 else [])):
        os.set_inheritable(descriptor, False)
    if os.getppid() == spec["parent"]:
        Supervisor(spec, socket.socket(fileno=control)).run()
