"""Serves an `APIServerApp`.

    async with serve_app(app, cluster) as running:
        running.https.url

The order of a start: configuration of the cluster, storage, informers, admission, certificates, port,
registration. A stop removes the registration first, so that the cluster does not forward requests to a port
that is closed.

Serving certificates of an extension API server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.authorization import AlwaysAllowPaths, AuthorizerUnion, PrivilegedGroups
from kubewright.apiserver.delegation import Delegation
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.http.server import HTTPServer
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.apiserver.server import APIServer
from kubewright.client import Client
from kubewright.extension.admission import DeclaredAdmission
from kubewright.extension.audit import auditor
from kubewright.extension.authorization import FunctionAuthorizer
from kubewright.extension.functions import CLUSTER, LOG, PROXY, READER, SERVER
from kubewright.extension.proxy import ProxyConnections
from kubewright.extension.reader import ObjectReader
from kubewright.extension.rest.backend_storage import BackendStorage
from kubewright.manager.elections.leader_election import in_cluster_namespace
from kubewright.manager.operators.settings import SettingsError
from kubewright.manager.signals import stopping_on_signals
from kubewright.storage.memory import MemoryStorage
from kubewright.storage.url import open_storage
from kubewright.tls.certificates import KeyPair
from kubewright.webhook.certificates import ManagedCertificates

from .registration import Registration
from .settings import PORT

if TYPE_CHECKING:
    from kubewright.apiserver.authorization import Authorizer
    from kubewright.apiserver.http.server import HTTPServer
    from kubewright.client import Client
    from kubewright.extension.app import APIServerApp
    from kubewright.webhook.certificates import ManagedCertificates

    from .settings import APIServerSettings

logger = logging.getLogger(__name__)

LOOPBACK, ALL_ADDRESSES = "127.0.0.1", "0.0.0.0"  # noqa: S104 - a pod serves on all of its addresses


@dataclass(frozen=True, slots=True)
class RunningAPIServer:
    """A running `APIServerApp`."""

    server: APIServer
    https: HTTPServer
    reader: ObjectReader

    def client(self) -> Client:
        """Return a client of the server itself, without a network, as `system:apiserver`."""
        return Client.from_transport(InProcessTransport(self.server, SYSTEM))


@asynccontextmanager
async def serve_app(app: APIServerApp, cluster: Client | None) -> AsyncIterator[RunningAPIServer]:
    """Serve an app until the block ends.

    Authentication and authorization are delegated to the cluster. Without one, the server accepts
    certificates that it issues itself (`running.https.write_kubeconfig`).
    """
    if app.is_empty:
        raise SettingsError(f"API server {app.name} has no resources; add one with app.add(Kind)")
    settings = app.settings
    namespace = _namespace(app, cluster)
    hosts = tuple(f"{app.service}.{namespace}.svc{suffix}" for suffix in ("", ".cluster.local"))
    async with AsyncExitStack() as stack:
        access = await Delegation.read(cluster) if cluster is not None else None
        values: dict[str, Any] = {
            READER: None,
            CLUSTER: cluster,
            LOG: logging.getLogger(app.name),
            PROXY: ProxyConnections(),
        }
        stack.push_async_callback(values[PROXY].close)
        storage = open_storage(settings.storage)
        if isinstance(storage, MemoryStorage) and app.has_backends:
            # The objects survive a restart: resource versions of an earlier process must not become valid.
            microseconds = time.time_ns() // 1000
            storage.keyspace.restore((), (), microseconds, microseconds)
        server = APIServer(
            storage,
            authenticator=access.authenticator if access is not None else None,
            authorizer=_authorizer(app, access),
            admission=[DeclaredAdmission(app.name, app.admissions, values)] if app.admissions else (),
            auditor=auditor(settings, app.audit_functions),
            cbor=settings.cbor,
            max_in_flight=settings.max_requests_in_flight,
            max_mutating_in_flight=settings.max_mutating_requests_in_flight,
        )
        values[SERVER] = server
        server.delete_options_wire = builtin_codec()
        backends = [server.add(resource).backend for resource in app.build(values)]
        for configure in app.configurations:
            configure(server)
        own = Client.from_transport(InProcessTransport(server, SYSTEM))
        reader = values[READER] = ObjectReader(own, cluster, app.resources, app.reads)
        https = HTTPServer(
            server,
            host=settings.host or (LOOPBACK if settings.development or cluster is None else ALL_ADDRESSES),
            port=settings.port or (0 if settings.development or cluster is None else PORT),
            certificate=certificate_files(settings),
            hosts=hosts,
            client_authorities=access.authorities if access is not None else (),
        )
        await server.start()
        stack.push_async_callback(https.stop, 1.0)
        stack.push_async_callback(server.stop)
        stack.callback(https.stop_listening)
        for backend in backends:
            if isinstance(backend, BackendStorage):
                await backend.start(cluster)
                stack.push_async_callback(backend.stop)
        for api in app.metric_apis:
            await api.start(server, cluster)
            stack.push_async_callback(api.stop)
        # Informers of own kinds end with the server's watches; those of the cluster are stopped first.
        stack.push_async_callback(reader.stop)
        await reader.start()
        if cluster is not None and settings.cluster_admission:
            from kubewright.controlplane.cluster_admission import ClusterAdmission

            await stack.enter_async_context(ClusterAdmission(cluster, server))
        if cluster is not None and settings.priority:
            from kubewright.extension.priority import cluster_priorities

            await stack.enter_async_context(cluster_priorities(cluster, server))
        managed = None
        if cluster is not None and not settings.development and not settings.certificates:
            opening = managed_certificates(
                https,
                cluster,
                secret=app.secret,
                namespace=namespace,
                hosts=hosts,
                api_services=app.api_service_names(),
            )
            managed = await stack.enter_async_context(opening)
        await https.start()
        if access is not None:
            await stack.enter_async_context(access.follow(https))
        logger.info("started API server", extra={"app": app.name, "url": https.url})
        if cluster is not None and (settings.development or settings.register):
            await _register(app, cluster, https, namespace, stack, managed)
        yield RunningAPIServer(server, https, reader)


def _authorizer(app: APIServerApp, access: Delegation | None) -> Authorizer | None:
    delegated = access.authorizer if access is not None else None
    if app.authorizer is None:
        return delegated
    own: list[Authorizer] = [PrivilegedGroups(), AlwaysAllowPaths(), FunctionAuthorizer(app.authorizer)]
    return AuthorizerUnion([*own, delegated] if delegated is not None else own)


async def _register(
    app: APIServerApp,
    cluster: Client,
    https: HTTPServer,
    namespace: str,
    stack: AsyncExitStack,
    managed: ManagedCertificates | None,
) -> None:
    settings = app.settings
    registration = Registration(
        cluster,
        app.name,
        https,
        service=app.service,
        namespace=namespace,
        address=_address(app, https) if settings.development else None,
        group_priority=settings.group_priority,
        sets_ca_bundle=managed is None,
    )
    if settings.development:
        stack.push_async_callback(registration.unregister)
    await registration.register()
    if managed is not None:
        await managed.refresh()  # injects the CA bundle
    if settings.development:
        await registration.wait_until_available()


def _address(app: APIServerApp, https: HTTPServer) -> tuple[str, int]:
    """Return the address at which the cluster reaches this process."""
    text = app.settings.external_address
    if not text:
        return LOOPBACK if https.host in (ALL_ADDRESSES, "::") else https.host, https.port
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise SettingsError(f"external address {text!r} is not host:port")
    return host.strip("[]"), int(port)


def _namespace(app: APIServerApp, cluster: Client | None) -> str:
    if app.settings.namespace:
        return app.settings.namespace
    if cluster is None:
        return "default"
    if app.settings.development:
        return cluster.options.namespace or "default"
    try:
        return in_cluster_namespace("")
    except SettingsError:
        raise SettingsError(
            "the namespace of the Service of the API server is unknown outside of a pod; run it on this "
            "machine with --development, or set KUBEWRIGHT_NAMESPACE"
        ) from None


async def run_app(app: APIServerApp, client: Client | None, stop: asyncio.Event | None) -> None:
    """Serve an app until `stop` is set or a signal is received."""
    stopped = stop if stop is not None else asyncio.Event()
    own_client = client is None
    cluster = client if client is not None else Client.connect()
    try:
        with stopping_on_signals(stopped):
            async with serve_app(app, cluster) as running:
                await stopped.wait()
                if app.settings.shutdown_delay > 0:
                    running.server.draining = True
                    await asyncio.sleep(app.settings.shutdown_delay)
    finally:
        if own_client:
            await cluster.aclose()


API_SERVICE = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")


def certificate_files(settings: APIServerSettings) -> KeyPair | None:
    """Return the certificate in files, which `HTTPServer` loads again when they change."""
    if settings.development or not settings.certificates:
        return None
    directory = Path(settings.certificates)
    try:
        return KeyPair.from_files(directory / "tls.crt", directory / "tls.key")
    except OSError as error:
        raise OSError(f"cannot read serving certificate {error.filename}: {error.strerror}") from None


@asynccontextmanager
async def managed_certificates(
    https: HTTPServer,
    cluster: Client,
    *,
    secret: str,
    namespace: str,
    hosts: Sequence[str],
    api_services: Sequence[str],
) -> AsyncIterator[ManagedCertificates]:
    """Use the certificate of a Secret while the body runs, and renew it.

    The CA bundle is written into the APIServices. Start the server in the body.
    """
    certificates = ManagedCertificates(
        cluster,
        secret=secret,
        namespace=namespace,
        hosts=hosts,
        inject=[(API_SERVICE, name) for name in api_services],
        on_change=https.use_certificate,
    )
    await certificates.start()
    try:
        yield certificates
    finally:
        await certificates.stop()
