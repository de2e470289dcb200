"""`FaultInjector`: names the requests that a program sends over the network, and injects faults.

It is a middleware of an `APIServer`. Requests of the control plane itself and of the scenario have a user
already, because they do not come from the network; they pass unchanged. The points are those of `Trace`. A
program that runs in real time does not send its requests in the same order each time, so a point is found
again by its name.

- A lost request gets 504, as kube-apiserver responds when a request takes too long; after a request whose
  response is lost, the connection breaks.
- A watch expires with an ERROR event with code 410. In a *gap* it ends, the resource can neither be listed
  nor watched for the delay, and then the watch expires.
- Lists are stale only where the client allows it (`resourceVersion=0`). After a restart, watches that start
  at a stale list are late by the delay.
- Responses are JSON where the client accepts it, which is what the events of a watch are read from.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import parse_qsl, urlencode

import msgspec
from multidict import CIMultiDict

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, decoder
from kubewright.apiserver.encoding.protobuf import MAGIC, builtin_codec
from kubewright.apiserver.encoding.protobuf_wire import ProtobufError
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, Query
from kubewright.apiserver.http.request_info import RequestInfo, parse_request_info
from kubewright.apiserver.router import HTTPHandler
from kubewright.explore.faults import ERRORS, ErrorResponse, Fault, FaultTarget
from kubewright.explore.runs.trace import Trace, TraceEvent
from kubewright.explore.simulation.transport import resource_of
from kubewright.explore.state import IGNORED_RESOURCES, RequestRecord

from .activity import Activity
from .process import ForeignProcess
from .watches import EventStream, decode_event, expired_event

TIMEOUT_SECONDS = 0.2
"""Seconds until the response of a request that times out."""
BODY_LIMIT = 3 * 1024 * 1024

_decode_header = decoder(ObjectHeader).decode


class FaultInjector:
    """A handler of requests in front of that of an API server."""

    def __init__(
        self,
        process: ForeignProcess,
        activity: Activity,
        *,
        revision: Callable[[], int],
        plan: Mapping[str, Fault],
    ) -> None:
        """`revision` returns the revision of the last change of the store; `plan` has faults by `place`."""
        self.trace = Trace()
        self.step = 1
        """Task switches are not counted."""
        self.requests: list[RequestRecord] = []
        self.injected: list[Fault] = []
        """Faults whose point was reached."""
        self.streams: set[EventStream] = set()
        """Watches of the running process."""
        self.pending = 0
        """Number of requests, events and restarts that a fault delays."""
        self.has_requests = False
        """Whether the program has sent a request, of any kind."""
        self.changed_at: dict[str, int] = {}
        """Revision of the last change of each resource."""
        self._plan = plan
        self._handle: HTTPHandler
        self._process = process
        self._activity = activity
        self._revision = revision
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        self._expired: dict[str, int] = {}
        self._blocked: dict[str, float] = {}
        self._outage_until = 0.0
        self._lagging_until = 0.0
        self._lagging_revision = 0

    def wrap(self, handle: HTTPHandler) -> HTTPHandler:
        """Serve requests with a handler; a middleware."""
        self._handle = handle
        return self

    @property
    def watched(self) -> frozenset[str]:
        """What the running process watches."""
        return frozenset(each.watch for each in self.streams)

    def record(
        self, kind: str, process: str, text: str, *, revision: int = 0, body: bytes = b""
    ) -> TraceEvent:
        """Append an event to the trace."""
        event = TraceEvent(
            len(self.trace.events),
            self._loop.time() - self.started,
            0,
            0,
            process,
            kind,
            text,
            revision=revision,
            store_revision=self._revision(),
            body=body,
        )
        self.trace.append(event)
        return event

    def _fault_at(self, event: TraceEvent) -> Fault | None:
        """Return the fault that is planned for a point, and record it."""
        fault = self._plan.get(event.place)
        if fault is not None:
            self.injected.append(fault)
            self.record("fault", event.process, str(fault))
        return fault

    async def __call__(self, request: HTTPRequest) -> HTTPResponse:
        """Serve a request, with the fault that is planned for it."""
        if hasattr(request, "user"):
            return await self._handle(request)
        if not self.has_requests:
            self.has_requests = True
            self._activity.restart()
        if self._outage_until > self._loop.time():
            return _break_connection(request)
        info = parse_request_info(request)
        kind = _kind_of(info)
        if not kind:
            self._activity.read(f"{request.method} {request.path}")
            return await self._handle(request)
        _prefer_json(request)
        text = _describe(info)
        if kind == "write":
            await request.prefetch(BODY_LIMIT)
            if info.verb == "create" and not info.name:
                text = _with_name(text, info, _name_in(request.received_body))
            self._activity.changed()
        else:
            self._activity.read(f"{text}?{request.query.raw}")
        event = self.record(kind, self._process.name, text, body=request.received_body)
        event.accepts_stale = info.verb == "list" and accepts_stale(request.query)
        fault = self._fault_at(event)
        if kind != "write":
            await self._wait_until_unblocked(request.path)
        if fault is None:
            return await self._serve(request, info, event)
        target = _RequestTarget(self, request, event)
        try:
            await fault.before(target)
            response = await self._serve(request, info, event, is_stale=target.is_stale)
            await fault.after(target)
        except _InjectedResponse as injected:
            return injected.response
        return response

    async def _serve(
        self, request: HTTPRequest, info: RequestInfo, event: TraceEvent, *, is_stale: bool = False
    ) -> HTTPResponse:
        if info.verb == "watch":
            return await self._watch(request, info, event)
        before = self._revision()
        if event.accepts_stale:
            self._make_stale(request, info, is_stale)
        response = await self._handle(request)
        event.status, event.ended = response.status, 1
        name = info.name
        if event.kind == "write" and response.status < 300 and "json" in response.content_type:
            with contextlib.suppress(DecodeError, ValueError):
                metadata = _decode_header(response.body).metadata
                event.revision = int(metadata.resource_version or 0)
                name = name or metadata.name or ""
                self.trace.add_generated(name, metadata.generate_name or "")
            if info.verb == "create" and not info.name:
                event.text = _with_name(_describe(info), info, name)
        elif info.verb == "list" and response.status < 300:
            event.revision = _list_revision(response)
        self.requests.append(
            RequestRecord.of(
                event,
                info,
                actor="operator",
                name=name,
                code=response.status,
                is_changed=info.verb not in ("update", "patch") or event.revision > before,
            )
        )
        self._activity.restart()
        return response

    # Faults of requests

    def crash(self, *, lag: float, revision: int) -> None:
        """Kill the program; with `lag`, lists of the next one can be as of a revision."""
        if lag:
            self._lagging_until, self._lagging_revision = self._loop.time() + lag, revision
        self.record("crash", self._process.name, "killed")
        self.streams.clear()
        self._activity.changed()
        self._process.kill()

    def disconnect(self, seconds: float) -> None:
        """Accept no connections for some time."""
        self.pending += 1
        self._loop.call_later(seconds, self._end_delay)
        self._outage_until = self._loop.time() + seconds
        for each in list(self.streams):
            each.drop()

    def _make_stale(self, request: HTTPRequest, info: RequestInfo, is_stale: bool) -> None:
        """Let a list that accepts any revision have an older one."""
        revision = 0
        if is_stale:
            revision = self.changed_at.get(resource_of(info), 1) - 1
        elif self._lagging_until > self._loop.time():
            revision = self._lagging_revision
        if revision:
            values = dict(parse_qsl(request.query.raw, keep_blank_values=True))
            values.update(resourceVersion=str(revision), resourceVersionMatch="Exact")
            request.query = Query(urlencode(values))

    async def sleep(self, seconds: float) -> None:
        """Let time pass, in which the program is not idle."""
        with self._delaying():
            await asyncio.sleep(max(seconds, 0.0))

    @contextlib.contextmanager
    def _delaying(self) -> Iterator[None]:
        self.pending += 1
        try:
            yield
        finally:
            self._end_delay()

    def _end_delay(self) -> None:
        self.pending -= 1
        self._activity.restart()

    async def _wait_until_unblocked(self, path: str) -> None:
        """Wait for the end of the gap of a resource."""
        until = self._blocked.get(path, 0.0)
        if until > self._loop.time():
            await self.sleep(until - self._loop.time())

    # Watches

    async def _watch(self, request: HTTPRequest, info: RequestInfo, event: TraceEvent) -> HTTPResponse:
        version = request.query.get("resourceVersion")
        if version.isdecimal() and 0 < int(version) < self._expired.get(request.path, 0):
            event.status, event.ended = 200, 1
            return HTTPResponse(200, expired_event())
        process, revision = self._process.name, self._revision()
        response = await self._handle(request)
        event.status, event.ended = response.status, 1
        if response.stream is None or "json" not in response.content_type:
            return response
        sends_initial = request.query.get("sendInitialEvents")
        stream = EventStream(
            response.stream,
            self._deliver,
            watch=f"{_describe(info)} {info.label_selector} {info.field_selector}".rstrip(),
            path=request.path,
            resource=resource_of(info),
            process=process,
            is_initial=sends_initial == "true" or (not sends_initial and version in ("", "0")),
            revision=revision,
            on_close=self._closed,
        )
        if process == self._process.name and self._process.is_running:
            self.streams.add(stream)
        response.stream = stream
        return response

    def _closed(self, stream: EventStream) -> None:
        if stream in self.streams:
            self.streams.discard(stream)
            self._activity.restart()

    async def _deliver(self, stream: EventStream, line: bytes) -> bytes:
        """Record an event and inject its fault; return what is sent, empty at the end of the watch."""
        if stream.process != self._process.name or not self._process.is_running:
            return b""  # the program was killed, and its connection is not closed yet
        seen = decode_event(line)
        if seen is None or seen.type == "BOOKMARK":
            if seen is not None and seen.ends_initial_events:
                stream.is_initial = False
            return line + b"\n"
        self._activity.restart()
        self.trace.add_generated(seen.name, seen.generate_name)
        text = f"{seen.type} {stream.resource} {seen.where}"
        if stream.is_initial and seen.revision <= stream.revision:
            return line + b"\n"
        if seen.revision > self._lagging_revision and self._lagging_until > self._loop.time():
            await self.sleep(self._lagging_until - self._loop.time())
        event = self.record("delivery", stream.process, text, revision=seen.revision, body=seen.body)
        fault = self._fault_at(event)
        target = _DeliveryTarget(self, stream, line + b"\n", event)
        if fault is not None:
            await fault.before(target)
        return target.sent

    def move_to_end(self, event: TraceEvent) -> None:
        """Note that a delivery has been seen only now."""
        events = self.trace.events
        events.remove(event)
        events.append(event)
        event.time, event.store_revision = self._loop.time() - self.started, self._revision()
        for number, each in enumerate(events):
            each.number = number

    def expire(self, stream: EventStream, event: TraceEvent, seconds: float) -> None:
        """Make all resource versions before an event too old for watches, and block them for some time."""
        self._expired[stream.path] = event.revision
        self._blocked[stream.path] = self._loop.time() + seconds


class _InjectedResponse(Exception):
    """A fault has responded to a request instead of the server."""

    def __init__(self, response: HTTPResponse) -> None:
        super().__init__(response.status)
        self.response = response


class _RequestTarget(FaultTarget):
    """A request of the program."""

    def __init__(self, injector: FaultInjector, request: HTTPRequest, event: TraceEvent) -> None:
        self.event = event
        self.is_stale = False
        self._injector = injector
        self._request = request

    async def wait(self, seconds: float) -> None:
        """Delay the request or its response."""
        await self._injector.sleep(seconds)

    async def respond(self, error: ErrorResponse) -> None:
        """End the request with an error response."""
        self.event.status, self.event.ended = error.status, 1
        raise _InjectedResponse(_error_response(error))

    async def time_out(self) -> None:
        """Respond 504, or break the connection if the request has had its effect."""
        await self._injector.sleep(TIMEOUT_SECONDS)
        if not self.event.ended:
            await self.respond(ERRORS["timeout"])
        self.event.ended = 0
        self._break()

    async def disconnect(self, seconds: float) -> None:
        """Break the connections of the program."""
        self._injector.disconnect(seconds)
        self._break()

    async def make_stale(self) -> None:
        """Let a list return the state before the last change of its resource."""
        self.is_stale = True

    async def crash(self, *, lag: float = 0.0) -> None:
        """Kill the program."""
        self._injector.crash(lag=lag, revision=max(self.event.revision - 1, 1))
        self._break()

    def _break(self) -> None:
        raise _InjectedResponse(_break_connection(self._request))


class _DeliveryTarget(FaultTarget):
    """An event of a watch, before it is sent."""

    def __init__(self, injector: FaultInjector, stream: EventStream, line: bytes, event: TraceEvent) -> None:
        self.event = event
        self.sent = line
        """What is sent; empty ends the watch."""
        self._injector = injector
        self._stream = stream

    async def wait(self, seconds: float) -> None:
        """Delay the event."""
        await self._injector.sleep(seconds)
        self._injector.move_to_end(self.event)

    async def break_watch(self) -> None:
        """Break the connection of the watch."""
        self._stream.drop()
        self.sent = b""

    async def expire_watch(self, seconds: float = 0.0) -> None:
        """End the watch; the event cannot be received any more."""
        self._injector.expire(self._stream, self.event, seconds)
        if seconds:
            self.sent = b""
        else:
            self._stream.end()
            self.sent = expired_event()


def accepts_stale(query: Query) -> bool:
    """Whether a list can have any revision."""
    return query.get("resourceVersion") == "0" and query.get("resourceVersionMatch") != "Exact"


def _kind_of(info: RequestInfo) -> str:
    """Return the kind of the point of a request; empty if it is not a point."""
    if not info.resource or info.resource in IGNORED_RESOURCES:
        return ""
    if info.group in ("authorization.k8s.io", "authentication.k8s.io"):
        return ""
    if info.verb == "watch":
        return "watch"
    return "read" if info.verb in ("get", "list") else "write"


def _describe(info: RequestInfo) -> str:
    resource = resource_of(info)
    if info.subresource:
        resource += f"/{info.subresource}"
    where = "/".join(filter(None, (info.namespace, info.name)))
    return f"{info.verb} {resource} {where}".rstrip()


def _with_name(text: str, info: RequestInfo, name: str) -> str:
    """Return the text of a create with the name of the object."""
    return f"{text}{'/' if info.namespace else ' '}{name}" if name else text


def _name_in(body: bytes) -> str:
    """Return the name in the body of a create, or the prefix of the name to generate."""
    try:
        if body.startswith(MAGIC):
            found = builtin_codec().decode(body).get("metadata") or {}
            name, prefix = found.get("name"), found.get("generateName")
        else:
            metadata = _decode_header(body).metadata
            name, prefix = metadata.name, metadata.generate_name
    except (DecodeError, ProtobufError, ValueError):
        return ""
    return name or (f"{prefix}*" if prefix else "")


class _ListHeader(msgspec.Struct, gc=False):
    metadata: dict[str, object] = {}


_decode_list = msgspec.json.Decoder(_ListHeader).decode


def _list_revision(response: HTTPResponse) -> int:
    if "json" not in response.content_type:
        return 0
    try:
        return int(str(_decode_list(response.body).metadata.get("resourceVersion") or 0))
    except (msgspec.DecodeError, ValueError):
        return 0


def _prefer_json(request: HTTPRequest) -> None:
    """Remove binary encodings from the accepted ones, if the client also accepts JSON."""
    accepted = [each.strip() for each in request.headers.get("Accept", "").split(",")]
    binary = [each for each in accepted if "protobuf" in each or "cbor" in each]
    if binary and any("json" in each or "*/*" in each for each in accepted):
        rest = [each for each in accepted if each not in binary]
        headers = CIMultiDict(request.headers)
        headers["Accept"] = ", ".join(rest)
        request.headers = headers


def _break_connection(request: HTTPRequest) -> HTTPResponse:
    """Close the connection of a request; return a response, which is not sent."""
    transport = getattr(request.native, "transport", None)
    if transport is not None:
        transport.abort()
    return _error_response(ERRORS["unavailable"])


def _error_response(error: ErrorResponse) -> HTTPResponse:
    headers: dict[str, str | list[str]] = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return HTTPResponse(error.status, msgspec.json.encode(error.body()), headers=headers)
