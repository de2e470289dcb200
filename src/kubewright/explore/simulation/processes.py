"""`OperatorProcess`: one start of a replica of the operator in a simulated cluster.

A process has its own operator instance, client, cache and queues. It runs until it is killed, stops by itself
(for example because it lost its Lease) or the run ends. The cluster restarts a process that ended, with the
delays of a kubelet.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from kubewright.client import Client
from kubewright.manager import Operator
from kubewright.manager.operators.operator_runtime import prepare

from .loop import PROCESS, ProcessState
from .process_target import ProcessTarget
from .reconcile_order import control_order
from .schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubewright.controller import Controller
    from kubewright.explore.runs.trace import TraceEvent

    from .cluster import SimulatedCluster
    from .programs import ExploredProgram

LEASE_NAMESPACE = "kube-system"
LEASE_DURATION = 60.0
"""Longer than the default, because each renewal of a long scenario costs time."""


class EventStream(Protocol):
    """Events of the API server or its storage that a process receives."""

    def close(self) -> None:
        """Stop receiving events."""

    def fail(self, error: Exception) -> None:
        """Break the connection."""


class OperatorProcess(ProcessState):
    """A running operator. `name` is `operator-<replica>#<start>`."""

    def __init__(
        self, cluster: SimulatedCluster, operator: Operator | ExploredProgram, *, replica: int, start: int
    ) -> None:
        super().__init__(f"operator-{replica}#{start}")
        self.cluster = cluster
        self.operator = operator
        self.replica = replica
        self.start_number = start
        self.streams: dict[EventStream, None] = {}
        """Open watches."""
        self.unreachable_until = 0.0
        """Virtual time until which requests fail."""
        self.lease_unreachable_until = 0.0
        """Virtual time until which requests for Leases fail."""
        self.lagging_until = 0.0
        """Virtual time until which lists may be old and watch events are delayed."""
        self.lagging_revision = 0
        """Revision of lists that may be old, while lagging."""
        self.unwatchable: dict[str, float] = {}
        """Virtual time until which a resource cannot be watched, by path; then its watches expire once."""
        self.controllers: Sequence[Controller[Any]] = ()
        """The controllers of the operator, after its start."""
        self.schedule = Schedule(self)
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def run(self, started: TraceEvent) -> None:
        """Start the operator in a task of this process, with the fault that is planned for its start."""
        context = contextvars.Context()
        context.run(PROCESS.set, self)
        loop = self.cluster.loop
        self.task = loop.create_task(self._run(started), name=self.name, context=context)
        self.task.add_done_callback(self._ended, context=contextvars.Context())

    async def _run(self, started: TraceEvent) -> None:
        from .transport import OperatorTransport

        cluster, operator = self.cluster, self.operator
        fault = cluster.fault_at(started)
        if fault is not None:
            await fault.before(ProcessTarget(self, started))
        client = Client.from_transport(OperatorTransport(self, cluster.operator_user), user_agent="operator")
        if not isinstance(operator, Operator):
            await operator.run(client, self.stop)
            return
        is_replicated = cluster.replicas > 1
        operator.settings = replace(
            operator.settings,
            development=False,
            webhooks=False,
            failure_events=cluster.has_failure_events,
            probe_port=None,
            metrics_port=None,
            tracing=False,
            recording_minutes=0.0,
            leader_election=is_replicated,
            leader_election_namespace=LEASE_NAMESPACE,
            lease_duration=LEASE_DURATION,
            renew_deadline=LEASE_DURATION * 2 / 3,
            retry_period=LEASE_DURATION / 4,
            graceful_shutdown_timeout=1.0,
        )
        manager = (await prepare(operator, client)).manager
        manager.handle_signals = False
        control_order(self, manager)
        if cluster.on_manager is not None:
            cluster.on_manager(manager)
        await manager.run(self.stop)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self.dead:
            error = None if task.cancelled() else task.exception()
            self.cluster.process_ended(self, error)
