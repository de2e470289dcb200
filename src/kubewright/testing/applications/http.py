"""`FakeHTTP`: an application with an HTTP API.

    queue = FakeHTTP("queue", port=8080)

    @queue.route("GET", "/queues/{name}")
    def get_queue(request: FakeRequest) -> object:
        return request.data.get(request.path["name"]) or 404

    @queue.route("GET", "/health", state="starting")
    def starting(request: FakeRequest) -> object:
        return 503

A handler returns what the response contains: a dict or list as JSON, a text, a status, or a status and a
value. Handlers of a state come before those of all states. `GET` and `HEAD` are reads.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .application import CallFailed, FakeApplication, FakeReplica

if TYPE_CHECKING:
    from aiohttp import web

Handler = Callable[["FakeRequest"], Any]
HandlerT = TypeVar("HandlerT", bound=Handler)


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """A request to a fake application."""

    method: str
    url: str
    """Path without the query."""
    replica: FakeReplica
    path: dict[str, str]
    """Values of the placeholders of the route."""
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def data(self) -> dict[str, Any]:
        """The data of the replica."""
        return self.replica.data

    def json(self) -> Any:
        """Return the decoded body; a body that is not JSON is an error of the caller (400)."""
        try:
            return json.loads(self.body or b"null")
        except ValueError:
            raise CallFailed("the body is not JSON", 400) from None


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    pattern: re.Pattern[str]
    state: str | None
    handler: Handler


class FakeHTTP(FakeApplication):
    """An HTTP application."""

    def __init__(self, service: str, **options: Any) -> None:
        """`options` are those of `FakeApplication`."""
        super().__init__(service, **options)
        self._routes: list[_Route] = []

    def route(self, method: str, path: str, *, state: str | None = None) -> Callable[[HandlerT], HandlerT]:
        """Call the function for requests of a path; with `state`, only in that state."""
        parts = re.split(r"\{(\w+)\}", path)
        text = "".join(
            f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )

        def register(handler: HandlerT) -> HandlerT:
            self._routes.append(_Route(method.upper(), re.compile(text), state, handler))
            return handler

        return register

    async def handle(
        self, replica: FakeReplica, request: FakeRequest, process: object = None
    ) -> tuple[int, bytes, str]:
        """Return status, body and content type of the response to a request."""
        is_read = request.method in ("GET", "HEAD")
        try:
            operation = f"{request.method} {request.url}"
            async with self.call(replica, operation, is_read=is_read, process=process):
                with replica.access(is_read=is_read):
                    found = self._call(request)
                    if inspect.isawaitable(found):
                        found = await found
                    return _response(found)
        except CallFailed as error:
            return error.status, f"{error}\n".encode(), "text/plain"

    def _call(self, request: FakeRequest) -> Any:
        routes = sorted(self._routes, key=lambda each: each.state is None)
        is_path = False
        for route in routes:
            match = route.pattern.fullmatch(request.url)
            if match is None or route.state not in (None, self.state):
                continue
            is_path = True
            if route.method == request.method:
                request.path.update(match.groupdict())
                return route.handler(request)
        raise CallFailed("method not allowed" if is_path else "not found", 405 if is_path else 404)

    def protocol(self, replica: FakeReplica, process: object = None) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        from aiohttp import web

        async def serve(request: web.BaseRequest) -> web.StreamResponse:
            transport = request.transport
            if transport is not None:
                replica.connections.add(transport)
            given = FakeRequest(
                request.method,
                request.path,
                replica,
                {},
                dict(request.query),
                dict(request.headers),
                await request.read(),
            )
            try:
                status, body, content_type = await self.handle(replica, given, process)
            except ConnectionError:
                if transport is not None:
                    transport.close()
                raise
            return web.Response(status=status, body=body, content_type=content_type)

        return web.Server(serve, access_log=None)()


def _response(found: Any) -> tuple[int, bytes, str]:
    status, value = 200, found
    if isinstance(found, tuple):
        status, value = found
    elif isinstance(found, int) and not isinstance(found, bool):
        status, value = found, None
    if value is None:
        return status, b"", "text/plain"
    if isinstance(value, bytes):
        return status, value, "application/octet-stream"
    if isinstance(value, str):
        return status, value.encode(), "text/plain"
    return status, json.dumps(value).encode(), "application/json"
