"""`ContainerRuntime`: what runs the containers of a pod, and the simulated one.

The kubelet decides when containers start, restart and stop; a runtime starts them, reports their exits, and
serves their logs, exec, attach and port-forward. `SimulatedRuntime` runs nothing: containers exit when their
behaviour says so, and commands run on a file system in memory.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kubewright.apiserver.streams.contract import ByteStream, ProcessStreams
from kubewright.workloads.nodes.objects import LoopClock, Object
from kubewright.workloads.nodes.pods.behaviour import ContainerBehaviour, PodSelector

from .container_log import ContainerLog, MemoryLog

if TYPE_CHECKING:
    from kubewright.node.devices.messages import Allocation
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

    from .commands import FileSystem
    from .container_state import ContainerState
    from .printed_environments import PrintedEnvironments


class PodIdentity(NamedTuple):
    """The pod of a container."""

    namespace: str
    name: str
    uid: str
    node: str


class ContainerExit(NamedTuple):
    """How a container ended."""

    code: int
    reason: str = ""
    message: str = ""


class ContainerStartError(Exception):
    """A container could not be started; the message is that of the runtime.

    `reason` is that of the waiting state; `event` is the reason of the event, and `retry_after` the time to
    the next attempt, with back-off unless given.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "CreateContainerError",
        event: str = "Failed",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.event = event
        self.retry_after = retry_after


class RunOwner(Protocol):
    """The part of the kubelet that a run of a container uses."""

    def wake(self) -> None:
        """Check the container soon."""

    def report(self, kind: str, reason: str, message: str) -> None:
        """Record an event about the container."""


@dataclass(slots=True, eq=False)
class ContainerRun:
    """One run of a container; a restart is another run."""

    pod: PodIdentity
    container: str
    attempt: int
    container_id: str
    behaviour: ContainerBehaviour
    on_exit: Callable[[ContainerExit], None]
    log: ContainerLog | None = None
    timer: asyncio.TimerHandle | None = None
    files: FileSystem | None = None
    ended: bool = False
    stopping: bool = False
    """Whether the container was asked to end."""
    has_started: bool = True
    """Whether the container has started completely, with its postStart hook."""
    kubelet: RunOwner | None = None
    """What the run reports to, except for its exit."""
    allocation: Allocation | None = None
    """What the container gets of device plug-ins."""

    def wake(self) -> None:
        """Let the kubelet check the container soon."""
        if self.kubelet is not None:
            self.kubelet.wake()

    def report(self, kind: str, reason: str, message: str) -> None:
        """Record an event about the container."""
        if self.kubelet is not None:
            self.kubelet.report(kind, reason, message)

    def exited(self, result: ContainerExit) -> None:
        """Report the exit to the kubelet, once."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.ended = True
        if self.log is not None:
            self.log.close()
        on_exit, self.on_exit = self.on_exit, _ignore_exit
        on_exit(result)


def _ignore_exit(result: ContainerExit) -> None:
    """Ignore the exit of a run that has already ended."""


class CollectedStreams:
    """Streams of a command without a client: no input, and output in memory, up to a limit."""

    tty = False

    def __init__(self, limit: int | None = None) -> None:
        self.output = bytearray()
        self._limit = limit

    async def read_stdin(self) -> bytes:
        """Return no input."""
        return b""

    async def write_stdout(self, data: bytes) -> None:
        """Collect standard output."""
        self.output += data if self._limit is None else data[: max(0, self._limit - len(self.output))]

    async def write_stderr(self, data: bytes) -> None:
        """Collect standard error."""
        await self.write_stdout(data)

    async def read_size(self) -> None:
        """Return no size: there is no terminal."""


class ExecOutput(NamedTuple):
    """The result of a command."""

    stdout: str | bytes = b""
    stderr: str | bytes = b""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command to run in a container."""

    command: list[str]
    pod: Object
    container: str
    streams: ProcessStreams
    variables: dict[str, str] = field(default_factory=dict)
    """Variables that the command adds to the environment of the container."""


ExecResult = ExecOutput | str | bytes | int | None
ExecHandler = Callable[[ExecRequest], ExecResult | Awaitable[ExecResult]]
"""Returns output, an exit code, or an `ExecOutput`; `None` if it has written to the streams itself."""
PortHandler = Callable[[ByteStream], Awaitable[None]]


class PodProbes(Protocol):
    """The probes of the containers of one pod."""

    def check(self, container: ContainerState, now: float) -> float | None:
        """Update `started` and `ready` of a running container; return when to call it again."""


class ContainerRuntime(Protocol):
    """Starts containers and gives access to them."""

    pod_address: str
    """The address of all pods; if empty, each pod gets one of its node."""
    uses_images: bool
    """Whether images are reported as pulled."""
    resumes: bool
    """Whether containers continue to run when the process of the runtime ends and starts again."""

    def prepare(self, pod: Object, container: Object, wake: Callable[[], None]) -> bool:
        """Return whether `start` can be called; otherwise, `wake` is called when that changes.

        Raises `ContainerStartError`.
        """

    def create_probes(self, worker: PodWorker) -> PodProbes:
        """Return the probes of a pod."""

    def start(self, run: ContainerRun, pod: Object, container: Object) -> None:
        """Start a container; `run.exited` reports its end. Raises `ContainerStartError`."""

    def stop(self, run: ContainerRun, grace_period: float) -> None:
        """Ask a container to end, and kill it after the grace period."""

    def kill(self, run: ContainerRun, result: ContainerExit, *, grace_period: float = 0.0) -> None:
        """End a container with a result now, or by its own exit within a grace period."""

    def release(self, pod: PodIdentity) -> None:
        """Delete what belongs to a pod that does not exist any more."""

    async def close(self) -> None:
        """End all containers."""

    def log(self, run: ContainerRun) -> ContainerLog:
        """Return the log of a run, also after its end."""

    async def exec(self, run: ContainerRun, request: ExecRequest) -> int:
        """Run a command in a container; return its exit code."""

    async def attach(self, run: ContainerRun, streams: ProcessStreams) -> int:
        """Connect to the main process of a container until it ends."""

    async def port_forward(self, pod: Object, port: int, stream: ByteStream) -> None:
        """Serve a connection to a port of a pod; raises `ConnectionError`."""


@dataclass(slots=True)
class _ExecRule:
    selector: PodSelector
    container: str
    handler: ExecHandler


@dataclass(slots=True)
class _PortRule:
    selector: PodSelector
    port: int
    target: PortHandler | int


class SimulatedRuntime:
    """Containers that only exist in memory."""

    pod_address = ""
    uses_images = True
    resumes = True

    def __init__(self, clock: LoopClock, environments: PrintedEnvironments | None = None) -> None:
        """`environments` has the variables of containers that print them."""
        self._clock = clock
        self._environments = environments
        self.exec_rules: list[_ExecRule] = []
        self.port_rules: list[_PortRule] = []

    def prepare(self, pod: Object, container: Object, wake: Callable[[], None]) -> bool:
        """Read the variables of a container that prints them; nothing else has to be prepared."""
        return self._environments is None or self._environments.prepare(pod, container, wake)

    def create_probes(self, worker: PodWorker) -> PodProbes:
        """Return probes with declared results."""
        from .probe_checks import ProbeChecks

        return ProbeChecks(worker)

    def start(self, run: ContainerRun, pod: Object, container: Object) -> None:
        """Schedule the exit of the container, if it has one."""
        behaviour = run.behaviour
        if behaviour.create_error:
            raise ContainerStartError(behaviour.create_error)
        if behaviour.logs:
            self.log(run).write(behaviour.logs, self._clock.date())
        if self._environments is not None and (text := self._environments.take(run)):
            self.log(run).write(text, self._clock.date())
        count = behaviour.exit_count
        if behaviour.exit_after is not None and (count is None or run.attempt < count):
            result = ContainerExit(behaviour.exit_code, behaviour.exit_reason, behaviour.exit_message)
            loop = asyncio.get_running_loop()
            run.timer = loop.call_later(behaviour.exit_after, run.exited, result)

    def stop(self, run: ContainerRun, grace_period: float) -> None:
        """Let the container exit after its termination delay, or be killed after the grace period."""
        behaviour = run.behaviour
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        result = ContainerExit(behaviour.termination_exit_code)
        delay = behaviour.termination_delay
        if delay > grace_period:
            delay, result = grace_period, ContainerExit(137)
        if delay <= 0:
            run.exited(result)
        else:
            run.timer = asyncio.get_running_loop().call_later(delay, run.exited, result)

    def kill(self, run: ContainerRun, result: ContainerExit, *, grace_period: float = 0.0) -> None:
        """End a container now."""
        run.exited(result)

    def release(self, pod: PodIdentity) -> None:
        """Do nothing: the file systems belong to the runs."""

    async def close(self) -> None:
        """Stop reading variables; the kubelet cancels the timers."""
        if self._environments is not None:
            await self._environments.close()

    def log(self, run: ContainerRun) -> ContainerLog:
        """Return the log of a run."""
        if run.log is None:
            run.log = MemoryLog()
            if run.ended:
                run.log.close()
        return run.log

    def on_exec(self, selector: PodSelector, container: str, handler: ExecHandler) -> None:
        """Call a function for commands in selected containers, instead of the built-in commands."""
        self.exec_rules.insert(0, _ExecRule(selector, container, handler))

    def on_port_forward(self, selector: PodSelector, port: int, target: PortHandler | int) -> None:
        """Serve connections to a port of selected pods by a function, or by a local port."""
        self.port_rules.insert(0, _PortRule(selector, port, target))

    async def exec(self, run: ContainerRun, request: ExecRequest) -> int:
        """Run a command by the first matching handler, or a built-in command."""
        for rule in self.exec_rules:
            if rule.container in ("", run.container) and rule.selector.matches(request.pod):
                result = rule.handler(request)
                output: ExecResult = await result if inspect.isawaitable(result) else result
                return await _write_result(output, request.streams)
        from .commands import run_command

        return await run_command(run, request)

    async def attach(self, run: ContainerRun, streams: ProcessStreams) -> int:
        """Copy the log of the container to the client until the container ends; input is echoed."""
        from .container_log import LogOptions

        async def echo() -> None:
            log = self.log(run)
            while data := await streams.read_stdin():
                log.write(data, self._clock.date())

        echoing = asyncio.create_task(echo())
        try:
            async for data in self.log(run).read(LogOptions(follow=True)):
                await streams.write_stdout(data)
        finally:
            echoing.cancel()
            await asyncio.gather(echoing, return_exceptions=True)
        return 0

    async def port_forward(self, pod: Object, port: int, stream: ByteStream) -> None:
        """Serve a connection by the first matching rule."""
        for rule in self.port_rules:
            if rule.port in (0, port) and rule.selector.matches(pod):
                if isinstance(rule.target, int):
                    await forward_to_port(rule.target, stream)
                else:
                    await rule.target(stream)
                return
        raise ConnectionError(f"dial tcp4 127.0.0.1:{port}: connect: connection refused")


async def _write_result(result: ExecResult, streams: ProcessStreams) -> int:
    if result is None:
        return 0
    if isinstance(result, int):
        return result
    output = result if isinstance(result, ExecOutput) else ExecOutput(result)
    for data, write in ((output.stdout, streams.write_stdout), (output.stderr, streams.write_stderr)):
        if data:
            await write(data.encode() if isinstance(data, str) else data)
    return output.exit_code


async def forward_to_port(port: int, stream: ByteStream) -> None:
    """Copy bytes between a stream and a local port until the local side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def forward() -> None:
        while data := await stream.receive():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    forwarding = asyncio.create_task(forward())
    try:
        while data := await reader.read(64 * 1024):
            await stream.send(data)
    finally:
        forwarding.cancel()
        await asyncio.gather(forwarding, return_exceptions=True)
        writer.close()
