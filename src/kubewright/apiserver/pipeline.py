"""The request pipeline: authentication, impersonation, authorization, limits, dispatch.

Errors of every stage become `Status` responses. Each response gets an audit id, `Warning` headers and
metrics.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from kubewright.api.errors import (
    APIError,
    BadRequest,
    InternalError,
    ServiceUnavailable,
    Timeout,
    Unauthorized,
)
from kubewright.api.kubernetes_version import serving, serving_version
from kubewright.api.values.go_format import quote
from kubewright.api.values.times import Duration
from kubewright.storage.contract import RequestTooLarge, StorageError

from .authentication.impersonation import Impersonator, IncompleteImpersonation, is_impersonating
from .authentication.user import MASTERS
from .authorization import AuthorizationAttributes, Decision, forbidden
from .encoding.negotiation import encode, status_response
from .http.messages import HTTPRequest, HTTPResponse
from .http.messages import text as text_response
from .http.request_info import RequestInfo, parse_request_info
from .priority.limits import FairLimit

if TYPE_CHECKING:
    from .priority.flow_control import FlowControl
    from .server import APIServer

logger = logging.getLogger("kubewright.apiserver")

_MUTATING = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SHUTTING_DOWN = "the server is shutting down"
_MAX_WARNINGS = 4096
"""Characters of all warnings above which each is cut to 256."""


class RequestPipeline:
    """Processes the requests of one server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._router = server.router
        self._impersonator = Impersonator()
        self._in_flight = (FairLimit(), FairLimit())
        self._bodies = FairLimit()
        self._initial_events = FairLimit()
        self._starting: dict[HTTPRequest, Callable[[], None]] = {}
        """Watches that have seats and have not started yet, with the functions that release the seats."""
        self.active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def handle(self, request: HTTPRequest) -> HTTPResponse:
        """Serve one request. A request that has a `user` is already authenticated."""
        server = self._server
        started = server.clock()
        request.audit_id = request.headers.get("Audit-Id") or self._new_audit_id()
        info = request.info = parse_request_info(request)
        self.active += 1
        try:
            # A request can be part of one to another server of the process, which has another version.
            if serving_version() == server.kubernetes_version:
                response = await self._process(request, info)
            else:
                with serving(server.kubernetes_version):
                    response = await self._process(request, info)
        except BaseException:
            if request.audit is not None:
                request.audit.close_early()
            if request.span is not None and server.tracer is not None:
                server.tracer.end(request.span, None)
            raise
        finally:
            self.active -= 1
            if not self.active:
                self._idle.set()
        if server.auditor is not None:
            try:
                await server.auditor.respond(request, info, response)
            except BaseException:
                await _close(response)
                raise
        if request.span is not None and server.tracer is not None:
            server.tracer.end(request.span, response)
        headers = response.headers
        headers["Audit-Id"] = request.audit_id
        headers.setdefault("Cache-Control", "no-cache, private")
        if server.classify is not None and hasattr(request, "user"):
            headers.update(server.classify(request.user, info))
        if request.warnings:
            headers["Warning"] = warning_headers(request.warnings)
        if request.method == "HEAD":
            response.body = b""
        elapsed = server.clock() - started
        server.metrics.observe(info, response, elapsed, request.query.get("dryRun") or "")
        if elapsed > server.slow_request or (server.log_sample and server.rng.random() < server.log_sample):
            self._log(request, response, elapsed)
        return response

    def keep_seats(self, request: HTTPRequest) -> Callable[[], None] | None:
        """Let a watch keep its seats after the start of the response; returns the function to release them.

        Returns `None` if it has none.
        """
        return self._starting.pop(request, None)

    def count_initial_events(self, request: HTTPRequest) -> Callable[[], None] | None:
        """Count a watch whose large initial state is not sent yet; call the returned function when it is.

        It keeps its seats. A watch that needs none is counted like the requests in flight; raises
        `TooManyRequests` at their limit. Watches of administrators are not counted.
        """
        release = self.keep_seats(request)
        user = request.user
        if release is not None or MASTERS in user.groups:
            return release
        self._initial_events.acquire(user.name, limit=self._server.max_in_flight)
        return lambda: self._initial_events.release(user.name)

    async def wait_until_idle(self, timeout: float) -> bool:
        """Wait until no request is being processed; false after the timeout."""
        if not self.active:
            return True
        self._idle.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _process(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Run the stages within the request timeout; respond to errors with a Status."""
        error: APIError
        try:
            if self._server.stopped:
                raise ServiceUnavailable(_SHUTTING_DOWN)
            if self._router.is_long_running(info):
                return await self._authenticate_and_dispatch(request, info)
            async with asyncio.timeout(self._timeout(request)) as limit:
                request.deadline = limit.when()
                return await self._authenticate_and_dispatch(request, info)
        except APIError as raised:
            error = raised
        except IncompleteImpersonation as raised:
            return text_response(500, f"Internal Server Error: {quote(request.path)}: {raised}\n")
        except TimeoutError:
            return _timeout_response()
        except RequestTooLarge as raised:
            error = APIError(str(raised), code=500)
        except StorageError as raised:
            if self._server.stopped:
                error = ServiceUnavailable(_SHUTTING_DOWN)
            else:
                error = InternalError(f"Internal error occurred: {raised}")
        except RecursionError:
            error = BadRequest("the object is nested too deeply")
        except Exception as raised:
            logger.exception("request failed", extra={"method": request.method, "path": request.path})
            if request.audit is not None:
                request.audit.panic = f"{type(raised).__name__}: {raised}"
            error = InternalError(f"Internal error occurred: {type(raised).__name__}: {raised}")
        return status_response(request, error)

    async def _authenticate_and_dispatch(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        server = self._server
        if not hasattr(request, "user"):
            user = await server.authenticator.authenticate(request)
            if user is None:
                raise Unauthorized("Unauthorized")
            request.user = user
        if server.tracer is not None:
            request.span = server.tracer.begin(request, info)
        if server.auditor is not None:
            await server.auditor.receive(request, info)
        if server.impersonation and is_impersonating(request):
            requester = request.user
            request.user = await self._impersonator.impersonate(
                request, AuthorizationAttributes.of(requester, info), server.authorizer
            )
            if request.audit is not None and request.user is not requester:
                request.audit.set_impersonated_user(request.user, self._impersonator.constraint(requester))
        is_mutating = info.verb in _MUTATING
        is_limited = info.verb != "watch" and MASTERS not in request.user.groups
        attributes = AuthorizationAttributes.of(request.user, info)
        decision, reason = await server.authorizer.authorize(attributes)
        if request.audit is not None:
            request.audit.set_decision(decision, reason)
        if decision is not Decision.ALLOW:
            raise forbidden(attributes, reason)
        if not is_limited:
            if info.verb == "watch" and server.flow_control is not None:
                return await self._start_watch(request, info, server.flow_control)
            return await self._router.dispatch(request, info)
        name = request.user.name
        if is_mutating and request.has_unread_body:
            await self._prefetch_body(request, info)
        gauge = server.metrics.in_flight[is_mutating]
        control = server.flow_control
        if control is not None:
            seats = await control.acquire(request.user, info, request)
            gauge.inc()
            try:
                return await self._router.dispatch(request, info)
            finally:
                gauge.dec()
                if seats is not None:
                    control.release(seats)
        limit = server.max_mutating_in_flight if is_mutating else server.max_in_flight
        in_flight = self._in_flight[is_mutating]
        in_flight.acquire(name, limit=limit)
        gauge.inc()
        try:
            return await self._router.dispatch(request, info)
        finally:
            in_flight.release(name)
            gauge.dec()

    async def _start_watch(
        self, request: HTTPRequest, info: RequestInfo, control: FlowControl
    ) -> HTTPResponse:
        """Serve a watch; it needs seats until its initial events have been sent (`keep_seats`)."""
        if MASTERS in request.user.groups:
            return await self._router.dispatch(request, info)
        seats = await control.acquire(request.user, info, request)
        if seats is None:
            return await self._router.dispatch(request, info)
        self._starting[request] = partial(control.release, seats)
        try:
            return await self._router.dispatch(request, info)
        finally:
            release = self._starting.pop(request, None)
            if release is not None:
                release()

    async def _prefetch_body(self, request: HTTPRequest, info: RequestInfo) -> None:
        """Read the body of a write before the request is counted as in flight."""
        endpoint = self._router.endpoint(info)
        if endpoint is None or self._router.is_long_running(info):
            return
        server = self._server
        with self._bodies.hold(request.user.name, limit=server.max_in_flight):
            await request.prefetch(endpoint.resource.body_limit or server.body_limit)

    def _timeout(self, request: HTTPRequest) -> float:
        limit = self._server.request_timeout
        if request.query and "timeout" in request.query:
            value = request.query.get("timeout")
            try:
                requested = Duration(value).total_seconds()
            except ValueError:
                raise BadRequest(
                    f'invalid timeout specified in the request URL - time: invalid duration "{value}"'
                ) from None
            if requested > 0:
                return min(requested, limit)
        return limit

    def _new_audit_id(self) -> str:
        text = f"{self._server.rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

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


def _timeout_response() -> HTTPResponse:
    """Return the 504, which kube-apiserver sends without type metadata and as text."""
    error = Timeout("Timeout: request did not complete within the allotted timeout")
    status = {key: value for key, value in error.to_status().items() if key not in ("apiVersion", "kind")}
    body = encode({**status, "details": {}})
    return HTTPResponse(error.status_code, body, content_type="text/plain; charset=utf-8")


async def _close(response: HTTPResponse) -> None:
    """Close the stream of a response that is not sent."""
    close = getattr(response.stream, "aclose", None)
    if close is not None:
        await close()


def warning_headers(warnings: Iterable[str]) -> list[str]:
    """Return the values of the `Warning` headers: quoted, shortened if there are very many, without control
    characters."""
    total, values = 0, []
    shorten = sum(map(len, warnings)) > _MAX_WARNINGS
    for text in warnings:
        if _CONTROL.search(text):
            continue
        if shorten:
            text = text[:256]
        total += len(text)
        if total > _MAX_WARNINGS + 256:
            break
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        values.append(f'299 - "{escaped}"')
    return values
