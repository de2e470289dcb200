"""Identity, owners and health of all objects of a cluster, in memory while the dashboard is used.

The index starts with the first request that needs it: a reflector for every kind that can be listed and
watched, except events. Kinds without a status are read as metadata, so the values of Secrets and ConfigMaps
are never received. When nothing has used the index for some minutes, the reflectors stop and the memory is
released. Above `MAX_OBJECTS` further objects are counted as `truncated` and not stored.

A user who may not list a kind in all namespaces sees the namespace of the kubeconfig; a kind that cannot be
listed there either has an `error`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupKind
from kubewright.api.values.times import monotonic_time, wall_time
from kubewright.background import run_forever
from kubewright.cache.reflectors.list_watch import ListWatch
from kubewright.cache.reflectors.lister_watcher import ObjectEvent
from kubewright.cache.reflectors.reflector import Reflector
from kubewright.client.errors import ConnectionFailed, CredentialsError
from kubewright.client.kind_types import AnyKind, metadata_of

from .object_records import HEALTHS, MESSAGE_LENGTH, Health, KindState, ObjectRecord, read_record
from .readable_namespaces import find_readable_namespace
from .warning_events import WarningEvents

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.discovery.api_resource import APIResource

logger = logging.getLogger(__name__)

MAX_OBJECTS: Final = 200_000
IDLE_SECONDS: Final = 300.0
"""Time without a request after which the index is dropped."""
SYNC_SECONDS: Final = 5.0
"""Time that a request waits for the first complete state."""
_PARALLEL_CHECKS: Final = 8
_DISCOVERY_DELAY: Final = 0.3
_EXCLUDED: Final = frozenset((GroupKind("", "Event"), GroupKind("events.k8s.io", "Event")))
_DEFINITIONS: Final = frozenset(
    (
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
        GroupKind("apiregistration.k8s.io", "APIService"),
    )
)
"""Kinds whose objects add kinds."""

ChangeListener = Callable[[ObjectRecord | None, ObjectRecord | None], None]
"""Called with the old and the new record of an object that is shown differently than before."""


class ObjectIndex:
    """The objects of a cluster by kind and name, by uid and by owner."""

    def __init__(
        self,
        client: Client,
        *,
        max_objects: int = MAX_OBJECTS,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = monotonic_time,
    ) -> None:
        self._client = client
        self._max_objects = max_objects
        self._idle_seconds = idle_seconds
        self._clock = clock
        self.kinds: dict[tuple[str, str], KindState] = {}
        """By group and resource, in the order of discovery."""
        self.by_uid: dict[str, ObjectRecord] = {}
        self.owned: dict[str, dict[str, None]] = {}
        """Uids of objects by uid of an owner."""
        self.by_health: dict[Health, dict[str, ObjectRecord]] = {health: {} for health in HEALTHS[1:]}
        self.troubled: dict[str, ObjectRecord] = {}
        """Objects that report a trouble, by uid."""
        self.truncated = 0
        """Number of objects that were not stored."""
        self.failures: dict[tuple[str, str, str, str], dict[str, str]] = {}
        """Errors that operators raise every time, by controller, by group, kind, namespace and name."""
        self.revision = 0
        """Increased with each change that is shown."""
        self.warnings = WarningEvents(client, self._changed)
        self._listeners: dict[ChangeListener, None] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._checks = asyncio.Semaphore(_PARALLEL_CHECKS)
        self._supervisor: asyncio.Task[None] | None = None
        self._discover_again = asyncio.Event()
        self._progress = asyncio.Event()
        """Set when a kind has synced or failed."""
        self._users = 0
        self._used_at = clock()

    @property
    def is_running(self) -> bool:
        """Whether reflectors run."""
        return self._supervisor is not None

    @property
    def synced(self) -> bool:
        """Whether the state of every kind that can be read has been received."""
        return bool(self.kinds) and all(each.synced or each.error for each in self.kinds.values())

    async def use(self) -> None:
        """Start the index if necessary, and wait a short time for the first complete state."""
        self._used_at = self._clock()
        self._start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                while not self.synced:
                    self._progress.clear()
                    await self._progress.wait()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the index running within a block."""
        self._users += 1
        try:
            self._start()
            yield
        finally:
            self._users -= 1
            self._used_at = self._clock()

    def add_listener(self, listener: ChangeListener) -> None:
        """Call a function for every change that is shown."""
        self._listeners[listener] = None

    def remove_listener(self, listener: ChangeListener) -> None:
        """Stop calling a function."""
        self._listeners.pop(listener, None)

    def find(self, group: str, kind: str, namespace: str, name: str) -> ObjectRecord | None:
        """Return an object of a kind, in any version."""
        for state in self.kinds.values():
            if state.gvk.kind == kind and state.resource.gvr.group == group:
                return state.objects.get((namespace if state.namespaced else "", name))
        return None

    def kind_of(self, group: str, kind: str) -> KindState | None:
        """Return a kind."""
        found = (each for each in self.kinds.values() if each.gvk.kind == kind)
        return next((each for each in found if each.resource.gvr.group == group), None)

    def absence(self, group: str, kind: str, namespace: str) -> str:
        """Return what follows from an object not being in the index: `missing`, `unreadable`, `unknown`."""
        state = self.kind_of(group, kind)
        if state is None or self.truncated:
            return "unknown"
        return state.absence(namespace)

    def set_failure(
        self, controller: str, group: str, kind: str, namespace: str, name: str, error: str
    ) -> None:
        """Store that a controller fails to reconcile an object every time, or with an empty error, not."""
        key = (group, kind, namespace, name)
        errors = self.failures.setdefault(key, {})
        if error:
            errors[controller] = f"{controller}: {error}"
        else:
            errors.pop(controller, None)
        if not errors:
            del self.failures[key]
        record = self.find(group, kind, namespace, name)
        if record is not None:
            changed = record.with_failure(self._failure_of(record))
            if changed.health != record.health:
                changed.changed, changed.changed_exactly = wall_time() * 1000, True
            if not record.is_same(changed):
                self._replace(record, changed)

    def _failure_of(self, record: ObjectRecord) -> str:
        gvk = record.kind.gvk
        key = (record.kind.resource.gvr.group, gvk.kind, record.namespace, record.name)
        return next(iter(self.failures.get(key, {}).values()), "") if self.failures else ""

    def children(self, uid: str) -> Iterable[ObjectRecord]:
        """Return the objects that have an owner."""
        return (self.by_uid[each] for each in self.owned.get(uid, ()) if each in self.by_uid)

    async def stop(self) -> None:
        """Stop the reflectors and drop all objects."""
        supervisor, self._supervisor = self._supervisor, None
        tasks = [*self._tasks.values(), *([supervisor] if supervisor is not None else [])]
        stopped = [task for task in tasks if task is not asyncio.current_task()]
        for task in stopped:
            task.cancel()
        # All state is dropped before the first await, because a request can start the index again meanwhile.
        self._tasks.clear()
        self.kinds.clear()
        self.by_uid.clear()
        self.owned.clear()
        for objects in self.by_health.values():
            objects.clear()
        self.troubled.clear()
        self.truncated = 0
        await self.warnings.stop()
        await asyncio.gather(*stopped, return_exceptions=True)

    def _start(self) -> None:
        if self._supervisor is None:
            self._supervisor = run_forever(self._supervise, name="dashboard index", required=False)
            self.warnings.start()

    async def _supervise(self) -> None:
        """Start reflectors for the kinds of the cluster, and stop when the index is idle."""
        check_seconds = min(10.0, self._idle_seconds)
        discover = True
        while True:
            if discover:
                try:
                    await self._discover()
                except (APIError, ConnectionFailed, CredentialsError, TimeoutError) as error:
                    logger.warning("discovery failed, retrying", extra={"error": str(error)})
            try:
                async with asyncio.timeout(check_seconds):
                    await self._discover_again.wait()
                # Several definitions are usually created together.
                await asyncio.sleep(_DISCOVERY_DELAY)
                self._discover_again.clear()
                self._client.mapper.invalidate()
                discover = True
            except TimeoutError:
                discover = not self.kinds
            if not self._users and self._clock() - self._used_at >= self._idle_seconds:
                await self.stop()
                return

    async def _discover(self) -> None:
        resources = _readable(await self._client.mapper.reload())
        for key, state in list(self.kinds.items()):
            if resources.get(key) != state.resource:
                await self._remove_kind(key, state)
        for key, resource in resources.items():
            if key not in self.kinds:
                state = self.kinds[key] = KindState(resource)
                self._tasks[key] = run_forever(
                    partial(self._reflect, state), name=f"dashboard {resource}", required=False
                )
        self.report_progress()

    async def _remove_kind(self, key: tuple[str, str], state: KindState) -> None:
        task = self._tasks.pop(key)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for record in list(state.objects.values()):
            self._replace(record, None)
        del self.kinds[key]

    async def _reflect(self, state: KindState) -> None:
        kind: AnyKind = metadata_of(state.gvk) if state.metadata_only else state.gvk
        async with self._checks:
            namespace, state.error = await find_readable_namespace(
                self._client, kind, namespaced=state.namespaced
            )
        if namespace is None:
            self.report_progress()
            return
        state.scope = namespace
        handler = _KindHandler(self, state)
        source = ListWatch(self._client, kind, namespace=namespace)
        state.reflector = Reflector(str(state.resource), source, handler, namespace=namespace)
        await state.reflector.run()

    def report_progress(self) -> None:
        """Wake the requests that wait for the first complete state, and update the pages."""
        self._progress.set()
        self._changed()

    def _changed(self) -> None:
        self.revision += 1
        for listener in list(self._listeners):
            listener(None, None)

    def put(self, record: ObjectRecord) -> None:
        """Store a new version of an object."""
        key = (record.namespace, record.name)
        old = record.kind.objects.get(key)
        if old is None and len(self.by_uid) >= self._max_objects:
            self.truncated += 1
            return
        record.failure = self._failure_of(record)[:MESSAGE_LENGTH]
        if old is not None and old.is_same(record):
            return
        self._date(old, record)
        self._replace(old, record)
        if record.kind.gvk.group_kind in _DEFINITIONS:
            self._discover_again.set()

    def _date(self, old: ObjectRecord | None, new: ObjectRecord) -> None:
        """Set since when an object has its health, and learn how long its kind takes to become ready."""
        if old is not None and old.uid == new.uid and old.health == new.health:
            new.changed, new.changed_exactly = old.changed, old.changed_exactly
        elif old is not None:
            new.changed, new.changed_exactly = wall_time() * 1000, True
            if (old.health, new.health) == ("InProgress", "Current") and old.changed_exactly:
                new.kind.ready_seconds.append((new.changed - old.changed) / 1000)
        elif not new.changed_exactly:
            new.changed = wall_time() * 1000
            new.changed_exactly = new.kind.synced
        elif new.health == "Current" and new.changed >= new.created > 0:
            new.kind.ready_seconds.append((new.changed - new.created) / 1000)

    def remove(self, kind: KindState, namespace: str, name: str) -> None:
        """Remove an object."""
        old = kind.objects.get((namespace, name))
        if old is not None:
            self._replace(old, None)
            if kind.gvk.group_kind in _DEFINITIONS:
                self._discover_again.set()

    def _replace(self, old: ObjectRecord | None, new: ObjectRecord | None) -> None:
        if old is not None:
            old.kind.count(old.health, -1, old.namespace)
            self.troubled.pop(old.uid, None)
            if old.health != "Current":
                self.by_health[old.health].pop(old.uid, None)
            if new is None:
                old.kind.objects.pop((old.namespace, old.name), None)
            if new is None or new.uid != old.uid or new.owners != old.owners:
                self._unlink(old)
        if new is not None:
            new.kind.count(new.health, +1, new.namespace)
            if new.troubles:
                self.troubled[new.uid] = new
            new.kind.objects[new.namespace, new.name] = new
            self.by_uid[new.uid] = new
            if new.health != "Current":
                self.by_health[new.health][new.uid] = new
            for owner in new.owners:
                self.owned.setdefault(owner.uid, {})[new.uid] = None
        self.revision += 1
        for listener in list(self._listeners):
            listener(old, new)

    def _unlink(self, old: ObjectRecord) -> None:
        self.by_uid.pop(old.uid, None)
        for owner in old.owners:
            owned = self.owned.get(owner.uid)
            if owned is not None:
                owned.pop(old.uid, None)
                if not owned:
                    del self.owned[owner.uid]


class _KindHandler:
    """Stores the objects of one kind, from a reflector."""

    def __init__(self, index: ObjectIndex, state: KindState) -> None:
        self._index = index
        self._state = state
        self._received: set[tuple[str, str]] | None = None

    def begin(self) -> None:
        """Start to receive a complete state."""
        self._received = set()

    def initial(self, event: ObjectEvent) -> None:
        """Store one object of the state."""
        record = read_record(self._state, event.raw, event.header)
        if self._received is not None:
            self._received.add((record.namespace, record.name))
        self._index.put(record)

    def replace(self, resource_version: str) -> bool:
        """Remove the objects that are not in the state."""
        received, self._received = self._received or set(), None
        for namespace, name in [key for key in self._state.objects if key not in received]:
            self._index.remove(self._state, namespace, name)
        if not self._state.synced:
            self._state.synced = True
            self._index.report_progress()
        return True

    def event(self, event: ObjectEvent) -> None:
        """Store or remove one object."""
        key = (event.namespace, event.name)
        if event.type == "DELETED":
            if self._received is not None:
                self._received.discard(key)
            self._index.remove(self._state, *key)
        else:
            self.initial(event)

    def progress(self, resource_version: str) -> None:
        """Nothing depends on the position of the watch."""


def _readable(resources: Iterable[APIResource]) -> dict[tuple[str, str], APIResource]:
    """Return the resources that can be listed and watched, each in its preferred version."""
    found: dict[tuple[str, str], APIResource] = {}
    for each in resources:
        if "list" in each.verbs and "watch" in each.verbs and each.gvk.group_kind not in _EXCLUDED:
            found.setdefault((each.gvr.group, each.plural), each)
    return found


def parse_object(query: Any) -> tuple[str, str, str, str]:
    """Return group, kind, namespace and name of a request; raises `RequestError` if one is missing."""
    from kubewright.dashboard.responses import RequestError

    kind, name = query.get("kind", ""), query.get("name", "")
    if not kind or not name:
        raise RequestError(400, "the parameters kind and name are required; group and namespace may be empty")
    return query.get("group", ""), kind, query.get("namespace", ""), name
