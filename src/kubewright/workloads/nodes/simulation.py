"""`SimulatedNodes`: the kubelets of all simulated nodes, as one component of a manager.

    manager.add(SimulatedNodes(manager, 3))

It registers the nodes, sends their heartbeats, and runs the pods that are bound to them. All nodes share one
watch of pods, one queue of status writes and one local port for logs, exec and port-forward. Node objects
with the annotation `kwok.x-k8s.io/node: fake` are simulated as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import decode, decoder
from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Preconditions
from kubewright.api.objects import Struct
from kubewright.cache import Informer
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client import patches
from kubewright.client.errors import ConnectionFailed
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.runnable import BaseRunnable
from kubewright.workloads.pod_metrics import MetricsSource, SimulatedMetrics

from .containers.printed_environments import PrintedEnvironments
from .containers.runtime import ContainerRuntime, PodIdentity, SimulatedRuntime
from .kubelet_events import KubeletEvent, KubeletEvents
from .objects import CLAIM, NODE, POD, Object
from .pods.behaviour import BehaviourResolver
from .pods.pod_control import PodControl
from .pods.pod_worker import PodWorker
from .pods.worker_schedule import WorkerSchedule
from .registration.node_object import MANAGED_BY_KWOK
from .registration.node_registration import NodeRegistration
from .registration.node_spec import NodeSpec, load_nodes, load_settings
from .registration.node_state import NodeState
from .settings import SimulationSettings
from .stages.engine import StageEngine

if TYPE_CHECKING:
    from .kubelet_api.server import KubeletServer
    from .plugins.node_plugins import NodePlugins

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_BURST_GAP: Final = 1.0
"""Seconds without a status write after which a burst of writes has ended."""
_LONG_BURST: Final = 50
"""Status writes in a burst after which events wait for its end."""
_SHORT_DELAY: Final = 0.1
"""Seconds to the start of a pod below which its pending status is not written during a burst."""
_ERRORS: Final = (APIError, ConnectionFailed, OSError, TimeoutError)


class _Metadata(Struct):
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] | None = None


class _Gate(Struct):
    condition_type: str = ""


class _Spec(Struct):
    node_name: str = ""
    readiness_gates: list[_Gate] | None = None


class _PodView(Struct):
    """The parts of a pod that decide whether its worker has to be updated."""

    metadata: _Metadata
    spec: _Spec


_decode_view = decoder(_PodView).decode


class SimulatedNodes(BaseRunnable):
    """The simulated nodes of a cluster. A runnable of a manager."""

    name = "nodes"

    def __init__(
        self,
        manager: ManagerProtocol,
        nodes: int | str | Path | Iterable[NodeSpec | Object] = 1,
        *,
        settings: SimulationSettings | None = None,
        runtime: ContainerRuntime | None = None,
        rng: random.Random | None = None,
        registration: NodeRegistration | None = None,
        metrics: MetricsSource | None = None,
        plugins: NodePlugins | None = None,
    ) -> None:
        """`nodes` is a number, a YAML file or a list of nodes (see `node_spec`).

        A `registration` has its own nodes and settings, and is started and stopped by the caller. `metrics`
        has the usage of containers, simulated unless given. `plugins` has device plug-ins and CSI drivers.
        """
        self.client = manager.client
        self._owns_registration = registration is None
        if registration is None:
            settings = settings if settings is not None else load_settings(nodes)
            registration = NodeRegistration(self.client, load_nodes(nodes), settings=settings)
        self.registration = registration
        self.metrics: MetricsSource = metrics if metrics is not None else SimulatedMetrics()
        self.settings = registration.settings
        self.clock = registration.clock
        self.plugins = plugins
        """Device plug-ins and CSI drivers of the nodes, if they are enabled."""
        self.rng = rng if rng is not None else random.Random()  # noqa: S311
        self.resolver = BehaviourResolver(self.settings)
        self.nodes = registration.nodes
        """The simulated nodes by name."""
        self.workers: dict[ObjectKey, PodWorker] = {}
        """The pods on simulated nodes."""
        self.runtime: ContainerRuntime = (
            runtime
            if runtime is not None
            else SimulatedRuntime(self.clock, PrintedEnvironments(registration.client, self.workers))
        )
        self.events = KubeletEvents(self.client, self.clock, self.settings)
        self.events.is_deferred = self._is_busy
        self.pods = PodControl(self)
        """Steers pods: crash, complete, readiness, logs, exec."""
        self._manager = manager
        self._expected = {spec.name for spec in registration.specs}
        self._pod_informer: Informer | None = None
        self._schedule = WorkerSchedule(self.clock, self._advance)
        self._writes: asyncio.Queue[PodWorker] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._burst = 0
        self._last_write = 0.0
        self._suspended: set[ObjectKey] = set()
        """Pods that a Stage matches."""
        self._deletions: dict[str, asyncio.Event] = {}
        self._started = asyncio.Event()
        self._server: KubeletServer | None = None

    # Lifecycle

    async def run(self, stop: asyncio.Event) -> None:
        """Register the nodes and run their pods until `stop` is set."""
        async with contextlib.AsyncExitStack() as stack:
            if self._owns_registration:
                await self.registration.start()
                stack.push_async_callback(self.registration.stop)
            if self.registration.listener is not None:
                self.registration.listener.serve_with(self._serve)
                stack.push_async_callback(self._stop_serving)
            node_informer = await self._manager.cache.informer(NODE)
            self._pod_informer = pod_informer = await self._manager.cache.informer(POD)
            await node_informer.wait_for_sync()
            await pod_informer.wait_for_sync()
            self._schedule.start()
            stack.push_async_callback(self.runtime.close)
            stack.callback(self._stop_timers)
            node_informer.add_handler(self._on_node, resync=0)
            stack.callback(node_informer.remove_handler, self._on_node)
            if self.plugins is not None:
                claim_informer = await self._manager.cache.informer(CLAIM)
                claim_informer.add_handler(self._on_claim, resync=0)
                stack.callback(claim_informer.remove_handler, self._on_claim)
            stages = StageEngine(self)
            await stages.prepare()
            pod_informer.add_handler(self._on_pod, resync=0)
            stack.callback(pod_informer.remove_handler, self._on_pod)
            for task in [self._write_statuses() for _ in range(self.settings.writers)]:
                self._spawn(task)
            self._spawn(self.events.run())
            self._spawn(stages.run())
            stack.push_async_callback(self._cancel_tasks)
            logger.info("started simulated nodes", extra={"nodes": len(self.nodes)})
            self._started.set()
            await stop.wait()

    async def wait_until_registered(self) -> None:
        """Wait until the declared nodes are registered and pods are watched."""
        await self._started.wait()

    @property
    def is_idle(self) -> bool:
        """Whether no status or event has to be written, and no pod starts or changes within a second."""
        soon = self.clock.time() + 1.0
        return (
            self._started.is_set()
            and self._schedule.is_idle_until(soon)
            and not any(worker.writing for worker in self.workers.values())
            and self.events.is_idle
        )

    async def _serve(self, listening: socket.socket) -> None:
        from .kubelet_api.server import KubeletServer

        self._server = KubeletServer(self, self.registration.client)
        await self._server.serve(listening)

    async def _stop_serving(self) -> None:
        if self._server is not None:
            await self._server.stop()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task of the simulated nodes failed", exc_info=error)

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop_timers(self) -> None:
        self._schedule.stop()
        for worker in self.workers.values():
            for container in worker.containers:
                if container.run is not None and container.run.timer is not None:
                    container.run.timer.cancel()

    # Nodes

    def _on_node(self, change: ObjectChange) -> None:
        name = change.key.name
        if change.new is None:
            self.registration.forget(name)
            return
        node: Object = decode(change.new.raw, dict)
        known = self.nodes.get(name)
        if known is not None:
            known.update(node)
            return
        annotations = (node.get("metadata") or {}).get("annotations") or {}
        if name not in self._expected and annotations.get(MANAGED_BY_KWOK) != "fake":
            return
        self.nodes[name] = NodeState(name, node)
        self._spawn(self._initialize(name, node))

    async def _initialize(self, name: str, node: Object) -> None:
        """Set the status of a node that a user has created, and run its pods."""
        while name in self.nodes:
            try:
                await self.registration.initialize(name, node)
                break
            except NotFound:
                return
            except _ERRORS as error:
                logger.warning("could not initialize node", extra={"node": name, "error": str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
        if self._pod_informer is not None:
            for key, entry in list(self._pod_informer.store.entries()):
                self._on_pod(ObjectChange(key, None, entry, initial=True))

    def fail(self, node: str) -> None:
        """Stop the kubelet of a node: no heartbeats, and its pods do not change until `recover`."""
        self._node(node).failed = True

    async def recover(self, node: str) -> None:
        """Start the kubelet of a node again; it writes the status of the node and of all its pods."""
        state = self._node(node)
        state.failed = False
        await self.registration.renew_lease(state)
        await self.registration.write_status(state)
        for worker in list(self.workers.values()):
            if worker.node is state:
                worker.dirty = worker.dirty or worker.stage != "new"
                self.wake(worker)

    async def set_pressure(self, node: str, *conditions: str) -> None:
        """Set which of MemoryPressure, DiskPressure and PIDPressure are true."""
        state = self._node(node)
        state.pressure = frozenset(conditions)
        await self.registration.write_status(state)

    async def cordon(self, node: str, *, unschedulable: bool = True) -> None:
        """Mark a node as unschedulable, as `kubectl cordon` does."""
        await self.client.patch(
            NODE, node, patches.merge_patch({"spec": {"unschedulable": unschedulable or None}})
        )

    async def drain(self, node: str) -> None:
        """Cordon a node and evict its pods, as `kubectl drain` does; waits for disruption budgets."""
        from .registration.drain import drain

        await self.cordon(node)
        await drain(self, self._node(node))

    def _node(self, name: str) -> NodeState:
        state = self.nodes.get(name)
        if state is None:
            raise KeyError(
                f"node {name!r} is not simulated; simulated nodes: {', '.join(sorted(self.nodes))}"
            )
        return state

    # Pods

    def _on_pod(self, change: ObjectChange) -> None:
        key, entry = change.key, change.new
        worker = self.workers.get(key)
        if entry is None or (worker is not None and worker.identity.uid != entry.uid):
            if worker is not None:
                del self.workers[key]
                worker.discard()
                if deleted := self._deletions.pop(worker.identity.uid, None):
                    deleted.set()
            if entry is None:
                return
            worker = None
        view = _decode_view(entry.raw)
        node = self.nodes.get(view.spec.node_name)
        if node is None:
            return
        metadata = view.metadata
        signature = (
            metadata.generation,
            metadata.deletion_timestamp,
            metadata.deletion_grace_period_seconds,
            hash(frozenset((metadata.annotations or {}).items())),
            entry.revision if view.spec.readiness_gates else 0,
        )
        if worker is not None and worker.signature == signature:
            return
        pod: Object = decode(entry.raw, dict)
        if worker is None:
            worker = self.workers[key] = PodWorker(self, node, pod, entry.raw)
        else:
            worker.update(pod, entry.raw)
            if view.spec.readiness_gates and worker.stage == "running":
                worker.dirty = worker.needs_write()
        worker.signature = signature
        self.wake(worker)

    def _on_claim(self, change: ObjectChange) -> None:
        """Expand the file systems of mounted volumes."""
        if (
            self.plugins is not None
            and change.new is not None
            and b"FileSystemResizePending" in change.new.raw
        ):
            self.plugins.expand(decode(change.new.raw, dict), self._report)

    def _report(self, uid: str, kind: str, reason: str, message: str) -> None:
        for worker in self.workers.values():
            if worker.identity.uid == uid:
                self.event(worker, kind, reason, message)

    # Stages

    async def informer(self, kind: GroupVersionKind) -> Informer:
        """Return the informer of a kind."""
        return await self._manager.cache.informer(kind)

    def suspend(self, key: ObjectKey) -> None:
        """Stop the built-in behaviour of a pod, because a Stage matches it."""
        self._suspended.add(key)
        worker = self.workers.get(key)
        if worker is not None:
            worker.dirty = False

    def resume(self, key: ObjectKey) -> None:
        """Continue the built-in behaviour of a pod from its current status."""
        self._suspended.discard(key)
        entry = self._pod_informer.store.get(key) if self._pod_informer is not None else None
        worker = self.workers.pop(key, None)
        if worker is not None:
            worker.discard()
        if entry is not None:
            self._on_pod(ObjectChange(key, None, entry))

    def pod_address(self, key: ObjectKey) -> str:
        """Return the address of a pod; allocate one if it has none."""
        worker = self.workers.get(key)
        return worker.allocate_address() if worker is not None else ""

    # Workers

    async def wait_for_deletion(self, pod: PodIdentity) -> None:
        """Wait until the object of a pod is deleted."""
        worker = self.workers.get(ObjectKey(pod.namespace, pod.name))
        if worker is not None and worker.identity.uid == pod.uid:
            deleted = self._deletions.setdefault(pod.uid, asyncio.Event())
            await deleted.wait()

    def wake(self, worker: PodWorker) -> None:
        """Advance a worker soon."""
        self._schedule.wake(worker)

    def _advance(self, worker: PodWorker, now: float) -> None:
        if worker.node.failed or (self._suspended and worker.key in self._suspended):
            return
        try:
            due = worker.advance(now)
        except Exception:
            logger.exception("could not advance pod", extra={"pod": worker.identity.name})
            return
        self._schedule.set_due(worker, due)
        if self._waits_for_start(worker, now):
            return
        if (worker.dirty or worker.stage == "terminated") and not worker.writing:
            worker.writing = True
            self._writes.put_nowait(worker)
        elif due is None and not worker.dirty:
            worker.compact()

    def _waits_for_start(self, worker: PodWorker, now: float) -> bool:
        """Whether the status of a pod is written after its start only, to halve the writes of a burst."""
        due = worker.due
        return (
            worker.stage == "creating" and due is not None and due - now <= _SHORT_DELAY and self._is_busy()
        )

    # Writes

    async def _write_statuses(self) -> None:
        while True:
            worker = await self._writes.get()
            try:
                await self._write(worker)
            except NotFound:
                pass
            except _ERRORS as error:
                logger.warning(
                    "could not write pod status, retrying",
                    extra={"pod": worker.identity.name, "error": str(error)},
                )
                worker.dirty = True
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.wake, worker)
            finally:
                worker.writing = False

    def _is_busy(self) -> bool:
        """Whether many statuses are being written."""
        return self._burst > _LONG_BURST and self.clock.time() - self._last_write < _BURST_GAP

    def _count_write(self) -> None:
        now = self.clock.time()
        self._burst = self._burst + 1 if now - self._last_write < _BURST_GAP else 1
        self._last_write = now

    async def _write(self, worker: PodWorker) -> None:
        identity = worker.identity
        while worker.dirty and not worker.node.failed and self._runs(worker):
            self._count_write()
            patch = patches.strategic_merge_patch(worker.status_patch())
            await self.client.patch(
                POD, identity.name, patch, namespace=identity.namespace, subresource="status"
            )
        if worker.stage == "terminated" and not worker.node.failed and self._runs(worker):
            await self.client.delete(
                POD,
                identity.name,
                namespace=identity.namespace,
                grace_period=0,
                preconditions=Preconditions(uid=identity.uid),
                missing_ok=True,
            )
        if worker.due is None and not worker.dirty:
            worker.compact()

    def _runs(self, worker: PodWorker) -> bool:
        """Whether a worker decides on the status of its pod."""
        return self.workers.get(worker.key) is worker and worker.key not in self._suspended

    def event(self, worker: PodWorker, kind: str, reason: str, message: str, container: str = "") -> None:
        """Record an event about a pod or one of its containers."""
        identity = worker.identity
        involved = ("v1", "Pod", identity.namespace, identity.name, identity.uid, container)
        self.events.record(KubeletEvent(identity.node, involved, kind, reason, message))
