"""HTTPS server for webhooks.

Each path has an endpoint: admission (`/mutate-...`, `/validate-...`), conversion (`/convert`), and any other
function from a JSON body to a JSON body. A body that is not a valid review gets a 400 response with the
reason. A handler that raises gets a 500 response and is logged with its traceback; the API server then
applies the failure policy of the webhook.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import ssl
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from kubewright.runnable import BaseRunnable
from kubewright.tracebacks import trim_traceback
from kubewright.tracing.admission_spans import WebhookSpan, WebhookType
from kubewright.tracing.source import SpanPublisher, SpanSink, end_span, start_span

from .admission import AdmissionHandler, Defaulter, admit
from .conversion import ConversionHandler
from .review import InvalidReviewError, encode_response, read_review

logger = logging.getLogger(__name__)

MAX_BODY = 8 * 1024 * 1024
"""A review contains two objects of up to 3 MiB each."""

Endpoint = Callable[[bytes], Awaitable[bytes]]
"""Takes the body of a POST, returns a JSON body; raises `InvalidReviewError` for an invalid request."""


class CertificateProvider(Protocol):
    """Source of the serving certificate."""

    async def start(self) -> ssl.SSLContext:
        """Return the TLS context; a renewed certificate is loaded into it for new connections."""

    async def stop(self) -> None:
        """Stop renewing the certificate."""


class WebhookServer(BaseRunnable):
    """Serves webhooks over TLS. A runnable of the manager that starts on every replica, before the caches."""

    needs_leader = False
    group = "webhooks"

    def __init__(
        self,
        certificates: CertificateProvider,
        *,
        host: str = "0.0.0.0",  # noqa: S104 - a pod serves on all of its addresses
        port: int = 9443,
    ) -> None:
        self.sinks: tuple[SpanSink, ...] = ()
        """Subscribers of the spans of requests."""
        self.host = host
        self.port = port
        self.conversions = ConversionHandler()
        self.certificates = certificates
        self._endpoints: dict[str, Endpoint] = {}
        self._types: dict[str, WebhookType] = {}
        self._id_prefix = f"{random.getrandbits(32):08x}"
        self._ids = itertools.count(1)
        self._listening = asyncio.Event()
        self._metrics: dict[str, _PathMetrics] = {}

    def add_admission(self, path: str, handler: AdmissionHandler) -> None:
        """Serve admission reviews at a path."""

        async def endpoint(body: bytes) -> bytes:
            request = read_review(body)
            return encode_response(request, await admit(handler, request))

        self.add_endpoint(path, endpoint)
        self._types[path] = "mutating" if isinstance(handler, Defaulter) else "validating"

    def add_endpoint(self, path: str, endpoint: Endpoint) -> None:
        """Serve POST requests at a path."""
        if path in self._endpoints:
            raise ValueError(f"two webhooks have the path {path}")
        self._endpoints[path] = endpoint

    def endpoint(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path, or `None` if there is no webhook at it."""
        if path == "/convert" and self.conversions:
            return self._convert
        return self._endpoints.get(path)

    @property
    def paths(self) -> list[str]:
        """The paths of all endpoints."""
        return sorted([*self._endpoints, *(["/convert"] if self.conversions else [])])

    @property
    def listening(self) -> bool:
        """Whether the port is open; a readiness check."""
        return self._listening.is_set()

    @property
    def publishers(self) -> tuple[SpanPublisher]:
        """Itself: it publishes the spans of requests."""
        return (self,)

    async def wait_until_started(self) -> None:
        """Wait until the port is open."""
        await self._listening.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then finish requests in progress."""
        from kubewright.tls.system_authorities import import_aiohttp

        import_aiohttp()
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
                reason = (error.strerror or str(error)).rpartition(": ")[2]
                raise OSError(f"webhook server cannot listen on {self.host}:{self.port}: {reason}") from None
            if self.port == 0:
                self.port = runner.addresses[0][1]
            self._listening.set()
            logger.info(
                "started webhook server",
                extra={"address": f"{self.host}:{self.port}", "paths": ",".join(self.paths)},
            )
            await stop.wait()
        finally:
            self._listening.clear()
            await runner.cleanup()
            await self.certificates.stop()

    async def _handle(self, native: Any) -> Any:
        from aiohttp import web

        path = native.path
        endpoint = self.endpoint(path)
        if endpoint is None:
            return web.Response(status=404, text=f"no webhook at {path}\n")
        if native.method != "POST":
            return web.Response(status=405, text="method not allowed; use POST\n")
        metrics = self._metrics.get(path) or self._metrics.setdefault(path, _PathMetrics(path))
        with metrics.observe() as outcome:
            body = await _body(native)
            if body is None:
                outcome.code = 413
                return web.Response(status=413, text=f"the body exceeds {MAX_BODY} bytes\n")
            try:
                if self.sinks:
                    response = await self._call_traced(endpoint, path, native.headers, body)
                else:
                    response = await endpoint(body)
            except InvalidReviewError as error:
                outcome.code = 400
                logger.warning("invalid webhook request", extra={"path": path, "error": str(error)})
                return web.Response(status=400, text=f"{error}\n")
            except Exception as error:
                outcome.code = 500
                metrics.panic()
                logger.error("webhook failed", exc_info=trim_traceback(error), extra={"path": path})
                return web.Response(status=500, text=f"webhook failed: {type(error).__name__}: {error}\n")
            return web.Response(body=response, content_type="application/json")

    async def _call_traced(
        self, endpoint: Endpoint, path: str, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        sinks = self.sinks
        type_ = "conversion" if path == "/convert" else self._types.get(path, "other")
        span = WebhookSpan(
            f"{self._id_prefix}-{next(self._ids)}", path, type=type_, headers=headers, body=body
        )
        start_span(sinks, span)
        error: BaseException | None = None
        try:
            span.response = await endpoint(body)
            return span.response
        except BaseException as failure:
            error = failure
            span.code = 400 if isinstance(failure, InvalidReviewError) else 500
            if span.code == 500:
                span.traceback = "".join(traceback.format_exception(*trim_traceback(failure)))
            raise
        finally:
            span.finish(error)
            end_span(sinks, span)

    async def _convert(self, body: bytes) -> bytes:
        return self.conversions.convert_review(body)


async def _body(native: Any) -> bytes | None:
    """Return the body, or `None` if it is too large."""
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
        "latency": Histogram(f"{prefix}_latency_seconds", "Duration of webhook requests", label),
        "requests": Counter(f"{prefix}_requests_total", "Total number of webhook requests", (*label, "code")),
        "active": Gauge(f"{prefix}_requests_in_flight", "Number of webhook requests in progress", label),
        "panics": Counter(
            f"{prefix}_panics_total", "Total number of webhook requests whose handler raised", label
        ),
    }


class _Outcome:
    """Status code of a response, 200 by default."""

    code = 200


class _PathMetrics:
    """Metrics of one path."""

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
        """Measure one request."""
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
        """Count a handler that raised."""
        self._panics.inc()
