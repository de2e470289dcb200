"""`Scheduler`: a component of a manager that schedules the pods of a cluster.

Informers fill a `SchedulerCore`; pods are scheduled one after another, and bound concurrently. Conditions
and events are written in the background, and only if they change something.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from kubewright.api.core.v1 import Node, Pod, PodCondition
from kubewright.api.errors import APIError, Conflict, NotFound
from kubewright.api.meta import MetaObject
from kubewright.api.objects import Struct
from kubewright.api.values.times import Time
from kubewright.background import run_forever
from kubewright.cache.informers.informer import Informer
from kubewright.cache.stores.store import CacheEntry, ObjectChange
from kubewright.client import Client
from kubewright.client.errors import ConnectionFailed, NoKindMatch
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.manager import EventRecorder
from kubewright.runnable import BaseRunnable

from .core import SchedulerCore
from .extender import Extender
from .framework.cluster_events import Action, ClusterEvent
from .framework.listers import InformerLister
from .framework.profile import Profile
from .metrics import scheduler_metrics
from .pod_status import patch_status
from .state.pod_info import PodInfo

logger = logging.getLogger(__name__)

STOP_TIMEOUT = 2.0
"""Seconds that bindings have to finish when the scheduler stops; those that wait for volumes do not."""


class _Meta(Struct):
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    deletion_timestamp: Time | None = None


class _Phase(Struct):
    phase: str = ""
    resize: str | None = None


class _PodHeader(Struct):
    """What decides whether an update of a running pod matters for scheduling."""

    metadata: _Meta
    status: _Phase = msgspec.field(default_factory=_Phase)


class APIReporter:
    """Writes conditions and events of one profile."""

    def __init__(self, name: str, client: Client, recorder: EventRecorder) -> None:
        self._name = name
        self._client = client
        self._recorder = recorder
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def record_event(
        self, pod: Pod, type: Any, reason: str, action: str, message: str, related: Pod | None
    ) -> None:
        """Record an event."""
        self._recorder.event(pod, type, reason, message, action=action, related=related)

    def update_status(self, pod: Pod, condition: PodCondition, nominated_node: str | None) -> None:
        """Write in the background; writes for the same pod keep their order."""
        uid = pod.metadata.uid or ""
        previous = self._tasks.get(uid)
        task = asyncio.get_running_loop().create_task(self._write(previous, pod, condition, nominated_node))
        self._tasks[uid] = task
        task.add_done_callback(lambda done: self._forget(uid, done))

    def _forget(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(uid) is task:
            del self._tasks[uid]

    async def _write(
        self,
        previous: asyncio.Task[None] | None,
        pod: Pod,
        condition: PodCondition,
        nominated_node: str | None,
    ) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        try:
            await patch_status(self._client, pod, condition=condition, nominated_node=nominated_node)
        except (NotFound, Conflict):
            return  # deleted, or created again with the same name
        except (APIError, ConnectionFailed, OSError) as error:
            logger.warning(
                "could not update pod status",
                extra={
                    "namespace": pod.metadata.namespace,
                    "pod": pod.metadata.name,
                    "error": str(error),
                },
            )

    @property
    def is_idle(self) -> bool:
        """Whether no write has started that has not ended."""
        return not self._tasks

    async def wait(self) -> None:
        """Wait for the writes that have started."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))


class Scheduler(BaseRunnable):
    """Schedules pods whose `spec.schedulerName` is that of a profile. A runnable of the manager.

    Permissions: `list` and `watch` of pods, nodes and the kinds of the plug-ins; `create` of `pods/binding`;
    `patch` of `pods/status`; those of the plug-ins; `create` and `patch` of events.
    """

    def __init__(
        self,
        manager: ManagerProtocol,
        profiles: Sequence[Profile] = (Profile(),),
        *,
        extenders: Sequence[Extender] = (),
        rng: random.Random | None = None,
        percentage_of_nodes_to_score: int = 0,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        unschedulable_timeout: float = 300.0,
    ) -> None:
        """`rng` breaks ties between nodes with the same score; pass a seeded one for repeatable results."""
        self.name = ",".join(profile.scheduler_name for profile in profiles)
        self._manager = manager
        self._client = manager.client
        self._lister = InformerLister(manager.cache)
        self._reporters: list[APIReporter] = []
        self.core = SchedulerCore(
            profiles,
            lister=self._lister,
            client=self._client,
            reporter=self._reporter,
            metrics=scheduler_metrics,
            extenders=extenders,
            clock=_loop_time,
            rng=rng,
            percentage_of_nodes_to_score=percentage_of_nodes_to_score,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            unschedulable_timeout=unschedulable_timeout,
        )
        self._handlers: list[tuple[Informer, Callable[[ObjectChange], None]]] = []
        self._bindings: set[asyncio.Task[bool]] = set()

    def _reporter(self, scheduler_name: str) -> APIReporter:
        client = getattr(self._client, "uncached", self._client)
        recorder = EventRecorder(client, scheduler_name, clock=lambda: asyncio.get_running_loop().time())
        self._manager.add(recorder)
        reporter = APIReporter(scheduler_name, self._client, recorder)
        self._reporters.append(reporter)
        return reporter

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule pods until `stop` is set."""
        await self._start_informers()
        logger.info("started scheduler", extra={"schedulers": self.name})
        scheduling = run_forever(self._schedule, name=f"scheduler {self.name}")
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([scheduling, stopping], return_when=asyncio.FIRST_COMPLETED)
            if scheduling.done():
                scheduling.result()
        finally:
            scheduling.cancel()
            stopping.cancel()
            for informer, handler in self._handlers:
                informer.remove_handler(handler)
            self._handlers.clear()
            await self.core.aclose()
            if self._bindings:
                _, left = await asyncio.wait(self._bindings, timeout=STOP_TIMEOUT)
                for binding in left:
                    binding.cancel()
                await asyncio.gather(*left, return_exceptions=True)
            for reporter in self._reporters:
                await reporter.wait()

    @property
    def is_idle(self) -> bool:
        """Whether no pod waits for its scheduling cycle, its binding or a write of its status."""
        return (
            not self.core.queue.pods("active")
            and not self._bindings
            and all(each.is_idle for each in self._reporters)
        )

    async def _schedule(self) -> None:
        core = self.core
        while True:
            placement = await core.schedule_next()
            if placement is not None:
                self._run(core.bind(placement))
            # A cycle does not await anything; let bindings and informers run in between.
            await asyncio.sleep(0)

    def _run(self, work: Coroutine[Any, Any, bool]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)

    # Informers

    async def _start_informers(self) -> None:
        cache = self._manager.cache
        kinds: dict[type[MetaObject], None] = {}
        for framework in self.core.frameworks.values():
            for plugin in framework.plugins.values():
                kinds.update(dict.fromkeys(plugin.kinds))
        for kind in kinds:
            if kind in (Pod, Node):
                continue
            try:
                informer = await cache.informer(kind)
            except (NoKindMatch, NotFound):
                logger.info("kind is not served", extra={"kind": kind.gvk.kind if kind.gvk else kind})
                continue
            self._lister.add(kind, informer)
            self._add_handler(informer, self._other_handler(kind))
        nodes, pods = await cache.informer(Node), await cache.informer(Pod)
        self._lister.add(Node, nodes)
        self._lister.add(Pod, pods)
        await asyncio.gather(*(informer.wait_for_sync() for informer, _ in self._handlers))
        await asyncio.gather(nodes.wait_for_sync(), pods.wait_for_sync())
        self._add_handler(nodes, self._on_node)
        self._add_handler(pods, self._on_pod)

    def _add_handler(self, informer: Informer, handler: Callable[[ObjectChange], None]) -> None:
        informer.add_handler(handler, resync=0)
        self._handlers.append((informer, handler))

    def _other_handler(self, kind: type[MetaObject]) -> Callable[[ObjectChange], None]:
        name = kind.gvk.kind if kind.gvk else kind.__name__
        is_relevant = self.core.reacts_to(name)

        def handle(change: ObjectChange) -> None:
            if change.new is None:
                self._lister.forget(kind, change.key)
            if not is_relevant:
                return
            old = change.old.decode(kind) if change.old is not None else None
            new = change.new.decode(kind) if change.new is not None else None
            action = Action.DELETE if new is None else Action.ADD if old is None else Action.UPDATE
            self.core.notify(ClusterEvent(name, action), old, new)

        return handle

    def _on_node(self, change: ObjectChange) -> None:
        if change.new is None:
            self.core.remove_node(change.key.name)
        else:
            self.core.set_node(change.new.decode(Node))

    def _on_pod(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self.core.remove_pod(old.decode(Pod))
            return
        if old is not None and old.uid != new.uid:
            self.core.remove_pod(old.decode(Pod))
        known = self.core.cache.pod(new.uid)
        if known is not None and not self.core.cache.is_assumed(new.uid) and _is_same(known, new):
            # Only the status has changed, and it is not decoded before it is needed.
            known.load_with(lambda: new.decode(Pod))
            return
        self.core.set_pod(new.decode(Pod))
        assigned = self.core.cache.pod(new.uid)
        if assigned is not None and not self.core.cache.is_assumed(new.uid):
            assigned.load_with(lambda: new.decode(Pod))


def _is_same(pod: PodInfo, entry: CacheEntry) -> bool:
    """Whether a pod on a node has changed in its status only."""
    if not pod.generation:
        return False
    header = entry.decode(_PodHeader)
    meta, status = header.metadata, header.status
    return (
        meta.generation == pod.generation
        and (meta.labels or {}) == pod.labels
        and (meta.deletion_timestamp is not None) == pod.terminating
        and status.phase not in ("Succeeded", "Failed")
        and status.resize is None
    )


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def add_scheduler(
    manager: ManagerProtocol, profiles: Sequence[Profile] = (Profile(),), **options: Any
) -> Scheduler:
    """Add a scheduler to a manager; `options` are the keyword arguments of `Scheduler`."""
    scheduler = Scheduler(manager, profiles, **options)
    manager.add(scheduler)
    return scheduler
