"""The small HTTP servers of a manager: probes for the kubelet, metrics for Prometheus.

Metrics are served over TLS and only to those who may: the caller's bearer token is checked with a TokenReview
and its permission for `get` on the path with a SubjectAccessReview, both remembered for a short while.
Prometheus therefore needs nothing but a ClusterRole with `nonResourceURLs: ["/metrics"]`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client.errors import ConnectionFailed

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.webhook.server import CertificateProvider

    from .probes import Probes

logger = logging.getLogger(__name__)

HTTPResponse = tuple[int, str, bytes]
"""Status, content type, body."""
RequestHandler = Callable[[Any], Awaitable[HTTPResponse]]


class HTTPServer:
    """Serves a handler on one port. A runnable that starts before everything else."""

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
        """Wait until the port is open; `port` is then the real one."""
        await self._listening.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
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
                why = (error.strerror or str(error)).rpartition(": ")[2]
                raise OSError(f"{self.name} cannot listen on {self.host}:{self.port}: {why}") from None
            # Port 0 gives every address family a port of its own; an IPv4 address is the shorter tuple.
            self.port = min(runner.addresses, key=len)[1]
            self._listening.set()
            logger.info("%s on %s:%d", self.name, self.host, self.port)
            await stop.wait()
        finally:
            self._listening.clear()
            await runner.cleanup()
            if self._certificates is not None:
                await self._certificates.stop()


def probe_server(probes: Probes, *, host: str = "", port: int = 8081) -> HTTPServer:
    """`/healthz` and `/readyz` in plain HTTP, as the kubelet calls them."""

    async def handle(request: Any) -> HTTPResponse:
        query = request.query
        status, text = await probes.answer(
            request.path, verbose="verbose" in query, exclude=frozenset(query.getall("exclude", ()))
        )
        return status, "text/plain; charset=utf-8", text.encode()

    return HTTPServer("probes", handle, host=host, port=port)


def metrics_server(
    *,
    host: str = "",
    port: int = 8443,
    certificates: CertificateProvider | None = None,
    access: MetricsAuthorizer | None = None,
) -> HTTPServer:
    """`/metrics`, for those whom `access` admits; for everybody if that is `None`."""

    async def handle(request: Any) -> HTTPResponse:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        if access is not None:
            refusal = await access.refusal(request.headers.get("Authorization", ""), request.path)
            if refusal is not None:
                status, why = refusal
                return status, "text/plain; charset=utf-8", f"{why}\n".encode()
        if request.path != "/metrics":
            return 404, "text/plain; charset=utf-8", b"404 page not found\n"
        # A few thousand lines take tens of milliseconds: not on the loop that reconciles.
        return 200, CONTENT_TYPE_LATEST, await asyncio.to_thread(generate_latest)

    return HTTPServer("metrics", handle, host=host, port=port, certificates=certificates)


class MetricsAuthorizer:
    """Asks the API server who a token belongs to and what its owner may read.

    Needs `create` on `tokenreviews` and `subjectaccessreviews`.
    """

    def __init__(
        self, client: Client, *, remember: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._remember = remember
        self._clock = clock
        self._known: dict[tuple[bytes, str], tuple[float, tuple[int, str] | None]] = {}

    async def refusal(self, authorization: str, path: str) -> tuple[int, str] | None:
        """Why the bearer of a token may not read a path; `None` if it may."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return 401, "Unauthorized"
        key = (hashlib.sha256(token.encode()).digest(), path)
        now = self._clock()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        try:
            verdict = await self._ask(token, path)
        except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
            logger.warning("access to %s could not be checked: %s", path, error)
            return 500, "Authentication failed"
        if len(self._known) > 1000:
            self._known.clear()
        self._known[key] = (now + self._remember, verdict)
        return verdict

    async def _ask(self, token: str, path: str) -> tuple[int, str] | None:
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
        return 403, f"Forbidden: {user.get('username')} may not get {path}"
