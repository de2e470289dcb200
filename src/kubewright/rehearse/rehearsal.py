"""`Rehearsal`: a control plane with the objects of a snapshot, and operators, in virtual time.

    rehearsal = Rehearsal(snapshot)
    with rehearsal.started():
        rehearsal.run(rehearsal.cluster.install(factory()))
        rehearsal.start_operator(factory)
        rehearsal.run(rehearsal.settle())

It is the simulated cluster of `explore` without a scenario and without faults: one event loop, whose clock
starts at the time of the snapshot, in-process transports, no network. Several operators can be started one
after the other, as an upgrade does.

Errors that processes of the operator log or end with are in `errors`; requests are in `cluster.requests`,
and everything that happened is in `cluster.trace`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.client.patches import merge_patch
from kubewright.controller.controller import current_reconcile
from kubewright.explore.runs.trace import Trace
from kubewright.explore.scenarios.scenarios import Scenario
from kubewright.explore.simulation.cluster import SimulatedCluster
from kubewright.explore.simulation.determinism import Randomness, deterministic
from kubewright.explore.simulation.external import deactivate
from kubewright.explore.simulation.loop import PROCESS, ProcessState, VirtualLoop
from kubewright.explore.simulation.processes import OperatorProcess
from kubewright.manager import Operator
from kubewright.manager.operators.installation import definitions_of

from .external_calls import blocked_calls
from .snapshot_storage import LoadedSnapshot, load_snapshot

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane
    from kubewright.explore.scenarios.steps import Steps
    from kubewright.explore.simulation.factories import OperatorFactory
    from kubewright.explore.simulation.local_webhooks import LocalWebhooks
    from kubewright.explore.simulation.programs import ExploredProgram
    from kubewright.storage.memory import MemoryStorage
    from kubewright.testing.applications.application import FakeApplication

    from .snapshot import ClusterSnapshot

T = TypeVar("T")

DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
QUIET_SECONDS = 30.0
"""Virtual seconds without a change after which an operator is idle."""
LIMIT_SECONDS = 600.0
"""Virtual seconds after which an operator that does not become idle is not waited for."""
MAX_STEPS_PER_INSTANT = 20_000_000
"""Task switches at one instant: caches of many objects are filled without an advance of the clock."""


async def _no_steps(steps: Steps) -> None:
    """Do nothing."""


class _NoProgram:
    """Stands in for an operator until one is started."""

    name = ""
    controllers: frozenset[str] = frozenset()

    async def run(self, client: Any, stop: asyncio.Event) -> None:
        """Wait for the end."""
        await stop.wait()


@dataclass(frozen=True, slots=True)
class OperatorError:
    """An error that a process of the operator logged, or ended with."""

    message: str
    controller: str = ""
    request: str = ""
    """Namespace and name of the reconciled object."""
    time: float = 0.0
    """Virtual seconds since the start."""

    def __str__(self) -> str:
        return f"{self.controller} {self.request}: {self.message}" if self.controller else self.message


class RehearsedCluster(SimulatedCluster):
    """A simulated cluster with the objects of a snapshot."""

    has_failure_events = True
    allows_data_loss = True

    def __init__(
        self,
        loop: VirtualLoop,
        randomness: Randomness,
        snapshot: ClusterSnapshot,
        *,
        webhooks: LocalWebhooks | None = None,
        options: dict[str, Any] | None = None,
        applications: Sequence[FakeApplication] = (),
    ) -> None:
        """`options` are those of the control plane in addition."""
        scenario = Scenario(name="rehearsal", steps=_no_steps, applications=applications)
        super().__init__(loop, randomness, _NoProgram, scenario)
        if webhooks is not None:
            self.webhooks = webhooks
        self.loaded = LoadedSnapshot()
        self.on_prepared: Callable[[ControlPlane], None] | None = None
        """Called with the control plane before it starts."""
        self._snapshot = snapshot
        self._options = {"kubernetes_version": snapshot.supported_version, **(options or {})}

    async def start(self) -> None:
        """Start the control plane, and wait until its controllers have processed the objects."""
        await self.start_plane(_NoProgram(), **self._options)
        await self.plane.wait_until_idle()
        await asyncio.sleep(1.0)
        self.start_recording()

    async def install(self, operator: Operator | ExploredProgram) -> None:
        """Install the CRDs and webhooks of an operator, with its converters in this process."""
        for definition in definitions_of(operator.kinds) if isinstance(operator, Operator) else ():
            if (definition["spec"].get("conversion") or {}).get("strategy") == "Webhook":
                # A CRD of a deployment has the Service of the converter; it cannot have a URL as well.
                none = merge_patch({"spec": {"conversion": {"strategy": "None", "webhook": None}}})
                with contextlib.suppress(NotFound):
                    await self.client.patch(DEFINITION, definition["metadata"]["name"], none)
        await super().install(operator)

    def prepare_storage(self, storage: MemoryStorage) -> None:
        """Write the objects of the snapshot."""
        self.loaded = load_snapshot(self._snapshot, self.plane.server, storage)
        if self.on_prepared is not None:
            self.on_prepared(self.plane)


class _ErrorHandler(logging.Handler):
    """Collects the errors that processes of the operator log."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        super().__init__(logging.WARNING)
        self._rehearsal = rehearsal

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and PROCESS.get() is not None:
            self._rehearsal.add_error(error)


class Rehearsal:
    """Runs operators on the objects of a snapshot."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        *,
        seed: int = 0,
        webhooks: LocalWebhooks | None = None,
        options: dict[str, Any] | None = None,
        on_prepared: Callable[[ControlPlane], None] | None = None,
        applications: Sequence[FakeApplication] = (),
    ) -> None:
        """`options` are those of the control plane, in addition to the version of the snapshot.

        The operator can connect to `applications`. `on_prepared` is called with the control plane before it
        starts, when it has the objects.
        """
        self.snapshot = snapshot
        self.errors: list[OperatorError] = []
        self.limit: Exception | None = None
        """Why an operator was stopped: it sent too many requests."""
        self.loop: VirtualLoop
        self.cluster: RehearsedCluster
        self._seed = seed
        self._webhooks = webhooks
        self._options = options
        self._on_prepared = on_prepared
        self._applications = applications
        self._limit_reached = asyncio.Event()

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        """Start the control plane with the objects, and end everything when the block ends."""
        self.loop = loop = VirtualLoop()
        loop.epoch = self.snapshot.moment().timestamp()
        loop.max_steps_per_instant = MAX_STEPS_PER_INSTANT
        handler = _ErrorHandler(self)
        root = logging.getLogger()
        with deterministic(loop, self._seed) as randomness:
            self.cluster = cluster = RehearsedCluster(
                loop,
                randomness,
                self.snapshot,
                webhooks=self._webhooks,
                options=self._options,
                applications=self._applications,
            )
            cluster.on_prepared = self._on_prepared
            cluster.external.activate()
            cluster.on_limit = self._reached_limit
            cluster.on_process_error = self._process_failed
            cluster.max_requests = 20 * len(self.snapshot) + 20_000
            root.addHandler(handler)
            loop.on_exit = self._process_exited
            loop.set_exception_handler(self._loop_error)
            try:
                loop.run_until_complete(cluster.start())
                with blocked_calls(loop.blocked_connections):
                    yield
            finally:
                root.removeHandler(handler)
                deactivate()
                self._close()

    def _close(self) -> None:
        self.cluster.is_closing = True
        self.cluster.trace = Trace()
        logging.disable(logging.CRITICAL)
        try:
            self.loop.discard(self.cluster.all_processes)
        finally:
            logging.disable(logging.NOTSET)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in virtual time and return its result."""
        return self.loop.run_until_complete(coroutine)

    def start_operator(self, factory: OperatorFactory) -> OperatorProcess:
        """Start a process of an operator; its CRDs and webhooks must be installed."""
        self.cluster.factory = factory
        return self.cluster.start_process(1)

    async def stop_operators(self) -> None:
        """Kill all processes."""
        await self.cluster.stop_processes()

    async def settle(self, *, quiet: float = QUIET_SECONDS, limit: float = LIMIT_SECONDS) -> bool:
        """Wait until nothing has changed for `quiet` virtual seconds; return whether that happened."""
        cluster, loop = self.cluster, self.loop
        deadline = loop.now + limit
        began = loop.now
        while self.limit is None:
            since = max(cluster.changed_at, began)
            if loop.now - since >= quiet:
                return True
            if loop.now >= deadline:
                return False
            waiter = asyncio.ensure_future(self._limit_reached.wait())
            delay = min(quiet - (loop.now - since), deadline - loop.now)
            await asyncio.wait([waiter], timeout=max(delay, 0.001))
            waiter.cancel()
        return False

    def failing(self) -> Iterator[OperatorError]:
        """Return the reconciles that fail at this moment, and are retried."""
        for process in self.cluster.all_processes:
            for controller in () if process.dead else process.controllers:
                for request, error in controller.failing.items():
                    yield OperatorError(str(error), controller.name, str(request), self.loop.now)

    # Errors

    def add_error(self, error: BaseException) -> None:
        """Record an error of the operator."""
        info = current_reconcile.get()
        self.errors.append(
            OperatorError(
                f"{type(error).__name__}: {error}",
                info.controller if info is not None else "",
                str(info.request) if info is not None else "",
                self.loop.now,
            )
        )

    def _reached_limit(self, error: Exception) -> None:
        self.limit = error
        self._limit_reached.set()

    def _process_exited(self, process: ProcessState, error: SystemExit) -> None:
        assert isinstance(process, OperatorProcess)
        self.loop.kill(process)
        self.cluster.process_ended(process, error)

    def _process_failed(self, process: OperatorProcess, error: BaseException) -> None:
        message = f"the process ended: {type(error).__name__}: {error}"
        self.errors.append(OperatorError(message, time=self.loop.now))

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and PROCESS.get() is not None:
            self.add_error(error)
