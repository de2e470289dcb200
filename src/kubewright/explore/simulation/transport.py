"""Transports of a simulated cluster: requests of the operator are points at which faults are injected.

Each request runs in a task of the control plane. The process that sent it can be killed or cancelled while
the server completes it, as with a real server. Requests of the operator take one millisecond of virtual time
(with a seed other than 0, a random time), so that a loop of requests advances the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from multidict import CIMultiDict

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, decoder
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.http.request_info import RequestInfo, parse_request_info
from kubewright.apiserver.in_process import ADMINISTRATOR, InProcessTransport
from kubewright.client.errors import ConnectionFailed
from kubewright.client.transport.interface import APIResponse, Headers, ResponseStream, WebSocketConnection
from kubewright.controller.controller import current_reconcile
from kubewright.explore.faults import ERRORS, ErrorResponse
from kubewright.explore.state import IGNORED_RESOURCES, RequestRecord

from .process_target import ProcessTarget
from .streams import WatchStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.server import APIServer
    from kubewright.explore.runs.trace import TraceEvent

    from .cluster import SimulatedCluster
    from .processes import OperatorProcess

R = TypeVar("R")

REQUEST_TIMEOUT = 30.0
"""Virtual seconds after which a lost request fails, if the client has no shorter timeout."""
_READS = frozenset(("get", "list"))
_decode_header = decoder(ObjectHeader).decode


async def run_on_server(cluster: SimulatedCluster, request: Callable[[], Awaitable[R]]) -> R:
    """Await a request in a task of the control plane, which completes even if the caller is cancelled."""

    async def complete() -> R:
        return await request()

    return await asyncio.shield(cluster.loop.create_task(complete(), context=contextvars.Context()))


class InjectedResponse(Exception):
    """A fault has responded to a request instead of the server."""

    def __init__(self, response: APIResponse) -> None:
        super().__init__(response.status)
        self.response = response


class RequestTarget(ProcessTarget):
    """A request of a process."""

    def __init__(self, process: OperatorProcess, event: TraceEvent, timeout: float | None) -> None:
        super().__init__(process, event)
        self.is_stale = False
        """Whether the list has the state before the last change."""
        self._timeout = min(timeout or REQUEST_TIMEOUT, REQUEST_TIMEOUT)

    async def respond(self, error: ErrorResponse) -> None:
        """End the request with an error response."""
        await asyncio.sleep(self.cluster.LATENCY)
        raise InjectedResponse(_error_response(error))

    async def time_out(self) -> None:
        """End the request without a response."""
        await asyncio.sleep(self._timeout)
        raise ConnectionFailed("connection timed out")

    async def make_stale(self) -> None:
        """Let a list return the state before the last change of its resource."""
        self.is_stale = True


class OperatorTransport:
    """Transport of one process of the operator."""

    def __init__(
        self,
        process: OperatorProcess,
        user: User = ADMINISTRATOR,
        *,
        server: InProcessTransport | None = None,
    ) -> None:
        """`server` sends the requests, by default to the API server."""
        self._process = process
        self._cluster = process.cluster
        self._server = server or InProcessTransport(process.cluster.plane.server, user)

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        """Send a request, with the fault that is planned for it."""
        info = _parse(method, path, query)
        event = self._record(info, method, path, query, body)
        self._process.schedule.begin_request(event)
        try:
            return await self._send(info, event, method, path, query, headers, body, timeout)
        finally:
            await self._process.schedule.end_request(event)

    async def _send(
        self,
        info: RequestInfo,
        event: TraceEvent,
        method: str,
        path: str,
        query: str,
        headers: Headers | None,
        body: bytes,
        timeout: float | None,
    ) -> APIResponse:
        cluster = self._cluster
        self._check_reachable(info)
        event.accepts_stale = info.verb == "list" and _accepts_stale(query)
        fault = cluster.fault_at(event)
        target = RequestTarget(self._process, event, timeout)
        if fault is not None:
            try:
                await fault.before(target)
            except InjectedResponse as injected:
                self._finish(event, info, injected.response)
                return injected.response
        query = self._paged_query(info, self._lagging_query(info, query, target))
        before = cluster.revision
        delay = cluster.latency()
        if delay:
            await asyncio.sleep(delay)
        response = await run_on_server(
            cluster, lambda: self._server.send(method, path, query, headers, body, timeout)
        )
        self._finish(event, info, response, before)
        if fault is not None:
            await fault.after(target)
        await asyncio.sleep(cluster.latency() or cluster.LATENCY)
        return response

    async def stream(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> ResponseStream:
        """Start a watch; other streams are not points."""
        cluster, process = self._cluster, self._process
        info = _parse(method, path, query)
        event = self._record(info, method, path, query, body)
        self._check_reachable(info)
        fault = cluster.fault_at(event)
        if fault is not None:
            try:
                await fault.before(RequestTarget(process, event, timeout))
            except InjectedResponse as injected:
                event.status, event.ended = injected.response.status, cluster.loop.step
                return _ErrorStream(injected.response)
        if info.verb == "watch" and path in process.unwatchable:
            if process.unwatchable[path] > cluster.loop.now:
                raise ConnectionFailed("connection refused", sent=False)
            del process.unwatchable[path]
            if "sendInitialEvents" not in query:
                return _ErrorStream(_error_response(ERRORS["expired"]))
        source = await run_on_server(
            cluster,
            lambda: self._server.stream(method, path, query, headers, body, timeout, None),
        )
        event.status, event.ended = source.status, cluster.loop.step
        if info.verb != "watch" or source.status >= 400:
            return source
        return WatchStream(
            process,
            source,
            path=path,
            resource=resource_of(info),
            initial="sendInitialEvents=true" in query,
            idle_timeout=idle_timeout,
        )

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        """Open a WebSocket."""
        return await self._server.websocket(path, query, headers, protocols, timeout)

    def invalidate_credentials(self) -> bool:
        """Do nothing: there are no credentials."""
        return False

    async def aclose(self) -> None:
        """Do nothing: the server keeps running."""

    # Points

    def _record(self, info: RequestInfo, method: str, path: str, query: str, body: bytes) -> TraceEvent:
        cluster = self._cluster
        kind = _kind_of(info)
        text = describe_request(info, body) if info.resource else f"{method} {path}"
        event = cluster.record(kind, self._process.name, text, body=body)
        reconcile = current_reconcile.get()
        if reconcile is not None:
            event.reconcile = f"{reconcile.controller} {reconcile.request} {reconcile.id}"
        cluster.count_request(kind, text)
        return event

    def _finish(
        self, event: TraceEvent, info: RequestInfo, response: APIResponse, before: int | None = None
    ) -> None:
        """Record the response; `before` is the revision of the store at the request, if it was received."""
        cluster = self._cluster
        event.status, event.ended = response.status, cluster.loop.step
        name = info.name
        if event.kind == "read" and response.status < 300:
            with contextlib.suppress(DecodeError, ValueError):
                event.revision = int(_decode_header(response.body).metadata.resource_version or 0)
        elif event.kind in ("write", "lease") and response.status < 300:
            try:
                metadata = _decode_header(response.body).metadata
            except DecodeError:
                metadata = None
            if metadata is not None:
                event.revision = int(metadata.resource_version or 0)
                name = name or metadata.name or ""
                cluster.trace.add_generated(name, metadata.generate_name or "")
                if info.verb == "create" and metadata.name and not event.text.endswith(metadata.name):
                    event.text += metadata.name
            if info.verb == "delete" and before is not None:
                # The response has no revision, or that of the object; what is stored is a later one.
                event.revision = max(event.revision, cluster.revision if cluster.revision > before else 0)
        is_changed = info.verb not in ("update", "patch") or before is None or event.revision > before
        if event.kind == "write" and before is None:
            is_changed = False
        cluster.requests.append(
            RequestRecord.of(
                event,
                info,
                actor="operator",
                replica=self._process.replica,
                name=name,
                code=response.status,
                is_changed=is_changed,
            )
        )

    def _check_reachable(self, info: RequestInfo) -> None:
        process, now = self._process, self._cluster.loop.now
        if process.unreachable_until > now:
            raise ConnectionFailed("connection refused", sent=False)
        if info.resource == "leases" and process.lease_unreachable_until > now:
            raise ConnectionFailed("connection refused", sent=False)

    def _lagging_query(self, info: RequestInfo, query: str, target: RequestTarget) -> str:
        """Return the query of a list for an older revision, if the server lags and the request allows it.

        A list with `resourceVersion=0` accepts any revision, one with another version that revision or a
        later one. Without `resourceVersion` it must return the latest state, also on a lagging server.
        """
        process, cluster = self._process, self._cluster
        if target.is_stale and target.event.accepts_stale:
            revision = cluster.changed_resources.get(resource_of(info), 1) - 1
        elif info.verb == "list" and process.lagging_until > cluster.loop.now:
            revision = process.lagging_revision
        else:
            return query
        values = dict(parse_qsl(query, keep_blank_values=True))
        wanted = values.get("resourceVersion", "")
        exact = values.get("resourceVersionMatch") == "Exact"
        if not wanted.isdecimal() or exact or int(wanted) > revision:
            return query
        values.update(resourceVersion=str(revision), resourceVersionMatch="Exact")
        return urlencode(values)

    def _paged_query(self, info: RequestInfo, query: str) -> str:
        """Return the query of a list with smaller pages, which a server may return."""
        size = self._cluster.page_size
        if not size or info.verb != "list" or "limit=" not in query:
            return query
        values = dict(parse_qsl(query, keep_blank_values=True))
        if int(values.get("limit") or 0) > size:
            values["limit"] = str(size)
        return urlencode(values)


class RequestRecorder(Protocol):
    """What records the requests of a scenario."""

    @property
    def requests(self) -> list[RequestRecord]:
        """Requests of a run."""

    @property
    def step(self) -> int:
        """Number of task switches so far."""

    def record(self, kind: str, process: str, text: str, *, body: bytes = b"") -> TraceEvent:
        """Append an event to the trace."""


class ScenarioTransport(InProcessTransport):
    """Transport of the scenario: requests are recorded, without faults."""

    def __init__(self, server: APIServer, recorder: RequestRecorder) -> None:
        super().__init__(server, ADMINISTRATOR)
        self._storage = server.storage
        self._recorder = recorder

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        """Send a request."""
        before = await self._storage.revision()
        response = await super().send(method, path, query, headers, body, timeout)
        info = _parse(method, path, query)
        if info.verb not in ("get", "list", "watch") and info.resource:
            recorder = self._recorder
            event = recorder.record("request", "scenario", describe_request(info, body), body=body)
            event.status, event.ended = response.status, recorder.step
            if response.status < 300:
                # The revision of the write, or 0 if the server had nothing to change.
                after = await self._storage.revision()
                event.revision = after if after > before else 0
            recorder.requests.append(RequestRecord.of(event, info, actor="scenario", code=response.status))
        return response


class _ErrorStream:
    """The stream of an error response."""

    def __init__(self, response: APIResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    def __aiter__(self) -> _ErrorStream:
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return body

    async def aclose(self) -> None:
        """Do nothing."""


def _error_response(error: ErrorResponse) -> APIResponse:
    headers = CIMultiDict({"Content-Type": "application/json"})
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return APIResponse(error.status, headers, msgspec.json.encode(error.body()))


def _parse(method: str, path: str, query: str) -> RequestInfo:
    return parse_request_info(HTTPRequest(method, path, query=query))


def _kind_of(info: RequestInfo) -> str:
    if not info.resource:
        return "request"
    if info.resource == "leases":
        return "request" if info.verb in _READS or info.verb == "watch" else "lease"
    if info.verb in _READS:
        return "read"
    if info.verb == "watch":
        return "watch"
    if info.resource in IGNORED_RESOURCES or info.group in ("authorization.k8s.io", "authentication.k8s.io"):
        return "event"
    return "write"


def resource_of(info: RequestInfo) -> str:
    """Return the resource of a request with its group."""
    return f"{info.resource}.{info.group}" if info.group else info.resource


def _accepts_stale(query: str) -> bool:
    """Whether a list can have any revision."""
    values = dict(parse_qsl(query))
    return values.get("resourceVersion") == "0" and values.get("resourceVersionMatch") != "Exact"


def describe_request(info: RequestInfo, body: bytes) -> str:
    """Return verb, resource, namespace and name of a request."""
    resource = resource_of(info)
    if info.subresource:
        resource += f"/{info.subresource}"
    name = info.name
    if not name and info.verb == "create":
        try:
            name = _decode_header(body).metadata.name or ""
        except (DecodeError, AttributeError):
            name = ""
    where = f"{info.namespace}/{name}" if info.namespace else name
    return f"{info.verb} {resource} {where}".rstrip()
