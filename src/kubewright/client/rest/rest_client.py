"""`RESTClient`: send requests with rate limit, hooks, retries, fresh credentials, metrics and typed errors.

These failures are retried, and no others:

- responses with `Retry-After` (429, 5xx): the server has not processed the request;
- connections that could not be opened: nothing was sent;
- reads whose connection broke, or that got 502, 503 or 504;
- 401, once, if the credentials can be renewed.

A write whose connection broke after it was sent is not retried: it may have been processed. An outage is
logged once when it starts (`API server is unavailable`) and once when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError, from_response
from kubewright.api.values.times import monotonic_time
from kubewright.client.errors import ConnectionFailed, ResponseTooLarge
from kubewright.client.transport.interface import (
    APIResponse,
    ResponseStream,
    Transport,
    WebSocketConnection,
    read_limited,
)

from .request import APIRequest, RequestHook
from .retry_policy import RetryPolicy

if TYPE_CHECKING:
    from .metrics import ClientMetrics
    from .rate_limit import TokenBucket

logger = logging.getLogger("kubewright.client")

_READ_METHODS: Final = ("GET", "HEAD")
_TRANSIENT: Final = (502, 503, 504)
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
MAX_WARNINGS_REMEMBERED: Final = 1000


class RESTClient:
    """Requests to one API server."""

    def __init__(
        self,
        transport: Transport,
        *,
        retries: RetryPolicy | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[RequestHook] = (),
        metrics: ClientMetrics | None = None,
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        server: str = "",
        clock: Callable[[], float] = monotonic_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.transport = transport
        self.retries = retries or RetryPolicy()
        self.hooks = list(hooks)
        self.metrics = metrics
        self.user_agent = user_agent or default_user_agent()
        self._rate_limit = rate_limit
        self._on_warning = on_warning or self._log_warning
        self._warnings: dict[str, None] = {}
        self._server = server
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311
        self._outage_since: float | None = None

    async def send(self, request: APIRequest) -> APIResponse:
        """Return the response to a request; raise `APIError` for a failure."""
        transport = self.transport

        async def attempt() -> APIResponse:
            return await transport.send(
                request.method, request.path, request.query, request.headers, request.body, request.timeout
            )

        response = await self._send_with_retries(request, attempt)
        assert isinstance(response, APIResponse)
        if request.expects is not None:
            request.expects.check(request, response.body)
        return response

    async def open_stream(self, request: APIRequest, *, idle_timeout: float | None = None) -> ResponseStream:
        """Send a request whose response is a stream; raise `APIError` for a failure."""

        async def attempt() -> APIResponse | ResponseStream:
            stream = await self.transport.stream(
                request.method,
                request.path,
                request.query,
                request.headers,
                request.body,
                request.timeout,
                idle_timeout,
            )
            if stream.status < 400:
                return stream
            try:
                body = await read_limited(stream)
            finally:
                await stream.aclose()
            return APIResponse(stream.status, stream.headers, body)

        response = await self._send_with_retries(request, attempt)
        assert not isinstance(response, APIResponse)
        return response

    async def open_websocket(self, request: APIRequest, protocols: tuple[str, ...]) -> WebSocketConnection:
        """Open a WebSocket; not retried, because the process behind it may have started."""
        self._prepare(request)
        renewed = False
        while True:
            try:
                return await self.transport.websocket(
                    request.path, request.query, request.headers, protocols, request.timeout
                )
            except APIError as error:
                if error.status_code != 401 or renewed or not self.transport.invalidate_credentials():
                    raise
                renewed = True

    def _prepare(self, request: APIRequest) -> None:
        if "User-Agent" not in request.headers:
            request.headers["User-Agent"] = self.user_agent
        for hook in self.hooks:
            hook(request)

    async def _send_with_retries(
        self, request: APIRequest, attempt: Callable[[], Awaitable[APIResponse | ResponseStream]]
    ) -> APIResponse | ResponseStream:
        throttled = transient = 0
        renewed = False
        is_read = request.method in _READ_METHODS
        while True:
            if self._rate_limit is not None:
                waited = await self._rate_limit.acquire()
                if self.metrics is not None:
                    self.metrics.record_rate_limit(request.verb, waited)
            self._prepare(request)
            started = self._clock() if self.metrics is not None else 0.0
            try:
                response = await attempt()
            except ConnectionFailed as error:
                self._count(request, "<error>", started)
                permanent = isinstance(error, ResponseTooLarge) or (error.sent and not is_read)
                if permanent or transient >= self.retries.transient_attempts:
                    raise
                self._log_outage(request, str(error))
                await self._sleep(self.retries.delay(transient, None, self._rng))
                transient += 1
                continue
            except TimeoutError:
                self._count(request, "<error>", started)
                raise TimeoutError(f"{request}: no response within {request.timeout:g} s") from None
            status = response.status
            if self.metrics is not None:
                self._count(request, str(status), started)
            if "Warning" in response.headers:
                self._warn(response.headers.getall("Warning"))
            if status < 400:
                if self._outage_since is not None:
                    self._log_recovery()
                return response
            assert isinstance(response, APIResponse)
            if status == 401 and not renewed and self.transport.invalidate_credentials():
                renewed = True
                continue
            api_error = error_from_response(response, request)
            retry_after = _retry_after(response)
            if retry_after is not None:
                if (status == 429 or status >= 500) and throttled < self.retries.retry_after_attempts:
                    self._log_retry(request, api_error, retry_after)
                    await self._sleep(self.retries.delay(throttled, retry_after, self._rng))
                    throttled += 1
                    continue
            elif (
                status == 429 or (is_read and status in _TRANSIENT)
            ) and transient < self.retries.transient_attempts:
                self._log_retry(request, api_error, None)
                await self._sleep(self.retries.delay(transient, None, self._rng))
                transient += 1
                continue
            raise api_error

    def _count(self, request: APIRequest, code: str, started: float) -> None:
        if self.metrics is not None:
            self.metrics.record_response(request.method, request.verb, code, self._clock() - started)

    def _log_retry(self, request: APIRequest, error: APIError, retry_after: float | None) -> None:
        """Log a response that is retried; an eviction that a disruption budget does not allow is not an
        outage."""
        causes = error.details.get("causes") or ()
        if not any(cause.get("reason") == "DisruptionBudget" for cause in causes):
            self._log_outage(request, f"{error.status_code}: {error.message}", retry_after)
            return
        fields = {"error": error.message, "request": str(request), "retry_after": retry_after}
        logger.info("eviction is not allowed yet, retrying", extra=fields)

    def _log_outage(self, request: APIRequest, reason: str, retry_after: float | None = None) -> None:
        """Log the first failure of an outage as a warning, the others for debugging."""
        first = self._outage_since is None
        if first:
            self._outage_since = self._clock()
        logger.log(
            logging.WARNING if first else logging.DEBUG,
            "API server is unavailable, retrying",
            extra={
                "server": self._server,
                "error": reason,
                "request": str(request),
                "retry_after": retry_after,
            },
        )

    def _log_recovery(self) -> None:
        assert self._outage_since is not None
        seconds = round(self._clock() - self._outage_since, 1)
        logger.info("API server is available again", extra={"server": self._server, "after_seconds": seconds})
        self._outage_since = None

    def _warn(self, values: list[str]) -> None:
        for value in values:
            for text in _WARNING.findall(value):
                if text not in self._warnings:
                    if len(self._warnings) >= MAX_WARNINGS_REMEMBERED:
                        self._warnings.pop(next(iter(self._warnings)))
                    self._warnings[text] = None
                    self._on_warning(re.sub(r"\\(.)", r"\1", text))

    def _log_warning(self, text: str) -> None:
        logger.warning("API server warning", extra={"server": self._server, "warning": text})


def error_from_response(response: APIResponse, request: APIRequest) -> APIError:
    """Return the error that a response reports."""
    status: Any = None
    if response.body[:1] == b"{":
        try:
            status = codec.loads(response.body)
        except codec.DecodeError:
            status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return APIError.from_status(status, response.status, response.headers)
    return from_response(
        response.status,
        response.body[:2048].decode(errors="replace").strip(),
        verb=request.method,
        resource=request.resource,
        name=request.name,
        headers=response.headers,
    )


def _retry_after(response: APIResponse) -> float | None:
    value = response.headers.get("Retry-After", "").strip()
    return float(value) if value.isdecimal() and len(value) < 6 else None


def default_user_agent() -> str:
    """Return the program name, the version and the platform."""
    import platform
    import sys
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        kubewright_version = version("kubewright")
    except PackageNotFoundError:
        kubewright_version = "unknown"
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    program = re.sub(r"[^A-Za-z0-9._-]", "", program) or "python"
    return f"{program}/{kubewright_version} ({platform.system().lower()}/{platform.machine()}) kubewright"
