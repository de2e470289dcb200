"""`ReplicaServer`: the API server as controllers of the control plane see it in a process of their own.

The controllers of the control plane run inside the API server: they write with a client over an in-process
transport, read from storage and are fed by informers on one storage watch. On a shared storage the server
that runs them can be killed at any time while another replica serves clients. In an exploration the
cluster's control plane is that other replica, and a simulated process is the one that runs the controllers:

| what a controller uses | in the process | point |
|---|---|---|
| `server.handle`, through a `Client` | sent with an `OperatorTransport` | `w`, `r` |
| `store.storage.get`, `store.storage.list` | read from the storage | `r`; not a list without results |
| informers | fed by a `ReplicaDispatcher` | `d`, and `o` for the start of the storage watch |

Faults are those of a server whose storage fails: a request that is lost gets 504, an outage 503, a failed
read raises `StorageError`. A storage watch that breaks resumes after `reset`, and is started again after
`expired` and `gap`; both times all informers list again. Lists of informers are not points: they are repeated
until they succeed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client import CollectorRegistry

from kubewright.api.errors import APIError, ServiceUnavailable
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import parse_request_info
from kubewright.apiserver.watch.dispatcher import EventDispatcher
from kubewright.client.errors import ConnectionFailed
from kubewright.controller.controller import current_reconcile
from kubewright.explore.state import is_ignored
from kubewright.storage.contract import StorageError

from .process_target import ProcessTarget
from .transport import REQUEST_TIMEOUT, OperatorTransport

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.resources.stored_objects import UndecodableObject
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.controlplane.informers import Informers
    from kubewright.explore.faults import ErrorResponse
    from kubewright.explore.runs.trace import TraceEvent
    from kubewright.storage.contract import KeyValue, Page, Storage

    from .processes import OperatorProcess

RESTART_DELAY = 0.1
"""Virtual seconds until a storage watch is started again."""
_ResourceChange = Callable[[], object]


class ReplicaServer:
    """What controllers use of an `APIServer`, for one process."""

    def __init__(
        self, process: OperatorProcess, dispatcher: ReplicaDispatcher, *, lists: bool = True
    ) -> None:
        """`lists`: whether lists of the storage are points."""
        server = process.cluster.plane.server
        self.dispatcher = dispatcher
        self.clock = process.cluster.loop.time
        self.freshness_timeout = server.freshness_timeout
        self.rng = server.rng
        self.storage = ReplicaStorage(process, server.storage, server.prefix, lists=lists)
        self.metrics = SimpleNamespace(registry=CollectorRegistry())
        self._process = process
        self._server: APIServer = server
        self._stores: dict[ResourceStore, ReplicaStore] = {}
        self._transports: dict[str, OperatorTransport] = {}

    @property
    def stores(self) -> Iterator[ReplicaStore]:
        """The stores of all served resources."""
        return (self._replica(each) for each in list(self._server.stores))

    def store(self, group: str, plural: str) -> ReplicaStore | None:
        """Return the store of a resource."""
        found = self._server.store(group, plural)
        return self._replica(found) if found is not None else None

    def _replica(self, store: ResourceStore) -> ReplicaStore:
        found = self._stores.get(store)
        if found is None:
            found = self._stores[store] = ReplicaStore(self, store)
        return found

    async def handle(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request to the control plane, with the fault that is planned for it."""
        body = await request.read()
        transport = self._transport(request.user)
        try:
            response = await transport.send(
                request.method, request.path, request.query.raw, request.headers, body
            )
        except ConnectionFailed as error:
            return _failure(error)
        if request.method not in ("GET", "HEAD") and response.status < 300:
            info = parse_request_info(request)
            store = self.store(info.group, info.resource)
            if store is not None:
                store.written = store.store.written
        return HTTPResponse(response.status, response.body, content_type=response.headers["Content-Type"])

    def _transport(self, user: User) -> OperatorTransport:
        found = self._transports.get(user.name)
        if found is None:
            found = self._transports[user.name] = OperatorTransport(self._process, user)
        return found


class ReplicaStore:
    """A `ResourceStore` as one process sees it: its reads are points."""

    def __init__(self, server: ReplicaServer, store: ResourceStore) -> None:
        self.server = server
        self.store = store
        self.storage = server.storage
        self.written = 0
        """Revision of the last write of this process."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class ReplicaStorage:
    """Reads of the storage by one process."""

    def __init__(self, process: OperatorProcess, storage: Storage, prefix: str, *, lists: bool) -> None:
        self.is_shared = True
        self._process = process
        self._storage = storage
        self._prefix = prefix
        self._lists = lists

    async def revision(self) -> int:
        """Return the current revision."""
        return await self._storage.revision()

    async def get(self, key: str) -> KeyValue | None:
        """Return the value of a key."""
        self._check_reachable()
        found = await self._storage.get(key)
        await self._pass(f"get storage {key.removeprefix(self._prefix)}")
        return found

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        """Return the values of all keys with a prefix."""
        self._check_reachable()
        page = await self._storage.list(prefix, start=start, limit=limit, revision=revision)
        if page.items and self._lists:
            await self._pass(f"list storage {prefix.removeprefix(self._prefix)}")
        return page

    async def list_stored(self, prefix: str) -> tuple[Page, Sequence[UndecodableObject]]:
        """Return all values with a prefix; the storage of an exploration has none that cannot be decoded."""
        return await self.list(prefix), ()

    def _check_reachable(self) -> None:
        process = self._process
        if process.unreachable_until > process.cluster.loop.now:
            raise StorageError("storage is unreachable")

    async def _pass(self, text: str) -> None:
        """Record a read, with the fault that is planned for it."""
        process = self._process
        cluster = process.cluster
        event = cluster.record("read", process.name, text)
        _note_reconcile(event)
        cluster.count_request("read")
        fault = cluster.fault_at(event)
        if fault is not None:
            await fault.before(_StorageTarget(process, event))
        event.status, event.ended = 200, cluster.loop.step
        await asyncio.sleep(cluster.latency() or cluster.LATENCY)


class _StorageTarget(ProcessTarget):
    """A read of the storage."""

    async def respond(self, error: ErrorResponse) -> None:
        """Fail the read."""
        await asyncio.sleep(self.cluster.LATENCY)
        raise StorageError("read failed: injected by exploration")

    async def time_out(self) -> None:
        """Fail the read after a timeout."""
        await asyncio.sleep(REQUEST_TIMEOUT)
        raise StorageError("read failed: injected by exploration")


class _StorageEventTarget(ProcessTarget):
    """An event of the storage watch, before the informers of a process receive it."""

    def __init__(self, dispatcher: ReplicaDispatcher, process: OperatorProcess, event: TraceEvent) -> None:
        super().__init__(process, event)
        self.is_delivered = True
        self._dispatcher = dispatcher

    async def break_watch(self) -> None:
        """Break the watch, and resume it."""
        await self._dispatcher.interrupt()

    async def expire_watch(self, seconds: float = 0.0) -> None:
        """Lose the watch, and start another one."""
        await self._dispatcher.restart_after(seconds or RESTART_DELAY)
        self.is_delivered = False


class ReplicaDispatcher(EventDispatcher):
    """Forwards the events of the control plane's dispatcher to the informers of one process.

    A task of the control plane takes the events from a queue one by one. Those that an informer of the
    process receives are points. Listeners are called in the context of the process, so that they are not
    called any more after it was killed.
    """

    def __init__(self, process: OperatorProcess) -> None:
        cluster = process.cluster
        source = cluster.plane.server.dispatcher
        super().__init__(source.storage, source.prefix)
        self.informers: Informers | None = None
        """Decides which events are points."""
        self._source = source
        self._process = process
        self._cluster = cluster
        self._context = contextvars.copy_context()
        self._queue: deque[tuple[WatchCache, WatchCacheEvent] | _ResourceChange] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether every change in storage reaches this dispatcher without delay."""
        return not self._lost

    async def start(self) -> None:
        """Start to receive events."""
        await self._open()
        self.revision = self._source.revision
        self.running = True
        self._source.listeners.append(self)
        self._process.streams[self] = None
        self._start_reader(self._read())

    async def stop(self) -> None:
        """Stop receiving events."""
        self.close()

    async def catch_up(self) -> None:
        """Wait until every change that is stored by now has been dispatched."""
        await self._source.catch_up()
        revision = self._source.revision
        while self.revision < revision and self.running:
            if not self._queue and not self._lost:
                self._advance(revision)
                return
            await asyncio.sleep(RESTART_DELAY)

    # Stream of a process

    def close(self) -> None:
        """Stop receiving events."""
        self.running = False
        self._process.streams.pop(self, None)
        if self in self._source.listeners:
            self._source.listeners.remove(self)
        if self._reader is not None:
            self._reader.cancel()

    def fail(self, error: Exception) -> None:
        """Lose the watch, and start it again when the storage is reachable."""
        if self._reader is not None:
            self._reader.cancel()

        async def restart() -> None:
            await self.restart_after(RESTART_DELAY)
            await self._read()

        self._start_reader(restart())

    # Events of the control plane

    def on_resource_added(self, cache: WatchCache) -> None:
        """Queue the addition of a resource."""
        self._put(partial(self._resource_changed, cache, "on_resource_added"))

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Queue the removal of a resource."""
        self._put(partial(self._resource_changed, cache, "on_resource_removed"))

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Queue an event."""
        self._put((cache, event))

    def on_watch_lost(self) -> None:
        """Do nothing: the storage of the control plane is in its process."""

    def on_watch_restarted(self) -> None:
        """Do nothing."""

    def _put(self, item: Any) -> None:
        self._queue.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Deliveries, in a task of the control plane

    def _start_reader(self, work: Any) -> None:
        self._reader = self._cluster.loop.create_task(work, context=contextvars.Context())

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        self._cluster.loop.call_soon(function, *arguments, context=self._context)

    async def _read(self) -> None:
        while True:
            while not self._queue:
                self._waiter = self._cluster.loop.create_future()
                await self._waiter
            item = self._queue[0]
            if callable(item):
                self._queue.popleft()
                self._call(item)
            elif await self._pass(*item):
                self._queue.popleft()
                self._call(self._deliver, *item)

    async def _pass(self, cache: WatchCache, change: WatchCacheEvent) -> bool:
        """Record a delivery, with the fault that is planned for it; return whether it is delivered."""
        cluster, process, stored = self._cluster, self._process, change.event
        if is_ignored(stored.key) or self.informers is None or not self.informers.is_watching(cache):
            return True
        if process.lagging_until > cluster.loop.now:
            await asyncio.sleep(process.lagging_until - cluster.loop.now)
        delay = cluster.latency()
        if delay:
            await asyncio.sleep(delay)
        name = f"{change.namespace}/{change.name}" if change.namespace else change.name
        body = stored.value if stored.value is not None else stored.previous.value if stored.previous else b""
        event = cluster.record(
            "delivery",
            process.name,
            f"{change.type} {cache.resource} {name}",
            revision=stored.revision,
            body=body,
        )
        fault = cluster.fault_at(event)
        target = _StorageEventTarget(self, process, event)
        if fault is not None:
            await fault.before(target)
        return target.is_delivered

    async def interrupt(self) -> None:
        """Lose the watch, and resume it."""
        self._call(self._lose)
        await asyncio.sleep(RESTART_DELAY)
        self._call(self._resume)

    async def restart_after(self, seconds: float) -> None:
        """Lose the watch, and start another one at the current revision."""
        self._call(self._lose)
        await asyncio.sleep(seconds)
        await self._open()
        self._queue = deque(each for each in self._queue if callable(each))
        self._call(self._resume, self._source.revision)

    async def _open(self) -> None:
        """Start a watch of the storage; repeat it while it fails."""
        cluster, process = self._cluster, self._process
        while True:
            event = cluster.record("watch", process.name, "watch storage")
            cluster.count_request("watch")
            if cluster.fault_at(event) is None and process.unreachable_until <= cluster.loop.now:
                return
            await asyncio.sleep(max(process.unreachable_until - cluster.loop.now, RESTART_DELAY))

    # In the context of the process

    def _deliver(self, cache: WatchCache, change: WatchCacheEvent) -> None:
        for listener in self.listeners:
            listener.on_event(cache, change)
        self._advance(max(change.event.revision, self.revision))

    def _resource_changed(self, cache: WatchCache, method: str) -> None:
        for listener in self.listeners:
            getattr(listener, method)(cache)

    def _lose(self) -> None:
        self._lost = True
        for listener in self.listeners:
            listener.on_watch_lost()
        self._report_progress()

    def _resume(self, revision: int = 0) -> None:
        self._lost = False
        self._advance(max(revision, self.revision))
        for listener in self.listeners:
            listener.on_watch_restarted()


def _note_reconcile(event: TraceEvent) -> None:
    reconcile = current_reconcile.get()
    if reconcile is not None:
        event.reconcile = f"{reconcile.controller} {reconcile.request} {reconcile.id}"


def _failure(error: ConnectionFailed) -> HTTPResponse:
    """Return the response of a server whose storage cannot be reached, or does not respond."""
    failure: APIError = ServiceUnavailable("storage is unreachable")
    if error.sent:
        failure = APIError(
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
            code=504,
            reason="Timeout",
        )
    return HTTPResponse(failure.status_code, msgspec.json.encode(failure.to_status()))
