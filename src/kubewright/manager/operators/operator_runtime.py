"""Builds and runs the manager of an operator from its declarations.

Servers are added first, then the controllers of its functions (`cluster_runtime`), then its fleets
(`fleet_runtime`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.controller.controller import Controller, check_sources
from kubewright.manager.cluster import Cluster
from kubewright.manager.elections.coordinated_election import CoordinatedLeaderElector
from kubewright.manager.elections.leader_election import LeaderElector
from kubewright.manager.events import EventRecorder
from kubewright.manager.manager import Manager
from kubewright.manager.observability.http import MetricsAuthorizer, metrics_server, probe_server
from kubewright.manager.signals import stopping_on_signals
from kubewright.runnable import Runnable
from kubewright.webhook.certificates import CertificateFiles, SelfSignedCertificates
from kubewright.webhook.server import CertificateProvider

from .cluster_runtime import ClusterRuntime, add_functions
from .installation import install_definitions, require_served
from .installed_kinds import check_conversions, required_kinds
from .operator_webhooks import WebhookRegistration, build_webhook_server, has_webhooks
from .settings import SettingsError

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.manager.sharding import ShardMember
    from kubewright.recording.ring import RecordingRing

    from .operator import Operator

logger = logging.getLogger(__name__)


def build_runtime(operator: Operator, client: Client) -> ClusterRuntime:
    """Build the manager of an operator with all of its components."""
    settings = operator.settings
    cluster = Cluster(
        client.with_field_manager(operator.name),
        scheme=operator.scheme,
        namespaces=settings.namespaces,
        kinds=settings.kinds,
        allow=settings.allow,
        resync=settings.resync,
    )
    client = client.with_interceptor(cluster.calls)
    try:
        manager = Manager(
            cluster,
            elector=_elector(operator, client),
            graceful_shutdown_timeout=settings.graceful_shutdown_timeout,
            tracing=settings.tracing,
        )
    except ImportError as error:
        raise SettingsError(str(error)) from None
    recorder = EventRecorder(client, operator.name)
    runtime = ClusterRuntime(
        operator,
        manager,
        recorder,
        failure_events=settings.failure_events,
        slows_hot_loops=settings.development,
    )
    manager.add(recorder)
    _add_servers(runtime, operator, client)
    add_functions(runtime)
    if operator.fleets:
        from kubewright.manager.fleets.fleet_runtime import add_fleets

        add_fleets(runtime, operator, client)
    return runtime


def _lease_options(operator: Operator, client: Client) -> dict[str, Any]:
    settings = operator.settings
    return {
        "namespace": settings.leader_election_namespace
        or (client.options.namespace if settings.development else ""),
        "lease_duration": settings.lease_duration,
        "renew_deadline": settings.renew_deadline,
        "retry_period": settings.retry_period,
    }


def _shard_member(operator: Operator, client: Client) -> ShardMember:
    from kubewright.manager.sharding import ShardMember

    settings = operator.settings
    return ShardMember(
        client,
        settings.leader_election_name or operator.name,
        **_lease_options(operator, client),
    )


def _elector(operator: Operator, client: Client) -> LeaderElector | ShardMember | None:
    settings = operator.settings
    if settings.shards:
        shards = _shard_member(operator, client)
        operator.probes.add_health_check("shards", shards.check_health)
        return shards
    if not settings.leader_election:
        return None
    elector_class: Callable[..., LeaderElector] = LeaderElector
    if settings.leader_election_coordinated:
        elector_class = functools.partial(CoordinatedLeaderElector, version=settings.leader_election_version)
    elector = elector_class(
        client,
        settings.leader_election_name or operator.name,
        **_lease_options(operator, client),
    )
    operator.probes.add_health_check("leader-election", elector.check_health)
    return elector


def _recording_ring(runtime: ClusterRuntime, operator: Operator) -> RecordingRing | None:
    settings, manager = operator.settings, runtime.manager
    if settings.recording_minutes <= 0:
        return None
    from kubewright.recording.ring import RecordingRing

    return RecordingRing(
        manager.cache,
        manager.spans,
        operator.name,
        seconds=settings.recording_minutes * 60,
        directory=settings.recording_directory,
        max_errors=settings.recording_errors,
    )


def _add_servers(runtime: ClusterRuntime, operator: Operator, client: Client) -> None:
    """Add the probe, metrics and webhook servers that the settings and declarations require."""
    manager, settings, probes = runtime.manager, operator.settings, operator.probes
    probes.add_health_check("workers", functools.partial(_check_workers, manager))
    probes.add_ready_check("caches", functools.partial(_check_caches, manager))
    ring = _recording_ring(runtime, operator)
    if ring is not None:
        manager.add(ring)
    if settings.probe_port is not None:
        manager.add(probe_server(probes, port=settings.probe_port))
    if settings.metrics_port is not None:
        certificates, authorizer = None, None
        if settings.metrics_secure:
            certificates = _metrics_certificates(settings.metrics_certificates)
            authorizer = MetricsAuthorizer(client)
        manager.add(
            metrics_server(
                port=settings.metrics_port, certificates=certificates, authorizer=authorizer, ring=ring
            )
        )
    if settings.trace_port is not None:
        manager.add(_trace_server(operator, manager))
    if has_webhooks(operator):
        server = build_webhook_server(operator, client)
        probes.add_ready_check("webhooks", lambda: _require(server.listening, "not listening yet"))
        manager.add(server)
        if settings.development:
            manager.add(WebhookRegistration(operator, client, server))


def _trace_server(operator: Operator, manager: Manager) -> Runnable:
    from kubewright.manager.observability.trace_server import TraceServer

    settings = operator.settings
    assert settings.trace_port is not None
    if not settings.trace_token:
        raise SettingsError(
            "trace_port requires a token, which the dashboard sends; set KUBEWRIGHT_TRACE_TOKEN"
        )
    return TraceServer(manager, operator.name, port=settings.trace_port, token=settings.trace_token)


def _check_workers(manager: Manager) -> None:
    """Raise `WorkerStopped` if a controller has lost a worker."""
    for runnable in manager.runnables:
        if isinstance(runnable, Controller):
            runnable.check_workers()


def _check_caches(manager: Manager) -> None:
    """Raise an error if the manager is not ready, or a source of a controller cannot sync."""
    _require(manager.ready, "caches have not synced yet")
    for runnable in manager.runnables:
        if isinstance(runnable, Controller):
            check_sources(runnable)


def _metrics_certificates(directory: str) -> CertificateProvider:
    if directory:
        return CertificateFiles(Path(directory, "tls.crt"), Path(directory, "tls.key"))
    return SelfSignedCertificates(("localhost", "127.0.0.1", socket.gethostname()))


async def run(
    operator: Operator,
    client: Client,
    stop: asyncio.Event | None,
    runnables: Sequence[Callable[[Manager, EventRecorder], Runnable]],
) -> None:
    """Install CRDs in development, call the startup functions, run the manager and clean up."""
    stop = stop if stop is not None else asyncio.Event()
    with stopping_on_signals(stop):
        runtime = await _cancel_on_stop(stop, prepare(operator, client))
        if runtime is None:
            return
        runtime.manager.handle_signals = False
        for factory in runnables:
            runtime.manager.add(factory(runtime.manager, runtime.recorder))
        await runtime.manager.run(stop)


async def prepare(operator: Operator, client: Client) -> ClusterRuntime:
    """Install CRDs in development, build the manager, and call the startup functions."""
    if operator.settings.development:
        await install(operator, client)
    runtime = build_runtime(operator, client)
    services = await operator.services.start(runtime.values(live=True, plain=True))
    runtime.manager.on_stop(services.aclose)
    values = runtime.values(live=True, plain=True)
    try:
        for function in operator.startup:
            await function(values)
    except BaseException:
        await services.aclose()
        raise
    for function in reversed(operator.cleanup):
        runtime.manager.on_stop(functools.partial(function, values))
    return runtime


async def install(operator: Operator, client: Client) -> None:
    """Install the CRDs of an operator in development, and check that all other kinds are served."""
    check_conversions(operator)
    names = await install_definitions(
        client.with_field_manager(operator.name), operator.kinds, adopt=operator.settings.adopt_crds
    )
    if names:
        logger.info("installed CRDs", extra={"names": ",".join(names)})
    await require_served(client, required_kinds(operator))


async def _cancel_on_stop(
    stop: asyncio.Event, preparing: Coroutine[Any, Any, ClusterRuntime]
) -> ClusterRuntime | None:
    """Return the result of a coroutine, or cancel it and return `None` when `stop` is set."""
    task = asyncio.ensure_future(preparing)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)
