"""The API server: resources, paths and lifecycle.

    server = APIServer(storage)
    server.add(Resource(group="example.com", kind="Widget", plural="widgets", versions=[Version(name="v1")]))
    async with server:
        response = await server.handle(HTTPRequest("GET", "/apis/example.com/v1/widgets", user=SYSTEM))

`handle` runs the `RequestPipeline`; `kubewright.apiserver.http` serves it on a TLS port. Authenticator,
authorizer, admission plug-ins, health checks and handlers of other paths are arguments or attributes;
resources can be added and removed while the server runs.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec

from kubewright.api.kubernetes_version import NEWEST
from kubewright.api.values.times import monotonic_time
from kubewright.background import check_loops, run_forever
from kubewright.storage.contract import Storage, StorageError

from .admission import AdmissionChain, AdmissionPlugin
from .authentication import Authenticator, AuthenticatorChain
from .authentication.user import User
from .authorization import AllowAuthenticated, Authorizer
from .discovery import Discovery
from .encoding import negotiation
from .health import HealthChecks
from .http.messages import HTTPRequest, HTTPResponse
from .http.request_info import RequestInfo
from .metrics.requests import ServerMetrics
from .openapi.service import OpenAPIService
from .pipeline import RequestPipeline
from .resources.resource import Resource
from .rest.store import ResourceStore
from .router import HTTPHandler, Router
from .status_pages import StatusPages
from .version_info import VersionInfo
from .watch.dispatcher import EventDispatcher

if TYPE_CHECKING:
    from .audit import Auditor
    from .priority.flow_control import FlowControl
    from .tracing import RequestTracer

logger = logging.getLogger("kubewright.apiserver")

_STORAGE_TIMEOUT = 2.0
"""Seconds within which the storage health check must succeed."""


STORAGE_PREFIX = "/registry/"
"""Default prefix of all storage keys, as in kube-apiserver."""


class APIServer:
    """An API server on a storage. `async with` starts and stops it, and opens and closes the storage."""

    def __init__(
        self,
        storage: Storage,
        *,
        authenticator: Authenticator | AuthenticatorChain | None = None,
        authorizer: Authorizer | None = None,
        admission: Iterable[AdmissionPlugin] = (),
        version: VersionInfo | None = None,
        prefix: str = STORAGE_PREFIX,
        request_timeout: float = 60.0,
        body_limit: int = 3 * 1024 * 1024,
        max_in_flight: int = 400,
        max_mutating_in_flight: int = 200,
        watch_timeout: tuple[int, int] = (1800, 3600),
        bookmark_interval: float = 60.0,
        freshness_timeout: float = 3.0,
        compaction_interval: float = 300.0,
        clock: Callable[[], float] = monotonic_time,
        rng: random.Random | None = None,
        log_sample: float = 0.0,
        slow_request: float = 1.0,
        impersonation: bool = True,
        cbor: bool = False,
        auditor: Auditor | None = None,
        tracer: RequestTracer | None = None,
    ) -> None:
        self.storage = storage
        self.authenticator: Authenticator | AuthenticatorChain = authenticator or AuthenticatorChain([])
        self.authorizer: Authorizer = authorizer or AllowAuthenticated()
        self.admission = AdmissionChain(admission)
        self.version = version or VersionInfo()
        self.kubernetes_version = NEWEST
        """The version of Kubernetes whose built-in types are published."""
        self.prefix = prefix
        self.request_timeout = request_timeout
        self.body_limit = body_limit
        self.max_in_flight = max_in_flight
        self.max_mutating_in_flight = max_mutating_in_flight
        self.watch_timeout = watch_timeout
        self.bookmark_interval = bookmark_interval
        self.freshness_timeout = freshness_timeout
        self.compaction_interval = compaction_interval
        self.clock = clock
        self.rng = rng or random.Random()  # noqa: S311 - identifiers and jitter, not secrets
        self.log_sample = log_sample
        self.slow_request = slow_request
        self.impersonation = impersonation
        self.auditor = auditor
        """Records requests, if set before `start`."""
        self.tracer = tracer
        """Creates spans of requests, if set before `start`."""
        self.classify: Callable[[User, RequestInfo], Mapping[str, str]] | None = None
        """Returns headers of responses to authenticated requests: those of priority and fairness."""
        self.flow_control: FlowControl | None = None
        """Priority levels, instead of the limits of requests in flight per user."""
        self.watch_list = True
        """Whether watches can start with the existing objects (`sendInitialEvents`)."""
        self.delete_options_wire: Any = None
        """Protobuf codec of DeleteOptions, if clients can send them."""
        self.flags: dict[str, str] = {}
        """Flags of the command line, for `/flagz`."""
        self.metrics = ServerMetrics(self.version.to_dict())
        self.admission.metrics = self.metrics.admission
        self.health = HealthChecks()
        self.discovery = Discovery(self)
        self.openapi = OpenAPIService(self)
        self.dispatcher = EventDispatcher(storage, prefix, clock=clock)
        self.started = False
        self.draining = False
        """Whether `/readyz` fails because the server will stop soon; requests are served as before."""
        self.stopping = False
        self.stopped = False
        """Whether the storage is or will be closed; requests are rejected with 503."""
        self._resources: dict[tuple[str, str], ResourceStore] = {}
        self.router = Router(self)
        self.pipeline = RequestPipeline(self)
        self.handle: HTTPHandler = self.pipeline.handle
        """Serves one request; a request that has a `user` is already authenticated."""
        if cbor:
            from .encoding.cbor import CBORHandler

            self.add_middleware(CBORHandler)
        self._compactor: asyncio.Task[None] | None = None
        self._start_hooks: list[Callable[[], Awaitable[object]]] = []
        self._register_own_paths()
        self.metrics.requests.is_served = self.router.is_served

    def add_middleware(self, middleware: Callable[[HTTPHandler], HTTPHandler]) -> None:
        """Serve all requests with the handler that `middleware` returns for the current one.

        The last one added is outermost: it receives requests first.
        """
        self.handle = middleware(self.handle)

    def add_start_hook(self, hook: Callable[[], Awaitable[object]]) -> None:
        """Call an async function during `start`, when the storage is open and before any port is opened.

        Hooks run in order, such as those that write initial objects; an exception ends the start.
        """
        self._start_hooks.append(hook)

    def add(self, resource: Resource) -> ResourceStore:
        """Serve a resource; one of the same name is replaced, and its watches end."""
        key = (resource.group, resource.plural)
        old = self._resources.pop(key, None)
        if old is not None:
            self._remove(old)
        store = ResourceStore(self, resource)
        self._resources[key] = store
        resource.on_attach(store)
        self.router.add_resource(store)
        self._resources_changed(resource)
        return store

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a resource; its watches end, its objects stay in storage."""
        store = self._resources.pop((group, plural), None)
        if store is not None:
            self._remove(store)
            self._resources_changed(store.resource)
            self.metrics.forget(group, plural)

    def _remove(self, store: ResourceStore) -> None:
        self.router.remove_resource(store.resource)
        store.close()

    def _resources_changed(self, resource: Resource) -> None:
        if not resource.custom:
            self.router.update_builtin_groups()
        self.discovery.invalidate()
        self.openapi.invalidate(resource.group)

    @property
    def stores(self) -> Iterable[ResourceStore]:
        """The stores of all served resources."""
        return self._resources.values()

    def store(self, group: str, plural: str) -> ResourceStore | None:
        """Return the store of a resource."""
        return self._resources.get((group, plural))

    def add_handler(self, path: str, handler: HTTPHandler) -> None:
        """Serve one exact path that belongs to no resource."""
        self.router.add_handler(path, handler)

    def add_prefix_handler(self, prefix: str, handler: HTTPHandler, *, last: bool = False) -> None:
        """Serve all paths at or below a prefix, before resources (or after everything else, with `last`)."""
        self.router.add_prefix_handler(prefix, handler, last=last)

    def remove_handler(self, path: str) -> None:
        """Remove the handlers of a path and of a prefix."""
        self.router.remove_handler(path)

    @property
    def paths(self) -> list[str]:
        """All exact paths that have a handler, for the index."""
        return sorted(self.router.handlers)

    def _register_own_paths(self) -> None:
        async def version(request: HTTPRequest) -> HTTPResponse:
            negotiation.require(request, negotiation.JSON)
            body = negotiation.encode(self.version.to_dict())
            return HTTPResponse(200, msgspec.json.format(body, indent=2))

        async def index(request: HTTPRequest) -> HTTPResponse:
            paths = {*self.router.handlers, *self.discovery.paths()} - {"/"}
            body = negotiation.encode({"paths": sorted(paths)})
            return HTTPResponse(200, msgspec.json.format(body, indent=2))

        async def metrics(request: HTTPRequest) -> HTTPResponse:
            await self.metrics.storage.refresh(self.storage, self.stores)
            return HTTPResponse(200, self.metrics.render(), content_type=self.metrics.content_type)

        self.add_handler("/version", version)
        self.add_handler("/", index)
        self.add_handler("/metrics", metrics)
        self.add_handler("/metrics/slis", self.health.slis)
        pages = StatusPages(self)
        self.add_handler("/statusz", pages.statusz)
        self.add_handler("/flagz", pages.flagz)
        for path in ("/healthz", "/livez", "/readyz"):
            self.add_handler(path, self.health.handler(path))
            self.add_prefix_handler(path + "/", self.health.handler(path), last=True)
        for path in ("/api", "/apis"):
            self.add_handler(path, self.discovery.root)
        self.add_handler("/openapi/v2", self.openapi.v2)
        self.add_handler("/openapi/v3", self.openapi.v3_index)
        self.add_prefix_handler("/openapi/v3/", self.openapi.v3, last=True)

    async def start(self) -> None:
        """Open the storage and start to watch it."""
        await self.storage.open()
        self.stopped = False
        await self.dispatcher.start()
        self.health.add("ping", lambda: None)
        self.health.add("etcd", self._check_storage)
        self.health.add("shutdown", self._check_running, ("/readyz",))
        self.health.add("background-loops", check_loops, ("/readyz",))
        if self.compaction_interval > 0 and not self.storage.manages_compaction:
            self._compactor = run_forever(self._compact, name="compaction")
        self.started = True
        try:
            if self.auditor is not None:
                self.auditor.router = self.router
                self.metrics.registry.register(self.auditor)
                self.health.add("audit", self.auditor.check, ("/readyz",))
                await self.auditor.start()
            if self.tracer is not None:
                await self.tracer.start()
            for hook in self._start_hooks:
                await hook()
        except BaseException:
            await self.stop(0.0)
            raise

    async def stop(self, grace: float = 10.0) -> None:
        """End watches, wait up to `grace` seconds for other requests, close the storage."""
        self.stopping = True
        for store in list(self._resources.values()):
            store.close()
        if not await self.pipeline.wait_until_idle(grace):
            logger.warning(
                "requests did not finish before shutdown",
                extra={"requests": self.pipeline.active, "grace_seconds": grace},
            )
        self.stopped = True
        if self.auditor is not None:
            await self.auditor.stop()
        if self.tracer is not None:
            await self.tracer.stop()
        if self._compactor is not None:
            self._compactor.cancel()
            await asyncio.gather(self._compactor, return_exceptions=True)
        await self.dispatcher.stop()
        await self.storage.close()
        self.started = False

    async def _check_storage(self) -> None:
        async with asyncio.timeout(_STORAGE_TIMEOUT):
            await self.storage.get(f"{self.prefix}health")

    def _check_running(self) -> None:
        if self.draining or self.stopping:
            raise RuntimeError("server is shutting down")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def _compact(self) -> None:
        """Compact the history older than one interval."""
        last = await self.storage.revision()
        while True:
            await asyncio.sleep(self.compaction_interval)
            try:
                current = await self.storage.revision()
                if last:
                    await self.storage.compact(last)
                last = current
            except StorageError as error:
                logger.warning("compaction failed", extra={"error": str(error)})
