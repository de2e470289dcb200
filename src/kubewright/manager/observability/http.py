"""HTTP servers of a manager: health probes and metrics.

Metrics are served over TLS to authorized clients: the bearer token is authenticated with a TokenReview, and
`get` on the path is authorized with a SubjectAccessReview; both results are cached for a minute. Prometheus
needs a ClusterRole with `nonResourceURLs: ["/metrics"]`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.times import monotonic_time
from kubewright.client.errors import ConnectionFailed
from kubewright.runnable import BaseRunnable

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.recording.ring import RecordingRing
    from kubewright.webhook.server import CertificateProvider

    from .probes import Probes

logger = logging.getLogger(__name__)

HTTPResponse = tuple[int, str, bytes]
"""Status, content type, body."""
RequestHandler = Callable[[Any], Awaitable[HTTPResponse]]


class HTTPServer(BaseRunnable):
    """Serves a handler on one port. A runnable of the manager that starts before webhooks and caches."""

    needs_leader = False
    group = "http"

    def __init__(
        self,
        name: str,
        handler: RequestHandler,
        *,
        host: str,
        port: int,
        certificates: CertificateProvider | None = None,
    ) -> None:
        """With `certificates` it serves over TLS."""
        self.name = name
        self.host = host
        self.port = port
        self._handler = handler
        self._certificates = certificates
        self._listening = asyncio.Event()

    async def wait_until_started(self) -> None:
        """Wait until the port is open; `port` is then the actual one."""
        await self._listening.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        from kubewright.tls.system_authorities import import_aiohttp

        import_aiohttp()
        from aiohttp import web

        async def handle(request: Any) -> Any:
            status, content_type, body = await self._handler(request)
            return web.Response(status=status, body=body, headers={"Content-Type": content_type})

        runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        try:
            tls = await self._certificates.start() if self._certificates is not None else None
            try:
                await web.TCPSite(runner, self.host, self.port, ssl_context=tls).start()
            except OSError as error:
                # asyncio repeats the address before the reason
                reason = (error.strerror or str(error)).rpartition(": ")[2]
                raise OSError(
                    f"{self.name} server cannot listen on {self.host}:{self.port}: {reason}"
                ) from None
            # With port 0 every address family has its own port; an IPv4 address is the shorter tuple.
            self.port = min(runner.addresses, key=len)[1]
            self._listening.set()
            logger.info(f"started {self.name} server", extra={"address": f"{self.host}:{self.port}"})
            await stop.wait()
        finally:
            self._listening.clear()
            await runner.cleanup()
            if self._certificates is not None:
                await self._certificates.stop()


def probe_server(probes: Probes, *, host: str = "", port: int = 8081) -> HTTPServer:
    """Return a server of `/healthz` and `/readyz` over HTTP, for the kubelet."""

    async def handle(request: Any) -> HTTPResponse:
        query = request.query
        status, text = await probes.handle(
            request.path, verbose="verbose" in query, exclude=frozenset(query.getall("exclude", ()))
        )
        return status, "text/plain; charset=utf-8", text.encode()

    return HTTPServer("probes", handle, host=host, port=port)


def metrics_server(
    *,
    host: str = "",
    port: int = 8443,
    certificates: CertificateProvider | None = None,
    authorizer: MetricsAuthorizer | None = None,
    ring: RecordingRing | None = None,
) -> HTTPServer:
    """Return a server of `/metrics`; without an authorizer every client can read it.

    With `ring` and an authorizer it also serves `/recording`: the objects of the last minutes.
    """

    async def handle(request: Any) -> HTTPResponse:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        if authorizer is not None:
            denial = await authorizer.check(request.headers.get("Authorization", ""), request.path)
            if denial is not None:
                status, message = denial
                return status, "text/plain; charset=utf-8", f"{message}\n".encode()
        if request.path == "/recording" and ring is not None and authorizer is not None:
            return 200, "application/gzip", await _recording(ring)
        if request.path != "/metrics":
            return 404, "text/plain; charset=utf-8", b"404 page not found\n"
        # A few thousand lines take tens of milliseconds, which must not block the event loop.
        return 200, CONTENT_TYPE_LATEST, await asyncio.to_thread(generate_latest)

    return HTTPServer("metrics", handle, host=host, port=port, certificates=certificates)


async def _recording(ring: RecordingRing) -> bytes:
    with tempfile.TemporaryDirectory(prefix="kubewright-") as directory:
        path = await ring.write("a request", Path(directory) / "recording.gz")
        return await asyncio.to_thread(path.read_bytes)


class MetricsAuthorizer:
    """Authenticates and authorizes clients of the metrics server with the API server.

    Permissions: `create` of `tokenreviews` and `subjectaccessreviews`.
    """

    def __init__(
        self, client: Client, *, cache_seconds: float = 60.0, clock: Callable[[], float] = monotonic_time
    ) -> None:
        self._client = client
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._cached: dict[tuple[bytes, str], tuple[float, tuple[int, str] | None]] = {}

    async def check(self, authorization: str, path: str) -> tuple[int, str] | None:
        """Return the status and message of a denied request, or `None` if it is allowed."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return 401, "Unauthorized"
        key = (hashlib.sha256(token.encode()).digest(), path)
        now = self._clock()
        cached = self._cached.get(key)
        if cached is not None and now < cached[0]:
            return cached[1]
        try:
            denial = await self._review(token, path)
        except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
            logger.warning("could not authorize metrics request", extra={"path": path, "error": str(error)})
            return 500, "Authentication failed"
        if len(self._cached) > 1000:
            self._cached.clear()
        self._cached[key] = (now + self._cache_seconds, denial)
        return denial

    async def _review(self, token: str, path: str) -> tuple[int, str] | None:
        review = await self._client.create(
            Unstructured(
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
            )
        )
        status = review.raw.get("status") or {}
        if not status.get("authenticated"):
            return 401, "Unauthorized"
        user = status.get("user") or {}
        access = await self._client.create(
            Unstructured(
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {
                        "user": user.get("username"),
                        "uid": user.get("uid"),
                        "groups": user.get("groups"),
                        "extra": user.get("extra"),
                        "nonResourceAttributes": {"path": path, "verb": "get"},
                    },
                }
            )
        )
        if (access.raw.get("status") or {}).get("allowed"):
            return None
        return 403, f"Forbidden: {user.get('username')} cannot get {path}"
