"""`Dashboard`: the HTTP server, its lifecycle and its routes.

Every request passes the same checks, in this order: the Host header, the one-time token, and for data
the session and the origin. Views of the cluster are created on first use and stop when no request has used
them for some minutes, so that an idle dashboard costs nothing.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client.errors import ConnectionFailed, CredentialsError, NoKindMatch
from kubewright.runnable import BaseRunnable

from .assets import Assets
from .operators.traces import TraceStore
from .port_forwards import PortForwards
from .proxy import KubernetesProxy
from .responses import RequestError, error_response, json_response
from .sessions import RequestChecks, Sessions, session_of
from .views import Handler, Views

if TYPE_CHECKING:
    from aiohttp import web

    from kubewright.client import Client

logger = logging.getLogger(__name__)

SIGN_IN: Final = (
    "This page requires a session. Open the address with a token that the command has printed; each address "
    "works once, and the newest one is valid. If a link of another page brought you here, reload this page."
)
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class DashboardError(ValueError):
    """The dashboard cannot start with these options; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterName:
    """How the cluster is named in the dashboard."""

    server: str = ""
    context: str = ""


class Dashboard(BaseRunnable):
    """Serves the dashboard of one cluster. A runnable of the manager; it also works alone."""

    needs_leader = False
    group = "http"
    name = "dashboard"

    def __init__(
        self,
        client: Client,
        *,
        bind: str = "127.0.0.1",
        port: int = 0,
        read_only: bool = False,
        cluster: ClusterName | None = None,
        hosts: Sequence[str] = (),
        certificate: Path | None = None,
        key: Path | None = None,
        traces: TraceStore | None = None,
        on_address: Callable[[str], None] | None = None,
        session_key: bytes = b"",
    ) -> None:
        """`hosts`: names of this server besides those of the loopback interface and `bind`.

        `traces`: the spans of a connected operator. `certificate` and `key`: PEM files; required unless
        `bind` is a loopback address. `on_address` is called with each new address for signing in: at the
        start, and when the previous one was used.
        """
        if (certificate is None) != (key is None):
            raise DashboardError("the dashboard requires a certificate and a key, or neither")
        if certificate is None and not is_loopback(bind):
            raise DashboardError(
                f"the address {bind} is reachable from other machines; serve it over TLS with --tls-cert and "
                "--tls-key, or listen on 127.0.0.1 and forward the port"
            )
        self.bind = bind
        self.port = port
        self.read_only = read_only
        self._client = client
        self._cluster = cluster or ClusterName()
        self._host_names = tuple(hosts)
        self._files = (certificate, key) if certificate is not None and key is not None else None
        self._on_address = on_address
        self._sessions = Sessions(key=session_key)
        self._checks: RequestChecks
        self._assets = Assets()
        self._proxy = KubernetesProxy(client, read_only=read_only, user_agent=_user_agent())
        self._port_forwards = PortForwards(client, read_only=read_only)
        self._runner: web.ServerRunner | None = None
        self._listening = asyncio.Event()
        self._requests: set[asyncio.Task[Any]] = set()
        self._info: dict[str, Any] | None = None
        self._traces = traces if traces is not None else TraceStore()
        self.views = Views(client, self._traces)
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "/api/info"): self._get_info,
            ("GET", "/api/port-forwards"): self._port_forwards.list,
            ("POST", "/api/port-forwards"): self._port_forwards.create,
            ("DELETE", "/api/port-forwards"): self._port_forwards.delete,
            **self.views.routes(),
        }

    @property
    def url(self) -> str:
        """The URL without a token."""
        host = "127.0.0.1" if self.bind in ("0.0.0.0", "::", "") else self.bind  # noqa: S104 - a comparison
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def _scheme(self) -> str:
        return "https" if self._files is not None else "http"

    def new_address(self) -> str:
        """Return a URL that signs in one browser."""
        return f"{self.url}/?token={self._sessions.new_token()}"

    async def start(self) -> None:
        """Open the port. Raises `DashboardError` if it is in use or the certificate cannot be read."""
        from aiohttp import web

        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            context = self._ssl_context()
            await web.TCPSite(runner, self.bind, self.port, ssl_context=context).start()
        except OSError as error:
            await runner.cleanup()
            reason = (error.strerror or str(error)).rpartition(": ")[2]
            advice = "; choose another port with --port" if error.errno == errno.EADDRINUSE else ""
            raise DashboardError(
                f"the dashboard cannot listen on {self.bind}:{self.port}: {reason}{advice}"
            ) from None
        self._runner = runner
        self.port = min(runner.addresses, key=len)[1]
        names = (*_LOOPBACK_NAMES, f"[{self.bind}]" if ":" in self.bind else self.bind, *self._host_names)
        default_port = 443 if self._files is not None else 80
        hosts = [f"{name}:{self.port}" for name in names]
        if self.port == default_port:
            hosts += names
        self._checks = RequestChecks(hosts, scheme=self._scheme)
        self._listening.set()
        self._announce()

    def _announce(self) -> None:
        if self._on_address is not None:
            self._on_address(self.new_address())

    def _ssl_context(self) -> ssl.SSLContext | None:
        if self._files is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(*self._files)
        except (ssl.SSLError, OSError) as error:
            raise DashboardError(f"cannot use {self._files[0]} and {self._files[1]}: {error}") from None
        return context

    async def stop(self) -> None:
        """Close the port and all connections."""
        self._listening.clear()
        runner, self._runner = self._runner, None
        for task in self._requests:
            task.cancel()  # streams do not end by themselves
        if runner is not None:
            await runner.cleanup()
        await self._port_forwards.stop()
        await self.views.stop()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        await self.start()
        try:
            await stop.wait()
        finally:
            await self.stop()

    async def wait_until_started(self) -> None:
        """Wait until the port is open."""
        await self._listening.wait()

    async def _handle(self, request: Any) -> web.StreamResponse:
        path = request.path
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            return await self._respond(request, path)
        except RequestError as error:
            return error_response(path, error.code, error.message)
        except APIError as error:
            return error_response(path, error.status_code, error.message)
        except (ConnectionFailed, CredentialsError) as error:
            return error_response(path, 502, str(error))
        except NoKindMatch as error:
            return error_response(path, 404, str(error))
        except ConnectionError:
            raise
        except Exception as error:
            logger.exception("dashboard request failed", extra={"path": path})
            return error_response(path, 500, f"{type(error).__name__}: {error}; see the log of the dashboard")
        finally:
            self._requests.discard(task)

    async def _respond(self, request: Any, path: str) -> web.StreamResponse:
        problem = self._checks.check_host(request)
        if problem is not None:
            raise RequestError(403, problem)
        is_data = path.startswith(("/api/", "/k8s/"))
        if not is_data and request.method == "GET" and "token" in request.query:
            return self._sign_in(request)
        if not is_data:
            if request.method not in ("GET", "HEAD"):
                raise RequestError(405, f"the method {request.method} is not supported")
            name = self._assets.find(path)
            if name is None and path.startswith("/static/"):
                raise RequestError(
                    404, f"{path} does not exist; reload the page if the dashboard was updated"
                )
            return self._assets.page() if name is None else self._assets.file(name, request)
        websocket = request.headers.get("Upgrade", "").lower() == "websocket"
        if not self._sessions.is_valid(session_of(request, websocket=websocket)):
            raise RequestError(401, SIGN_IN)
        problem = self._checks.check_origin(request, websocket=websocket)
        if problem is not None:
            raise RequestError(403, problem)
        if path.startswith("/k8s/"):
            return await self._proxy.handle(request, websocket=websocket)
        handler = self._routes.get((request.method, path))
        if handler is None:
            methods = [method for method, route in self._routes if route == path]
            if methods:
                raise RequestError(405, f"{path} supports {', '.join(methods)}, not {request.method}")
            raise RequestError(404, f"{path} does not exist")
        return await handler(request)

    def _sign_in(self, request: Any) -> web.Response:
        """Return the page with a new session; its script removes the token from the address."""
        session = self._sessions.exchange(request.query["token"])
        if session is None:
            raise RequestError(401, SIGN_IN)
        self._announce()
        return self._assets.page(session)

    async def _get_info(self, request: Any) -> web.Response:
        from kubewright import __version__

        if self._info is None:
            version = (await self._client.version()).get("gitVersion", "")
            user = await self._user()
            self._info = {
                "version": __version__,
                "readOnly": self.read_only,
                "user": user,
                "cluster": {
                    "server": self._cluster.server,
                    "context": self._cluster.context,
                    "namespace": self._client.options.namespace or "",
                    "version": version,
                },
            }
        return json_response({**self._info, **self._trace_info()})

    def _trace_info(self) -> dict[str, Any]:
        traces = self._traces
        message = "" if traces.available else traces.message
        return {"traces": traces.available, "operators": traces.operators, "tracesMessage": message}

    async def _user(self) -> dict[str, Any]:
        """Return the user of the client; empty if the cluster does not serve SelfSubjectReview."""
        try:
            review = await self._client.create(
                Unstructured({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
            )
        except (APIError, NoKindMatch):
            return {"username": "", "groups": []}
        user = (review.raw.get("status") or {}).get("userInfo") or {}
        return {"username": user.get("username") or "", "groups": user.get("groups") or []}


def is_loopback(address: str) -> bool:
    """Whether an address of this machine cannot be reached from others."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _user_agent() -> str:
    from kubewright import __version__

    return f"kubewright-dashboard/{__version__}"
