"""An API server: resources in, requests through, responses out.

    server = APIServer(storage)
    server.add(Resource(group="example.com", kind="Widget", plural="widgets", versions=[Version(name="v1")]))
    async with server:
        response = await server.handle(Request("GET", "/apis/example.com/v1/widgets", user=SYSTEM))

`handle` is the whole pipeline: identify, impersonate, limit, authorise, dispatch; what goes wrong becomes a
`Status`. `kubewright.apiserver.http.server` puts it on a TLS port. Everything is injectable: authenticator,
authorizer, admission plug-ins, health checks, handlers of other paths; resources come and go while it runs.

Paths are looked up in this order: `add_prefix_handler` (an aggregator takes whole group versions away), the
resources, `add_handler` (exact non-resource paths), prefixes that asked to be last.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

from kubewright.api.errors import (
    APIError,
    BadRequest,
    InternalError,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    Timeout,
    TooManyRequests,
    Unauthorized,
)
from kubewright.api.times import Duration
from kubewright.storage.contract import Storage, StorageError

from .admission import AdmissionChain, AdmissionPlugin
from .authentication import Authenticator, AuthenticatorChain
from .authentication.impersonation import Impersonator, is_impersonating
from .authentication.user import MASTERS
from .authorization import AllowAuthenticated, AuthorizationAttributes, Authorizer, Decision, forbidden
from .discovery import Discovery
from .encoding import negotiation
from .health import HealthChecks
from .http import request_info as requestinfo
from .http.messages import HTTPRequest, HTTPResponse, page_not_found
from .http.request_info import RequestInfo
from .metrics.requests import ServerMetrics
from .openapi.service import OpenAPIService
from .resource import Resource
from .rest.endpoint import ResourceEndpoint
from .rest.store import ResourceStore
from .version_info import VersionInfo
from .watch.dispatcher import EventDispatcher

logger = logging.getLogger("kubewright.apiserver")

_STORAGE_PATIENCE = 2.0
"""Seconds within which a healthy storage answers."""

HTTPHandler = Callable[[HTTPRequest], Awaitable[HTTPResponse]]

_MUTATING = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))


class APIServer:
    """The request pipeline over a store. `async with` starts and stops it (and opens and closes the
    storage)."""

    def __init__(
        self,
        storage: Storage,
        *,
        authenticator: Authenticator | AuthenticatorChain | None = None,
        authorizer: Authorizer | None = None,
        admission: Iterable[AdmissionPlugin] = (),
        version: VersionInfo | None = None,
        prefix: str = "/registry/",
        request_timeout: float = 60.0,
        body_limit: int = 3 * 1024 * 1024,
        max_in_flight: int = 400,
        max_mutating_in_flight: int = 200,
        watch_timeout: tuple[int, int] = (1800, 3600),
        bookmark_interval: float = 60.0,
        freshness_timeout: float = 3.0,
        compaction_interval: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        log_sample: float = 0.0,
        slow_request: float = 1.0,
        impersonation: bool = True,
    ) -> None:
        self.storage = storage
        self.authenticator: Authenticator | AuthenticatorChain = authenticator or AuthenticatorChain([])
        self.authorizer: Authorizer = authorizer or AllowAuthenticated()
        self.admission = AdmissionChain(admission)
        self.version = version or VersionInfo()
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
        self._impersonation = Impersonator()
        self.delete_options_wire: Any = None
        """Decodes protobuf DeleteOptions, where clients send them (an object with `decode`)."""
        self.metrics = ServerMetrics()
        self.health = HealthChecks()
        self.discovery = Discovery(self)
        self.openapi = OpenAPIService(self)
        self.dispatcher = EventDispatcher(storage, prefix, clock=clock)
        self.started = False
        self.stopping = False
        self._resources: dict[tuple[str, str], ResourceStore] = {}
        self._endpoints: dict[tuple[str, str, str], ResourceEndpoint] = {}
        self._typed_versions: set[tuple[str, str]] = set()
        self._handlers: dict[str, HTTPHandler] = {}
        self._prefixes: list[tuple[str, HTTPHandler]] = []
        self._fallbacks: list[tuple[str, HTTPHandler]] = []
        self._in_flight = [0, 0]
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._compactor: asyncio.Task[None] | None = None
        self._register_own_paths()
        self.metrics.known = self._knows

    # Resources

    def add(self, resource: Resource) -> ResourceStore:
        """Serve a resource; if one of the same name is there it is replaced and its watches end."""
        key = (resource.group, resource.plural)
        old = self._resources.pop(key, None)
        if old is not None:
            self._forget(old)
        store = ResourceStore(self, resource)
        self._resources[key] = store
        resource.on_attach(store)
        for version in resource.versions:
            if version.served:
                self._endpoints[resource.group, version.name, resource.plural] = ResourceEndpoint(
                    self, store, version
                )
        self._changed(resource)
        return store

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a resource. What is stored stays; watches end."""
        store = self._resources.pop((group, plural), None)
        if store is not None:
            self._forget(store)
            self._changed(store.resource)
            self.metrics.forget(group, plural)

    def _forget(self, store: ResourceStore) -> None:
        resource = store.resource
        for version in resource.versions:
            self._endpoints.pop((resource.group, version.name, resource.plural), None)
        store.close()

    def _changed(self, resource: Resource) -> None:
        if not resource.custom:
            self._typed_versions = {
                (store.resource.group, version.name)
                for store in self._resources.values()
                if not store.resource.custom
                for version in store.resource.versions
                if version.served
            }
        self.discovery.changed()
        self.openapi.changed(resource.group)

    @property
    def stores(self) -> Iterable[ResourceStore]:
        """Every resource that is served, with its access to storage."""
        return self._resources.values()

    def store(self, group: str, plural: str) -> ResourceStore | None:
        """One resource's access to storage."""
        return self._resources.get((group, plural))

    # Other paths

    def add_handler(self, path: str, handler: HTTPHandler) -> None:
        """Answer one exact path that belongs to no resource."""
        self._handlers[path] = handler

    def add_prefix_handler(self, prefix: str, handler: HTTPHandler, *, last: bool = False) -> None:
        """Answer every path at or below `prefix`, before the resources are asked (or after all, with
        `last`)."""
        wanted = self._fallbacks if last else self._prefixes
        wanted[:] = [entry for entry in wanted if entry[0] != prefix]
        wanted.append((prefix.rstrip("/"), handler))
        wanted.sort(key=lambda entry: -len(entry[0]))

    def remove_handler(self, path: str) -> None:
        """Forget a handler of either kind."""
        self._handlers.pop(path, None)
        for entries in (self._prefixes, self._fallbacks):
            entries[:] = [entry for entry in entries if entry[0] != path.rstrip("/")]

    @property
    def paths(self) -> list[str]:
        """Every non-resource path that is answered, for the index."""
        return sorted(self._handlers)

    def _register_own_paths(self) -> None:
        async def version(request: HTTPRequest) -> HTTPResponse:
            if negotiation.negotiate(request).media != negotiation.JSON:
                raise NotAcceptable(
                    f"406: Not Acceptable\n\nAvailable representations: {negotiation.JSON}", details={}
                )
            return negotiation.json_response(self.version.to_dict())

        async def index(request: HTTPRequest) -> HTTPResponse:
            return negotiation.json_response(
                {"paths": sorted({*self._handlers, *self.discovery.paths()} - {"/"})}
            )

        async def metrics(request: HTTPRequest) -> HTTPResponse:
            await self.metrics.storage.refresh(self.storage, self.stores)
            return HTTPResponse(200, self.metrics.render(), content_type=self.metrics.content_type)

        self.add_handler("/version", version)
        self.add_handler("/", index)
        self.add_handler("/metrics", metrics)
        for path in ("/healthz", "/livez", "/readyz"):
            self.add_handler(path, self.health.handler(path))
            self.add_prefix_handler(path + "/", self.health.handler(path), last=True)
        for path in ("/api", "/apis"):
            self.add_handler(path, self.discovery.root)
        self.add_handler("/openapi/v2", self.openapi.v2)
        self.add_handler("/openapi/v3", self.openapi.v3_index)
        self.add_prefix_handler("/openapi/v3/", self.openapi.v3, last=True)

    # Life

    async def start(self) -> None:
        """Open the storage and begin to follow it."""
        await self.storage.open()
        await self.dispatcher.start()
        for store in self._resources.values():
            store.watch_cache.reset(self.dispatcher.revision)
        self.health.add("ping", lambda: None)
        self.health.add("etcd", self._check_storage)
        self.health.add("shutdown", self._check_running, ("/readyz",))
        if self.compaction_interval > 0:
            self._compactor = asyncio.create_task(self._compact())
        self.started = True

    async def stop(self, grace: float = 10.0) -> None:
        """Let short requests finish, end watches cleanly, close the storage."""
        self.stopping = True
        for store in list(self._resources.values()):
            store.close()
        if self._active:
            self._idle.clear()
            try:
                async with asyncio.timeout(grace):
                    await self._idle.wait()
            except TimeoutError:
                logger.warning("%d requests did not finish within %s s", self._active, grace)
        if self._compactor is not None:
            self._compactor.cancel()
            await asyncio.gather(self._compactor, return_exceptions=True)
        await self.dispatcher.stop()
        await self.storage.close()
        self.started = False

    async def _check_storage(self) -> None:
        async with asyncio.timeout(_STORAGE_PATIENCE):
            await self.storage.get(f"{self.prefix}health")

    def _check_running(self) -> None:
        if self.stopping:
            raise RuntimeError("the server is being stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def _compact(self) -> None:
        """Forget history older than one interval, so that storage does not grow for ever."""
        last = await self.storage.revision()
        while True:
            await asyncio.sleep(self.compaction_interval)
            try:
                current = await self.storage.revision()
                if last:
                    await self.storage.compact(last)
                last = current
            except StorageError as error:
                logger.warning("compaction failed: %s", error)

    # Requests

    async def handle(self, request: HTTPRequest) -> HTTPResponse:
        """Answer one request. A request that already has a `user` is taken as authenticated."""
        started = self.clock()
        request.audit_id = request.headers.get("Audit-Id") or self._audit_id()
        info = request.info = requestinfo.parse(request)
        self._active += 1
        try:
            response = await self._guarded(request, info)
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()
        headers = response.headers
        headers["Audit-Id"] = request.audit_id
        headers.setdefault("Cache-Control", "no-cache, private")
        if request.warnings:
            headers["Warning"] = warning_headers(request.warnings)
        if request.method == "HEAD":
            response.body = b""
        elapsed = self.clock() - started
        self.metrics.observe(info, response, elapsed)
        if elapsed > self.slow_request or (self.log_sample and self.rng.random() < self.log_sample):
            self._log(request, response, elapsed)
        return response

    def _audit_id(self) -> str:
        text = f"{self.rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    async def _guarded(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        try:
            if info.verb == "watch" or self._is_long_running(info):
                return await self._serve(request, info)
            async with asyncio.timeout(self._deadline(request)):
                return await self._serve(request, info)
        except APIError as error:
            return negotiation.status_response(request, error)
        except TimeoutError:
            return negotiation.status_response(
                request, Timeout("Timeout: request did not complete within the allotted timeout")
            )
        except StorageError as error:
            return negotiation.status_response(request, InternalError(f"Internal error occurred: {error}"))
        except RecursionError:
            return negotiation.status_response(request, BadRequest("the object is nested too deeply"))
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            return negotiation.status_response(
                request, InternalError(f"Internal error occurred: {type(error).__name__}: {error}")
            )

    def _deadline(self, request: HTTPRequest) -> float:
        if request.query and "timeout" in request.query:
            try:
                asked = Duration(request.query.get("timeout")).total_seconds()
            except ValueError:
                raise _bad_timeout(request.query.get("timeout")) from None
            if asked > 0:
                return min(asked, self.request_timeout)
        return self.request_timeout

    def _is_long_running(self, info: RequestInfo) -> bool:
        if not info.subresource:
            return False
        endpoint = self._endpoints.get((info.group, info.version, info.resource))
        subresource = endpoint.version.subresources.get(info.subresource) if endpoint is not None else None
        return subresource is not None and subresource.connects

    async def _serve(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        if not hasattr(request, "user"):
            user = await self.authenticator.authenticate(request)
            if user is None:
                raise Unauthorized("Unauthorized")
            request.user = user
        if self.impersonation and is_impersonating(request):
            asked = self._question(request, info)
            request.user = await self._impersonation.impersonate(request, asked, self.authorizer)
        mutating = info.verb in _MUTATING
        if info.verb == "watch" or MASTERS in request.user.groups:
            return await self._authorized(request, info)
        limit = self.max_mutating_in_flight if mutating else self.max_in_flight
        if limit and self._in_flight[mutating] >= limit:
            raise _busy()
        self._in_flight[mutating] += 1
        gauge = self.metrics.in_flight[mutating]
        gauge.inc()
        try:
            return await self._authorized(request, info)
        finally:
            self._in_flight[mutating] -= 1
            gauge.dec()

    @staticmethod
    def _question(request: HTTPRequest, info: RequestInfo) -> AuthorizationAttributes:
        return AuthorizationAttributes(
            request.user,
            info.verb,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.namespace,
            info.name,
            info.path,
            info.field_selector,
            info.label_selector,
        )

    async def _authorized(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        attributes = self._question(request, info)
        decision, reason = await self.authorizer.authorize(attributes)
        if decision is not Decision.ALLOW:
            raise forbidden(attributes, reason)
        return await self._dispatch(request, info)

    async def _dispatch(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        path = request.path
        if path.startswith("//"):
            return page_not_found()
        for prefix, handler in self._prefixes:
            if path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/"):
                return await handler(request)
        if info.resource:
            endpoint = self._endpoints.get((info.group, info.version, info.resource))
            if endpoint is not None:
                return await endpoint.handle(request, info)
            if self._has_typed_group(path):
                raise NotFound("the server could not find the requested resource", details={})
            return page_not_found()
        plain = path.rstrip("/") or "/"
        found = self._handlers.get(plain)
        if found is None and plain.startswith(("/apis/", "/api/")):
            found = self.discovery.handler(plain)
        if found is None:
            for prefix, handler in self._fallbacks:
                if path.startswith(prefix + "/"):
                    found = handler
                    break
        if found is None:
            if self._has_typed_group(plain):
                raise NotFound("the server could not find the requested resource", details={})
            return page_not_found()
        if request.method != "GET" and _STRICT_ABOUT_METHODS.fullmatch(plain):
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource", details={}
            )
        return await found(request)

    def _has_typed_group(self, path: str) -> bool:
        """Whether a path is below a group of typed kinds, which says what is missing where others do not."""
        match path.split("/"):
            case ["", "api", _, *_]:
                wanted = ""
            case ["", "apis", group, _, *_]:
                wanted = group
            case _:
                return False
        return any(group == wanted for group, _ in self._typed_versions)

    def _knows(self, info: RequestInfo) -> bool:
        """Whether what a request asks for is served here."""
        if not info.resource:
            return info.path in self._handlers
        endpoint = self._endpoints.get((info.group, info.version, info.resource))
        if endpoint is None:
            return False
        return (
            info.subresource in ("", "status", "scale") or info.subresource in endpoint.version.subresources
        )

    def _log(self, request: HTTPRequest, response: HTTPResponse, elapsed: float) -> None:
        user = getattr(request, "user", None)
        logger.info(
            "request",
            extra={
                "audit_id": request.audit_id,
                "verb": request.info.verb,
                "path": request.path,
                "user": user.name if user is not None else "",
                "user_agent": request.headers.get("User-Agent", ""),
                "status": response.status,
                "bytes": response.length,
                "milliseconds": round(elapsed * 1000, 3),
            },
        )


_STRICT_ABOUT_METHODS = re.compile("/version|/api(/.*)?|/apis/[^/]+/.*")
"""Documents that can be read only; the others are served for whatever method."""


def _busy() -> TooManyRequests:
    error = TooManyRequests("Too many requests, please try again later.", details={"retryAfterSeconds": 1})
    error.headers["Retry-After"] = "1"
    return error


def _bad_timeout(value: str) -> APIError:
    return BadRequest(f'invalid timeout specified in the request URL - time: invalid duration "{value}"')


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def warning_headers(warnings: list[str]) -> list[str]:
    """`Warning` header values: quoted, cut short when there are very many, without those that no header can
    hold for their control characters."""
    total, values = 0, []
    shorten = sum(map(len, warnings)) > 4096
    for text in warnings:
        if _CONTROL.search(text):
            continue
        if shorten:
            text = text[:256]
        total += len(text)
        if total > 4096 + 256:
            break
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        values.append(f'299 - "{escaped}"')
    return values


def user_agent(request: HTTPRequest | None) -> str:
    """The client's own name: its User-Agent up to the first slash."""
    return (request.headers.get("User-Agent", "") if request is not None else "").split("/")[0]
