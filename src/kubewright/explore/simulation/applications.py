"""`Applications`: fake applications in the event loop of a run, whose calls are points.

The operator connects to the host names of their Services with any client that uses the event loop; nothing
leaves the process. Each call is an external point, like that of an `ExternalFake`, so that the faults of the
family `external` apply, and those of `application`. What an application stores is part of the final state.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

from kubewright.explore.faults import ErrorResponse
from kubewright.testing.applications.application import (
    CallFailed,
    FakeApplication,
    FakeCall,
    FakeReplica,
)

from .loop import PROCESS
from .process_target import ProcessTarget
from .processes import OperatorProcess

if TYPE_CHECKING:
    from kubewright.explore.runs.trace import TraceEvent

    from .cluster import SimulatedCluster

LATENCY: Final = 0.01
"""Virtual seconds that a call takes."""
TIMEOUT: Final = 30.0
"""Virtual seconds after which a lost call ends."""
RESTART_DELAY: Final = 1.0
"""Virtual seconds between the response to a call and a restart after it."""
RESOURCE: Final = "application"
"""What marks calls of applications among external points."""


class Applications:
    """The applications of a run."""

    def __init__(self, cluster: SimulatedCluster, applications: Sequence[FakeApplication]) -> None:
        self._cluster = cluster
        self._applications = applications

    def activate(self) -> None:
        """Reset the applications, and accept connections in the loop of the cluster."""
        if not self._applications:
            return
        for each in self._applications:
            each.reset()
            each.observer = self._observe
            self.record_data(each)
        self._cluster.loop.connect = self._connect

    def deactivate(self) -> None:
        """End the use in this run."""
        for each in self._applications:
            each.observer = None
        self._cluster.loop.connect = None

    def _connect(self, host: str, port: int) -> Callable[[], asyncio.BaseProtocol] | None:
        for application in self._applications:
            replicas = application.find(host, port)
            if replicas is not None:
                return lambda: self._accept(application, replicas)
        return None

    def _accept(self, application: FakeApplication, replicas: list[FakeReplica]) -> asyncio.BaseProtocol:
        return application.protocol(application.choose(replicas), PROCESS.get())

    @contextlib.asynccontextmanager
    async def _observe(self, call: FakeCall) -> AsyncIterator[None]:
        """Record a call, with the fault that is planned for it."""
        cluster, process = self._cluster, call.process
        text = f"{'get' if call.is_read else 'put'} {call.application.service} {call.operation}"
        if not isinstance(process, OperatorProcess):
            cluster.record("request", "scenario", text)
            yield
            self.record_data(call.application)
            return
        event = cluster.record("external", process.name, text)
        event.resource = RESOURCE
        cluster.count_request("external")
        fault = cluster.fault_at(event)
        target = _CallTarget(call, process, event)
        if fault is not None:
            await fault.before(target)
        yield
        event.status, event.ended = 200, cluster.loop.step
        self.record_data(call.application)
        if fault is not None:
            await fault.after(target)
        await asyncio.sleep(LATENCY)

    def record_data(self, application: FakeApplication) -> None:
        """Make the data of an application part of the state."""
        cluster, found = self._cluster, application.observed()
        if cluster.external.data.get(application.service) != found:
            cluster.external.data[application.service] = found
            cluster.changed_at = cluster.loop.now


class _CallTarget(ProcessTarget):
    """A call of an application."""

    def __init__(self, call: FakeCall, process: OperatorProcess, event: TraceEvent) -> None:
        super().__init__(process, event)
        self._call = call

    async def respond(self, error: ErrorResponse) -> None:
        """Fail the call."""
        raise CallFailed(f"{self._call.application.service}: injected by exploration", error.status)

    async def time_out(self) -> None:
        """End the call without a response."""
        await asyncio.sleep(TIMEOUT)
        raise ConnectionResetError("injected by exploration")

    async def fail_application(self, how: str, seconds: float) -> None:
        """Let the application fail; it recovers after the time."""
        application, replica = self._call.application, self._call.replica
        affected = application.replicas if how == "reject" else [replica]
        if how == "restart":
            self._restart()
            raise ConnectionResetError("the application restarts")
        if how == "lose-data":
            contextvars.Context().run(self.cluster.loop.call_later, RESTART_DELAY, self._restart)
            return
        for each in affected:
            if how == "slow":
                each.slow(seconds / 2)
            elif how == "lie":
                each.lie()
            else:
                each.reject()
        context = contextvars.Context()
        context.run(self.cluster.loop.call_later, seconds, _recover, affected)

    def _restart(self) -> None:
        self._call.replica.restart()
        self.cluster.applications.record_data(self._call.application)


def _recover(replicas: Sequence[FakeReplica]) -> None:
    for each in replicas:
        each.recover()
