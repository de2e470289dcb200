"""The HTTPS server that the API server calls.

Paths lead to handlers: admission (`/mutate-...`, `/validate-...`), conversion (`/convert`), and any other
endpoint that takes a JSON body and answers with one. A body that is not a review is answered with 400 and the
reason. A handler that crashes is answered with 500, logged with its traceback, and the API server then does
what the failure policy of the webhook says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Protocol

from .admission import AdmissionHandler, admit
from .conversion import ConversionHandler
from .review import InvalidReviewError, answer, read

logger = logging.getLogger(__name__)

MAX_BODY = 8 * 1024 * 1024
"""A review holds two objects of up to 3 MiB each."""

Endpoint = Callable[[bytes], Awaitable[bytes]]
"""Takes the body of a POST, returns a JSON body; raises `InvalidReviewError` for an invalid request."""


class CertificateProvider(Protocol):
    """Where the serving certificate comes from."""

    async def start(self) -> ssl.SSLContext:
        """The context to serve with; it may be changed in place later, for new connections."""

    async def stop(self) -> None:
        """Stop looking after it."""


class WebhookServer:
    """Serves webhooks over TLS. A runnable of the manager, on every replica, before anything else."""

    needs_leader = False
    group = "webhooks"

    def __init__(
        self,
        certificates: CertificateProvider,
        *,
        host: str = "0.0.0.0",  # noqa: S104 - a pod serves on all of its addresses
        port: int = 9443,
    ) -> None:
        self.host = host
        self.port = port
        self.conversions = ConversionHandler()
        self.certificates = certificates
        self._endpoints: dict[str, Endpoint] = {}
        self._listening = asyncio.Event()
        self._metrics: dict[str, _PathMetrics] = {}

    def add_admission(self, path: str, handler: AdmissionHandler) -> None:
        """Answer admission reviews at a path."""

        async def endpoint(body: bytes) -> bytes:
            request = read(body)
            return answer(request, await admit(handler, request))

        self.add_endpoint(path, endpoint)

    def add_endpoint(self, path: str, endpoint: Endpoint) -> None:
        """Answer POSTs at a path."""
        if path in self._endpoints:
            raise ValueError(f"two webhooks want the path {path}")
        self._endpoints[path] = endpoint

    @property
    def paths(self) -> list[str]:
        """Every path that is answered."""
        return sorted([*self._endpoints, *(["/convert"] if self.conversions else [])])

    @property
    def listening(self) -> bool:
        """Whether it can be called; a readiness check."""
        return self._listening.is_set()

    async def wait_until_started(self) -> None:
        """Wait until it can be called."""
        await self._listening.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; requests that are being answered are answered."""
        from aiohttp import web

        context = await self.certificates.start()
        server = web.Server(self._handle, keepalive_timeout=75, access_log=None, auto_decompress=False)
        runner = web.ServerRunner(server, shutdown_timeout=5.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host, self.port, ssl_context=context)
            try:
                await site.start()
            except OSError as error:
                # asyncio repeats the address before the reason
                why = (error.strerror or str(error)).rpartition(": ")[2]
                raise OSError(f"webhooks cannot listen on {self.host}:{self.port}: {why}") from None
            if self.port == 0:
                self.port = runner.addresses[0][1]
            self._listening.set()
            logger.info("webhooks listen on %s:%d: %s", self.host, self.port, ", ".join(self.paths))
            await stop.wait()
        finally:
            self._listening.clear()
            await runner.cleanup()
            await self.certificates.stop()

    async def _handle(self, native: Any) -> Any:
        from aiohttp import web

        path = native.path
        endpoint = self._endpoints.get(path)
        if path == "/convert" and self.conversions:
            endpoint = self._convert
        if endpoint is None:
            return web.Response(status=404, text=f"no webhook at {path}\n")
        if native.method != "POST":
            return web.Response(status=405, text="POST a review\n")
        metrics = self._metrics.get(path) or self._metrics.setdefault(path, _PathMetrics(path))
        with metrics.observe() as outcome:
            body = await _body(native)
            if body is None:
                outcome.code = 413
                return web.Response(status=413, text=f"the body is longer than {MAX_BODY} bytes\n")
            try:
                reply = await endpoint(body)
            except InvalidReviewError as error:
                outcome.code = 400
                logger.warning("%s: %s", path, error)
                return web.Response(status=400, text=f"{error}\n")
            except Exception as error:
                outcome.code = 500
                metrics.panic()
                logger.exception("%s failed", path)
                return web.Response(status=500, text=f"the webhook failed: {type(error).__name__}: {error}\n")
            return web.Response(body=reply, content_type="application/json")

    async def _convert(self, body: bytes) -> bytes:
        return self.conversions.answer(body)


async def _body(native: Any) -> bytes | None:
    """The body, or `None` if it is too long."""
    if (native.content_length or 0) > MAX_BODY:
        return None
    parts, length = [], 0
    async for chunk in native.content.iter_any():
        length += len(chunk)
        if length > MAX_BODY:
            return None
        parts.append(chunk)
    return b"".join(parts)


@lru_cache(maxsize=1)
def _families() -> dict[str, Any]:
    from prometheus_client import Counter, Gauge, Histogram

    prefix, label = "controller_runtime_webhook", ("webhook",)
    return {
        "latency": Histogram(f"{prefix}_latency_seconds", "Time to answer a review", label),
        "requests": Counter(f"{prefix}_requests_total", "Reviews answered", (*label, "code")),
        "active": Gauge(f"{prefix}_requests_in_flight", "Reviews being answered", label),
        "panics": Counter(f"{prefix}_panics_total", "Handlers that crashed", label),
    }


class _Outcome:
    """The status code of an answer, 200 unless said otherwise."""

    code = 200


class _PathMetrics:
    """The metrics of one path, bound once."""

    def __init__(self, path: str) -> None:
        families = _families()
        self._path = path
        self._latency = families["latency"].labels(path)
        self._active = families["active"].labels(path)
        self._requests = families["requests"]
        self._panics = families["panics"].labels(path)
        self._requests.labels(path, "200")

    @contextlib.contextmanager
    def observe(self) -> Any:
        """Time one answer."""
        outcome = _Outcome()
        started = time.perf_counter()
        self._active.inc()
        try:
            yield outcome
        finally:
            self._active.dec()
            self._latency.observe(time.perf_counter() - started)
            self._requests.labels(self._path, str(outcome.code)).inc()

    def panic(self) -> None:
        """A handler crashed."""
        self._panics.inc()
