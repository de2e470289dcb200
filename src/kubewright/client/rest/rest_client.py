"""One request, done properly: rate limit, hooks, retries, fresh credentials, metrics, and errors that speak.

`RESTClient` turns a `Call` into an `APIResponse` or an `APIError`. What it tries again, and only that:

- the server said when to come back (429, or 503 and the like with `Retry-After`): it has not done anything;
- the connection could not be made: nothing was sent;
- a read whose connection broke or that got 502, 503 or 504;
- once after 401, if the credentials can be renewed.

A write whose connection broke after it was sent is not repeated: nobody here knows whether it happened.
While a server is away one line says so, and one that it is back.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from multidict import CIMultiDict

from kubewright.api import codec
from kubewright.api.errors import APIError, from_response
from kubewright.api.gvk import GroupResource
from kubewright.client.errors import ConnectionFailed, ResponseTooLarge
from kubewright.client.transport.interface import (
    APIResponse,
    ResponseStream,
    Transport,
    WebSocketConnection,
    read_limited,
)

from .metrics import ClientMetrics
from .rate_limit import TokenBucket

logger = logging.getLogger("kubewright.client")

TIMEOUT: Final = 60.0
"""Seconds for a request that does not say; servers give up at 60 themselves."""
_READS: Final = ("GET", "HEAD")
_TRANSIENT: Final = (502, 503, 504)
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
MAX_WARNINGS_REMEMBERED: Final = 1000


@dataclass(slots=True)
class APIRequest:
    """A request on its way to the server. Hooks and interceptors may read and change it."""

    verb: str
    """In Kubernetes' words: get, list, watch, create, update, patch, delete, deletecollection, connect."""
    method: str
    path: str
    query: str = ""
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: bytes = b""
    timeout: float | None = TIMEOUT
    resource: GroupResource | None = None
    name: str = ""
    namespace: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


RequestHook = Callable[[APIRequest], None]
"""Sees every attempt just before it is sent; may change it, or raise to stop it."""
CallNext = Callable[[APIRequest], Awaitable[APIResponse | ResponseStream]]
Interceptor = Callable[[APIRequest, CallNext], Awaitable[APIResponse | ResponseStream]]
"""Stands around a call: may answer itself, fail, change, measure or repeat it. Watches and logs give a
`ResponseStream`, everything else an `APIResponse`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How patient to be. `told` counts answers that say when to come back, `unreachable` everything else."""

    retry_after_attempts: int = 10
    transient_attempts: int = 4
    initial_delay: float = 0.25
    max_delay: float = 30.0
    jitter: float = 0.5

    def delay(self, attempt: int, told: float | None, rng: random.Random) -> float:
        """Seconds before the next try: what the server said, or twice as long each time; never less."""
        wait = self.initial_delay * 2.0**attempt if told is None else told
        return min(wait, self.max_delay) * (1 + self.jitter * rng.random())


class RESTClient:
    """Requests to one server."""

    def __init__(
        self,
        transport: Transport,
        *,
        retries: RetryPolicy | None = None,
        rate_limit: TokenBucket | None = None,
        hooks: Sequence[RequestHook] = (),
        metrics: ClientMetrics | None = None,
        tracer: Any = None,
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        server: str = "the server",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.transport = transport
        self.retries = retries or RetryPolicy()
        self.hooks = list(hooks)
        self.metrics = metrics
        self.user_agent = user_agent or default_user_agent()
        self._limit = rate_limit
        self._tracer = tracer
        self._on_warning = on_warning or self._log_warning
        self._warned: dict[str, None] = {}
        self._server = server
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311
        self._trouble: float | None = None

    async def send(self, call: APIRequest) -> APIResponse:
        """The answer to a call; `APIError` if it is a failure."""
        transport = self.transport

        async def once() -> APIResponse:
            return await transport.send(
                call.method, call.path, call.query, call.headers, call.body, call.timeout
            )

        with self._span(call):
            answer = await self._attempts(call, once)
        assert isinstance(answer, APIResponse)
        return answer

    async def open(self, call: APIRequest, *, idle_timeout: float | None = None) -> ResponseStream:
        """Start a call whose answer arrives over time; `APIError` if it is refused."""

        async def once() -> APIResponse | ResponseStream:
            stream = await self.transport.stream(
                call.method, call.path, call.query, call.headers, call.body, call.timeout, idle_timeout
            )
            if stream.status < 400:
                return stream
            try:
                body = await read_limited(stream)
            finally:
                await stream.aclose()
            return APIResponse(stream.status, stream.headers, body)

        answer = await self._attempts(call, once)
        assert not isinstance(answer, APIResponse)
        return answer

    async def socket(self, call: APIRequest, protocols: tuple[str, ...]) -> WebSocketConnection:
        """Open a WebSocket; not tried again, since what is behind it may have begun."""
        self._prepare(call)
        renewed = False
        while True:
            try:
                return await self.transport.websocket(
                    call.path, call.query, call.headers, protocols, call.timeout
                )
            except APIError as error:
                if error.status_code != 401 or renewed or not self.transport.invalidate_credentials():
                    raise
                renewed = True

    def _prepare(self, call: APIRequest) -> None:
        if "User-Agent" not in call.headers:
            call.headers["User-Agent"] = self.user_agent
        for hook in self.hooks:
            hook(call)

    async def _attempts(
        self, call: APIRequest, once: Callable[[], Awaitable[APIResponse | ResponseStream]]
    ) -> APIResponse | ResponseStream:
        told = unreachable = 0
        renewed = False
        read = call.method in _READS
        while True:
            if self._limit is not None:
                waited = await self._limit.acquire()
                if self.metrics is not None:
                    self.metrics.limited(call.verb, waited)
            self._prepare(call)
            started = self._clock()
            try:
                answer = await once()
            except ConnectionFailed as error:
                self._count(call, "<error>", started)
                hopeless = isinstance(error, ResponseTooLarge) or (error.sent and not read)
                if hopeless or unreachable >= self.retries.transient_attempts:
                    raise
                self._explain(call, str(error))
                await self._sleep(self.retries.delay(unreachable, None, self._rng))
                unreachable += 1
                continue
            except TimeoutError:
                self._count(call, "<error>", started)
                raise TimeoutError(f"{call} was not answered within {call.timeout:g} s") from None
            status = answer.status
            self._count(call, str(status), started)
            if "Warning" in answer.headers:
                self._warn(answer.headers.getall("Warning"))
            if status < 400:
                if self._trouble is not None:
                    self._recovered()
                return answer
            assert isinstance(answer, APIResponse)
            if status == 401 and not renewed and self.transport.invalidate_credentials():
                renewed = True
                continue
            error_ = error_from_response(answer, call)
            retry_after = _retry_after(answer)
            if (
                (status == 429 or status >= 500)
                and retry_after is not None
                and told < self.retries.retry_after_attempts
            ):
                self._explain(call, f"asks to come back in {retry_after:g} s ({status}: {error_.message})")
                await self._sleep(self.retries.delay(told, retry_after, self._rng))
                told += 1
                continue
            transient = retry_after is None and (status == 429 or (read and status in _TRANSIENT))
            if transient and unreachable < self.retries.transient_attempts:
                self._explain(call, f"answers {status}: {error_.message}")
                await self._sleep(self.retries.delay(unreachable, None, self._rng))
                unreachable += 1
                continue
            raise error_

    def _count(self, call: APIRequest, code: str, started: float) -> None:
        if self.metrics is not None:
            self.metrics.answered(call.method, call.verb, code, self._clock() - started)

    def _explain(self, call: APIRequest, what: str) -> None:
        """One line for an outage, however many requests it hits."""
        first = self._trouble is None
        if first:
            self._trouble = self._clock()
        subject = "" if what.startswith("http") else f"{self._server} "
        logger.log(
            logging.WARNING if first else logging.DEBUG, "%s%s; trying again (%s)", subject, what, call
        )

    def _recovered(self) -> None:
        assert self._trouble is not None
        logger.info("%s answers again after %.1f s", self._server, self._clock() - self._trouble)
        self._trouble = None

    def _warn(self, values: list[str]) -> None:
        for value in values:
            for text in _WARNING.findall(value):
                if text not in self._warned:
                    if len(self._warned) >= MAX_WARNINGS_REMEMBERED:
                        self._warned.pop(next(iter(self._warned)))
                    self._warned[text] = None
                    self._on_warning(re.sub(r"\\(.)", r"\1", text))

    def _log_warning(self, text: str) -> None:
        logger.warning("%s warns: %s", self._server, text)

    def _span(self, call: APIRequest) -> AbstractContextManager[Any]:
        if self._tracer is None:
            return nullcontext()
        attributes = {
            "http.request.method": call.method,
            "url.path": call.path,
            "k8s.verb": call.verb,
            "k8s.resource": str(call.resource or ""),
            "k8s.namespace.name": call.namespace,
            "k8s.object.name": call.name,
        }
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"{call.verb} {call.resource or call.path}", attributes=attributes
        )
        return span


def error_from_response(answer: APIResponse, call: APIRequest) -> APIError:
    """The error that an answer is."""
    status: Any = None
    if answer.body[:1] == b"{":
        try:
            status = codec.loads(answer.body)
        except codec.DecodeError:
            status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return APIError.from_status(status, answer.status, answer.headers)
    return from_response(
        answer.status,
        answer.body[:2048].decode(errors="replace").strip(),
        verb=call.method,
        resource=call.resource,
        name=call.name,
        headers=answer.headers,
    )


def _retry_after(answer: APIResponse) -> float | None:
    value = answer.headers.get("Retry-After", "").strip()
    return float(value) if value.isdecimal() and len(value) < 6 else None


def default_user_agent() -> str:
    """Program, version and platform."""
    import platform
    import sys
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        ours = version("kubewright")
    except PackageNotFoundError:
        ours = "unknown"
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    program = re.sub(r"[^A-Za-z0-9._-]", "", program) or "python"
    return f"{program}/{ours} ({platform.system().lower()}/{platform.machine()}) kubewright"


__all__ = [
    "APIRequest",
    "CallNext",
    "Interceptor",
    "RESTClient",
    "RequestHook",
    "RetryPolicy",
    "error_from_response",
]
