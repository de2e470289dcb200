"""`SimulatedCluster`: a control plane, the processes of an operator and a scenario in one event loop.

The control plane is the embedded one, with storage in memory, its controllers (garbage collector, namespaces,
service accounts, ...) and, if the scenario asks for them, the controllers of workloads and simulated nodes.
CRDs and webhooks of the operator are installed before the scenario starts, as its manifests would; the
processes of the operator run as in production.

The cluster records the trace and the states, and does what faults ask for: it kills, pauses, disconnects and
restarts processes.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kubewright.api.declaring.declarations import Rbac
from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.in_process import ADMINISTRATOR
from kubewright.apiserver.watch.cache import WatchCache
from kubewright.apiserver.watch.event import WatchCacheEvent
from kubewright.client import Client
from kubewright.client.errors import ConnectionFailed
from kubewright.controlplane import ControlPlane
from kubewright.explore.faults import Fault
from kubewright.explore.runs.trace import Trace, TraceEvent
from kubewright.explore.scenarios.steps import FIELD_MANAGER
from kubewright.explore.state import RequestRecord, StateRecorder, describe_change, is_ignored
from kubewright.manager import Operator
from kubewright.manager.operators.installation import install_definitions, install_webhooks
from kubewright.manager.operators.operator_webhooks import build_webhook_server, has_webhooks
from kubewright.storage.memory import MemoryStorage
from kubewright.workloads.controllers import PROGRAMS, component_names

from .applications import Applications
from .determinism import Randomness
from .external import ExternalSystems
from .local_webhooks import URL, LocalWebhooks
from .loop import VirtualLoop
from .processes import OperatorProcess
from .transport import ScenarioTransport

if TYPE_CHECKING:
    from kubewright.explore.scenarios.scenarios import Scenario
    from kubewright.explore.state import ClusterState
    from kubewright.manager import Manager

    from .factories import OperatorFactory
    from .programs import ExploredProgram

MAX_RESTARTS = 8
"""Restarts after which a process that keeps ending is not restarted any more."""
MAINTENANCE_INTERVAL = 3600.0
"""Virtual seconds between compactions of the store; a shorter interval would only cost time."""
BOOKMARK_INTERVAL = 3600.0
"""Virtual seconds between bookmarks; each watch also gets one shortly before it ends."""
HOT_LOOP_WRITES = 250
"""Writes of the same object after which a run ends, if there were more than `HOT_LOOP_RATE` per second."""
HOT_LOOP_RATE = 10.0
MAX_RANDOM_LATENCY = 0.02
"""Maximum latency of requests and deliveries with a seed other than 0, in virtual seconds."""


class RunLimit(Exception):
    """The operator sent far more requests than in the reference run."""


class SimulatedCluster:
    """Everything that one run consists of."""

    LATENCY = 0.001
    """Virtual seconds that a request of the operator takes."""
    operator_user: User = ADMINISTRATOR
    """The identity of the operator."""
    has_failure_events = False
    """Whether the operator records an Event for a reconcile that fails."""
    allows_data_loss = False
    """Whether CRDs are installed whose schema removes fields of stored objects."""

    def __init__(
        self,
        loop: VirtualLoop,
        randomness: Randomness,
        factory: OperatorFactory,
        scenario: Scenario,
        *,
        replicas: int = 1,
        old_factory: OperatorFactory | None = None,
    ) -> None:
        """`old_factory` creates the operators of the processes until `upgrade`."""
        self.loop = loop
        self.scenario = scenario
        self.replicas = replicas
        self.factory = factory
        self.old_factory = old_factory
        self.randomness = randomness
        self._latencies: random.Random | None = randomness.stream("latency") if randomness.seed else None
        self.trace = Trace()
        self.requests: list[RequestRecord] = []
        self.recorder: StateRecorder
        self.plan: Mapping[str, Fault] = {}
        self.on_point: Callable[[TraceEvent], None] | None = None
        """Called at each point before its fault is looked up."""
        self.changed_resources: dict[str, int] = {}
        """Revision of the last change of each resource since the start of the scenario."""
        self.on_change: Callable[[], None] | None = None
        """Called after each change of the store that is part of the state."""
        self.on_limit: Callable[[Exception], None] = _raise
        """Called with the error when the operator exceeds a limit; ends the run."""
        self.on_manager: Callable[[Manager], None] | None = None
        """Called with the manager of each process before it starts."""
        self.on_process_error: Callable[[OperatorProcess, BaseException], None] | None = None
        self.processes: list[OperatorProcess] = []
        """Processes that have been started and not ended, one per replica."""
        self.all_processes: list[OperatorProcess] = []
        """Every process of the run."""
        self.external = ExternalSystems(self)
        self.applications = Applications(self, scenario.applications)
        self.revision = 0
        """Revision of the last change that was dispatched."""
        self.changed_at = 0.0
        """Virtual time of the last change of the state."""
        self.injected: list[Fault] = []
        """Faults whose point was reached."""
        self.state_at_fault: ClusterState | None = None
        """The state before the first fault."""
        self.max_requests = 0
        """Limit of the requests of the operator; 0 means without a limit."""
        self.page_size = 0
        """Objects in a page of a list with a limit, if it is smaller; 0 means the limit."""
        self.reverses_initial_state = False
        """Whether watches that begin with the existing objects send them in reverse order."""
        self._request_count = 0
        self._same_writes: dict[str, tuple[int, float]] = {}
        """Number of equal write requests, and the time of the first, by their text."""
        self._starts: dict[int, int] = {}
        self._recording = False
        self.is_closing = False
        """Whether the run has ended and processes are not restarted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.webhooks = LocalWebhooks()
        self.plane: ControlPlane
        self.client: Client

    # Start

    async def start(self) -> None:
        """Start the control plane, install the CRDs and webhooks and create the objects of the setup."""
        operator = (self.old_factory or self.factory)()
        await self.start_plane(operator)
        await self.install(operator)
        for each in self.scenario.setup:
            made: Any = Unstructured(dict(each)) if isinstance(each, Mapping) else each
            await self.client.apply(made, force=True, field_manager="setup")
        await self.plane.wait_until_idle()
        await asyncio.sleep(1.0)
        self.start_recording()

    async def start_plane(self, operator: Operator | ExploredProgram, **options: Any) -> None:
        """Start the control plane, with options in addition to those of every run."""
        storage = MemoryStorage()
        storage.maintenance_interval = MAINTENANCE_INTERVAL
        settings: dict[str, Any] = {
            "port": None,
            "auth": "always-allow",
            "store": storage,
            "rng": self.randomness.stream("server"),
            "server_options": {"bookmark_interval": BOOKMARK_INTERVAL},
            "webhook_client": self.webhooks,
            "feature_gates": {"APIServerIdentity": False},  # renewals of the lease would only cost time
            "nodes": self.scenario.nodes or (1 if self.scenario.controllers else 0),
            "disable_controllers": self._disabled_controllers(operator),
        }
        self.plane = plane = ControlPlane(**(settings | options))
        self.prepare_storage(storage)
        await plane.start()
        if plane.workloads is not None and plane.workloads.registration is not None:
            await plane.workloads.start_nodes()
        self.client = Client.from_transport(ScenarioTransport(plane.server, self)).with_field_manager(
            FIELD_MANAGER
        )
        plane.server.dispatcher.listeners.append(self)
        self.recorder = StateRecorder(requests=self.requests, declared=_declared_rules(operator))
        await self.recorder.read(storage, plane.server.prefix)

    def prepare_storage(self, storage: MemoryStorage) -> None:
        """Write what exists before the control plane starts: nothing."""

    def start_recording(self) -> None:
        """Record what happens from now on; existing objects are not part of the state."""
        self.requests.clear()
        self.trace = Trace()
        self._recording = True
        self.recorder.start()

    def _disabled_controllers(self, operator: Operator | ExploredProgram) -> frozenset[str]:
        """Return the controllers that the control plane does not run, or the program runs instead."""
        disabled = frozenset() if self.scenario.controllers else component_names() - PROGRAMS
        return disabled if isinstance(operator, Operator) else disabled | operator.controllers

    async def install(self, operator: Operator | ExploredProgram) -> None:
        """Install the CRDs and webhooks of an operator."""
        if not isinstance(operator, Operator):
            return
        client = self.client.with_field_manager(operator.name)
        bundle = self.plane.authority.certificate
        await install_definitions(
            client,
            operator.kinds,
            conversion_url=URL,
            ca_bundle=bundle,
            adopt=True,
            allow_data_loss=self.allows_data_loss,
        )
        if has_webhooks(operator):
            operator.settings.development = True
            self.webhooks.server = build_webhook_server(operator, client)
            await install_webhooks(client, operator.name, operator.webhooks(), url=URL, ca_bundle=bundle)

    # Processes

    def start_processes(self) -> None:
        """Start all replicas of the operator."""
        for replica in range(1, self.replicas + 1):
            self.start_process(replica)

    def start_process(self, replica: int) -> OperatorProcess:
        """Start a process of a replica."""
        start = self._starts[replica] = self._starts.get(replica, 0) + 1
        operator = (self.old_factory or self.factory)()
        process = OperatorProcess(self, operator, replica=replica, start=start)
        self.processes.append(process)
        self.all_processes.append(process)
        process.run(self.record("start", process.name, f"start {operator.name}"))
        return process

    def crash(
        self,
        process: OperatorProcess,
        *,
        lag: float = 0.0,
        lag_revision: int = 0,
        before_restart: Callable[[], Any] | None = None,
    ) -> None:
        """Kill a process and restart it later; with `lag`, the API server of the new process lags."""
        self._kill(process)

        def restarted(new: OperatorProcess) -> None:
            new.skew = process.skew
            if lag:
                new.lagging_until = self.loop.now + lag
                new.lagging_revision = lag_revision

        self._restart(process.replica, restarted, before_restart)

    def restart(self, process: OperatorProcess) -> None:
        """Kill a process and start its replica again immediately."""
        self._kill(process)
        self.start_process(process.replica)

    def _kill(self, process: OperatorProcess) -> None:
        self.record("crash", process.name, "killed")
        self.loop.kill(process)
        self._disconnect_streams(process)
        self._remove(process)

    def upgrade(self, process: OperatorProcess) -> None:
        """Kill a process of the old version, install the new CRDs and start the new version."""

        async def install() -> None:
            self.old_factory = None
            await self.install(self.factory())

        self.crash(process, before_restart=install)

    def pause(self, process: OperatorProcess, seconds: float) -> None:
        """Stop a process and continue it later."""
        self.loop.pause(process)
        contextvars.Context().run(self.loop.call_later, seconds, self._resume, process)

    def _resume(self, process: OperatorProcess) -> None:
        if process.paused:
            self.record("log", process.name, "continued")
            self.loop.resume(process)

    def disconnect(self, process: OperatorProcess, seconds: float) -> None:
        """Make the API server unreachable for a process for some time."""
        process.unreachable_until = self.loop.now + seconds
        for stream in list(process.streams):
            stream.fail(ConnectionFailed("connection reset by peer"))

    def process_ended(self, process: OperatorProcess, error: BaseException | None) -> None:
        """Restart a process that ended by itself."""
        self.record("stop", process.name, "ended" if error is None else f"failed: {type(error).__name__}")
        process.dead = True
        self._disconnect_streams(process)
        self._remove(process)
        if error is not None and self.on_process_error is not None:
            self.on_process_error(process, error)
        if not process.stop.is_set() and not self.is_closing:
            self._restart(process.replica, lambda new: None, None)

    def _restart(
        self,
        replica: int,
        restarted: Callable[[OperatorProcess], None],
        before: Callable[[], Any] | None,
    ) -> None:
        starts = self._starts[replica]
        if starts > MAX_RESTARTS:
            return
        delay = 1.0 if starts == 1 else min(10.0 * 2 ** (starts - 2), 300.0)

        async def restart() -> None:
            if before is not None:
                await before()
            await asyncio.sleep(delay)
            restarted(self.start_process(replica))

        task = self.loop.create_task(restart(), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _disconnect_streams(self, process: OperatorProcess) -> None:
        for stream in list(process.streams):
            stream.close()

    def _remove(self, process: OperatorProcess) -> None:
        if process in self.processes:
            self.processes.remove(process)

    async def stop_processes(self) -> None:
        """Stop all processes, without waiting for them."""
        for process in list(self.processes):
            self.loop.kill(process)
            self._disconnect_streams(process)
        self.processes.clear()

    # Points

    def record(
        self, kind: str, process: str, text: str, *, revision: int = 0, body: bytes = b""
    ) -> TraceEvent:
        """Append an event to the trace; events of the kinds in `POINT_KINDS` are points."""
        trace, loop = self.trace, self.loop
        event = TraceEvent(
            len(trace.events),
            loop.now,
            loop.step,
            loop.timers,
            process,
            kind,
            text,
            revision=revision,
            store_revision=self.revision,
            body=body,
        )
        if kind == "fault" and self.state_at_fault is None:
            self.state_at_fault = self.recorder.snapshot(time=loop.now)
        trace.append(event)
        return event

    def fault_at(self, event: TraceEvent) -> Fault | None:
        """Return the fault that is planned for a point, and record it."""
        if not event.point:
            return None
        if self.on_point is not None:
            self.on_point(event)
        if not self.plan:
            return None
        fault = self.plan.get(event.point) or self.plan.get(event.place)
        if fault is not None:
            self.injected.append(fault)
            self.record("fault", event.process, str(fault))
        return fault

    def latency(self) -> float:
        """Return the latency of a request or delivery; 0 with seed 0."""
        return 0.0 if self._latencies is None else self._latencies.uniform(0.0, MAX_RANDOM_LATENCY)

    def count_request(self, kind: str, text: str = "") -> None:
        """Count a request of the operator; raise `RunLimit` in the main task if there are too many."""
        if kind in ("lease", "event"):
            return
        self._request_count += 1
        if kind == "write":
            count, since = self._same_writes.get(text, (0, self.loop.now))
            self._same_writes[text] = (count + 1, since)
            if count + 1 == HOT_LOOP_WRITES and self.loop.now - since < HOT_LOOP_WRITES / HOT_LOOP_RATE:
                self.on_limit(
                    RunLimit(f"hot loop: {count + 1} times in {self.loop.now - since:.1f} s: {text}")
                )
        if self.max_requests and self._request_count == self.max_requests:
            self.on_limit(RunLimit(f"the operator sent more than {self.max_requests} requests"))

    @property
    def step(self) -> int:
        """Number of task switches so far."""
        return self.loop.step

    @property
    def request_count(self) -> int:
        """Number of requests of the operator."""
        return self._request_count

    # Event listener of the dispatcher

    def on_resource_added(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_watch_lost(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_watch_restarted(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Record a change of the store."""
        change = event.event
        self.revision = change.revision
        self.recorder.record(change)
        if not self._recording or is_ignored(change.key):
            return
        self.changed_at = self.loop.now
        recorded = self.record("change", "", describe_change(change), revision=change.revision)
        recorded.resource = str(cache.resource)
        self.changed_resources[recorded.resource] = change.revision
        if self.on_change is not None:
            self.on_change()


def _raise(error: Exception) -> None:
    raise error


def _declared_rules(operator: Operator | ExploredProgram) -> list[Rbac]:
    if not isinstance(operator, Operator):
        return []
    return [each for each in operator.declarations() if isinstance(each, Rbac)]
