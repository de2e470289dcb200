"""`FaultInjector`: numbers the requests that an operator sends over the network, and injects faults.

It takes the place of `APIServer.handle`. Requests of the control plane itself and of the scenario have a user
already, because they do not come from the network; they pass unchanged. The points are those of `Trace`: `w3`
is the third write, `d7` the seventh watch event.

Timeouts are responses with status 504, as kube-apiserver sends them when a request takes too long; the write
has been stored or not. An expired watch ends, and the next request for it gets 410 Gone. Lists are only stale
where the client allows it (`resourceVersion=0`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from kubewright.api.codec import DecodeError, ObjectHeader, decoder
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, Query
from kubewright.apiserver.http.request_info import RequestInfo, parse_request_info
from kubewright.apiserver.router import HTTPHandler
from kubewright.explore.faults import ERRORS, ErrorResponse, Fault
from kubewright.explore.state import IGNORED_RESOURCES, RequestRecord
from kubewright.explore.trace import POINT_KINDS, Trace, TraceEvent

from .process import ForeignProcess

ACTIONS: Final = frozenset(
    (
        "crash-before",
        "crash-after",
        "error",
        "lost-request",
        "lost-response",
        "hold",
        "reset",
        "expired",
        "stale",
    )
)
"""Faults that need no control of the program's event loop."""
TIMEOUT_SECONDS = 0.2
"""Seconds until the response of a request that times out."""

_decode_header = decoder(ObjectHeader).decode


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class FaultInjector:
    """A handler of requests in front of that of an API server."""

    def __init__(self, handle: HTTPHandler, process: ForeignProcess, *, revision: Callable[[], int]) -> None:
        """`revision` returns the revision of the last change of the store."""
        self.trace = Trace()
        self.requests: list[RequestRecord] = []
        self.plan: Mapping[str, Fault] = {}
        self.watches = 0
        """Number of watches that were started."""
        self.is_watching = False
        """Whether the program has started a watch since it was killed the last time."""
        self.last_request = 0.0
        """Time of the event loop of the last request that is a point."""
        self._handle = handle
        self._process = process
        self._revision = revision
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        self._expired: set[str] = set()
        self._lagging_until = 0.0
        self._lagging_revision = 0

    def begin(self, plan: Mapping[str, Fault]) -> None:
        """Begin to number points: what the program did to start is not part of the trace."""
        self.trace = Trace()
        self.requests.clear()
        self.plan = plan
        self.started = self._loop.time()

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
        if kind in POINT_KINDS:
            event.point = self.trace.next_point(kind)
        self.trace.events.append(event)
        return event

    async def __call__(self, request: HTTPRequest) -> HTTPResponse:
        """Serve a request, with the fault that is planned for it."""
        if hasattr(request, "user"):
            return await self._handle(request)
        info = parse_request_info(request)
        kind = _kind_of(info)
        if not kind:
            return await self._handle(request)
        event = self.record(kind, self._process.name, _describe(info))
        self.last_request = self._loop.time()
        fault = self.plan.get(event.point)
        response = await self._inject(fault, event) if fault is not None else None
        if response is None:
            response = await self._serve(request, info, event)
        if fault is not None:
            response = await self._inject_after(fault, event, response)
        return response

    async def _serve(self, request: HTTPRequest, info: RequestInfo, event: TraceEvent) -> HTTPResponse:
        before = self._revision()
        if info.verb == "watch":
            return await self._watch(request, info, event)
        self._allow_stale(request, info)
        response = await self._handle(request)
        event.status, event.ended = response.status, 1
        name = info.name
        if event.kind == "write" and response.status < 300 and "json" in response.content_type:
            try:
                metadata = _decode_header(response.body).metadata
                event.revision = int(metadata.resource_version or 0)
                name = name or metadata.name or ""
            except (DecodeError, ValueError):
                pass
            if info.verb == "create" and name and not info.name:
                event.text = f"{event.text.rstrip('/')}{'/' if info.namespace else ' '}{name}"
        self.requests.append(
            RequestRecord(
                number=event.number,
                time=event.time,
                actor="operator",
                verb=info.verb,
                group=info.group,
                resource=info.resource,
                subresource=info.subresource,
                namespace=info.namespace,
                name=name,
                code=response.status,
                is_changed=info.verb not in ("update", "patch") or event.revision > before,
            )
        )
        return response

    # Faults

    async def _inject(self, fault: Fault, event: TraceEvent) -> HTTPResponse | None:
        self.record("fault", self._process.name, str(fault))
        if fault.action == "crash-before":
            self._crash()
            return _error_response(ERRORS["unavailable"])  # the killed program does not receive it
        if fault.action in ("error", "lost-request"):
            lost = fault.action == "lost-request"
            error = ERRORS["timeout" if lost else fault.value]
            event.status, event.ended = error.status, 1
            if lost:
                await asyncio.sleep(TIMEOUT_SECONDS)
            return _error_response(error)
        return None

    async def _inject_after(self, fault: Fault, event: TraceEvent, response: HTTPResponse) -> HTTPResponse:
        if fault.action == "lost-response":
            await asyncio.sleep(TIMEOUT_SECONDS)
            return _error_response(ERRORS["timeout"])
        if fault.action in ("crash-after", "stale"):
            if fault.action == "stale":
                self._lagging_until = self._loop.time() + fault.seconds
                self._lagging_revision = max(event.revision - 1, 1)
            self._crash()
        return response

    def _crash(self) -> None:
        self.record("crash", self._process.name, "killed")
        self.is_watching = False
        self._process.kill()

    def _allow_stale(self, request: HTTPRequest, info: RequestInfo) -> None:
        """Let a lagging server respond to a list that accepts any revision."""
        if info.verb != "list" or self._lagging_until <= self._loop.time():
            return
        values = dict(parse_qsl(request.query.raw, keep_blank_values=True))
        if values.get("resourceVersion") != "0" or values.get("resourceVersionMatch") == "Exact":
            return
        values.update(resourceVersion=str(self._lagging_revision), resourceVersionMatch="Exact")
        request.query = Query(urlencode(values))

    # Watches

    async def _watch(self, request: HTTPRequest, info: RequestInfo, event: TraceEvent) -> HTTPResponse:
        if request.path in self._expired:
            self._expired.discard(request.path)
            event.status, event.ended = 410, 1
            return _error_response(ERRORS["expired"])
        response = await self._handle(request)
        event.status, event.ended = response.status, 1
        self.watches += 1
        self.is_watching = True
        if response.stream is not None:
            resource = f"{info.resource}.{info.group}" if info.group else info.resource
            is_json = "json" in response.content_type
            response.stream = self._events(response.stream, resource, request.path, is_json=is_json)
        return response

    async def _events(
        self, source: AsyncIterator[bytes], resource: str, path: str, *, is_json: bool
    ) -> AsyncIterator[bytes]:
        process = self._process.name
        incomplete = b""
        async for chunk in source:
            if not is_json:
                if await self._is_delivered(process, resource, path, b""):
                    yield chunk
                    continue
                return
            *lines, incomplete = (incomplete + chunk).split(b"\n")
            for line in lines:
                if line:
                    if not await self._is_delivered(process, resource, path, line):
                        return
                    yield line + b"\n"

    async def _is_delivered(self, process: str, resource: str, path: str, line: bytes) -> bool:
        """Record an event and inject its fault; return whether the watch continues."""
        text, revision, body = f"event {resource}", 0, b""
        if line:
            envelope = _decode_envelope(line)
            if envelope.type in ("BOOKMARK", "ERROR"):
                return True
            body = bytes(envelope.object)
            metadata = _decode_header(body).metadata
            name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            text = f"{envelope.type} {resource} {name}"
            revision = int(metadata.resource_version or 0)
        event = self.record("delivery", process, text, revision=revision, body=body)
        fault = self.plan.get(event.point)
        if fault is None:
            return True
        self.record("fault", process, str(fault))
        if fault.action == "hold":
            await asyncio.sleep(fault.seconds)
            return True
        if fault.action == "expired":
            self._expired.add(path)
        return fault.action not in ("expired", "reset")


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
    resource = f"{info.resource}.{info.group}" if info.group else info.resource
    if info.subresource:
        resource += f"/{info.subresource}"
    where = f"{info.namespace}/{info.name}" if info.namespace else info.name
    return f"{info.verb} {resource} {where}".rstrip()


def _error_response(error: ErrorResponse) -> HTTPResponse:
    headers: dict[str, str | list[str]] = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return HTTPResponse(error.status, msgspec.json.encode(error.body()), headers=headers)


__all__ = ["ACTIONS", "FaultInjector"]
