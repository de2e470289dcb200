"""Builds and runs the manager of an operator from its declarations.

Servers are added first, then a controller for each reconciler, timer and daemon. Functions for an object
receive a `Context`; its `memory` belongs to that object and is dropped when the object is deleted.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.controller.builder import ControllerBuilder
from kubewright.controller.controller import Controller, current_reconcile
from kubewright.controller.daemons import StopEvent, add_daemon
from kubewright.controller.desired_state import DesiredState
from kubewright.controller.finalizers import Finalizers
from kubewright.controller.manager_protocol import Runnable
from kubewright.controller.object_readers import object_reader
from kubewright.controller.object_sets import ObjectSets
from kubewright.controller.request import Request, Result, TerminalError
from kubewright.controller.timers import add_timer
from kubewright.tracing.source import SpanSink
from kubewright.webhook.certificates import CertificateFiles, SelfSignedCertificates
from kubewright.webhook.server import CertificateProvider

from .cluster import Cluster
from .context import Context, ObjectLogger
from .coordinated_election import CoordinatedLeaderElector
from .events import EventRecorder
from .failure_events import FailureEvents
from .http import MetricsAuthorizer, metrics_server, probe_server
from .injection import InjectedFunction, describe
from .installation import install_definitions, require_served
from .installed_kinds import check_conversions, required_kinds
from .leader_election import LeaderElector
from .manager import Manager
from .operator_webhooks import WebhookRegistration, build_webhook_server, has_webhooks
from .registration import kind_name
from .settings import SettingsError
from .signals import stopping_on_signals
from .sync_context import SyncCachedClient, SyncContext, sync_client

if TYPE_CHECKING:
    from kubewright.client import Client

    from .declared_functions import ObjectHandler, ObjectKind
    from .operator import Operator
    from .sharding import ShardMember

logger = logging.getLogger(__name__)

MAX_MEMORIES = 100_000
"""Number of objects with a memory; the least recently used ones are dropped."""
FINALIZER_RETRY_SECONDS = 1.0
"""Interval in which a second reconciler of a kind checks whether the first has stored the finalizer."""


def _shard_member(operator: Operator, client: Client) -> ShardMember:
    from .sharding import ShardMember

    settings = operator.settings
    return ShardMember(
        client,
        settings.leader_election_name or operator.name,
        namespace=settings.leader_election_namespace
        or (client.options.namespace if settings.development else ""),
        lease_duration=settings.lease_duration,
        renew_deadline=settings.renew_deadline,
        retry_period=settings.retry_period,
    )


class OperatorRuntime:
    """The manager of an operator, and the values that its functions receive."""

    def __init__(self, operator: Operator, client: Client) -> None:
        self.operator = operator
        settings = operator.settings
        cluster = Cluster(
            client.with_field_owner(operator.name),
            scheme=operator.scheme,
            namespaces=settings.namespaces,
            kinds=settings.kinds,
            allow=settings.allow,
        )
        client = client.with_interceptor(cluster.calls)
        elector: LeaderElector | ShardMember | None = None
        if settings.shards:
            elector = _shard_member(operator, client)
            operator.probes.add_health_check("shards", elector.check_health)
        elif settings.leader_election:
            elector_class: Callable[..., LeaderElector] = LeaderElector
            if settings.leader_election_coordinated:
                elector_class = functools.partial(
                    CoordinatedLeaderElector, version=settings.leader_election_version
                )
            elector = elector_class(
                client,
                settings.leader_election_name or operator.name,
                namespace=settings.leader_election_namespace
                or (client.options.namespace if settings.development else ""),
                lease_duration=settings.lease_duration,
                renew_deadline=settings.renew_deadline,
                retry_period=settings.retry_period,
            )
            operator.probes.add_health_check("leader-election", elector.check_health)
        self.manager = Manager(
            cluster, elector=elector, graceful_shutdown_timeout=settings.graceful_shutdown_timeout
        )
        if settings.tracing:
            self.manager.spans.subscribe(_opentelemetry_sink())
        self.recorder = EventRecorder(client, operator.name)
        self._memories: OrderedDict[tuple[ObjectKind, Request], tuple[str | None, dict[str, Any]]] = (
            OrderedDict()
        )
        self._desired: dict[ObjectKind, DesiredState] = {}
        self._object_sets: dict[ObjectKind, ObjectSets] = {}
        self._sync_client: SyncCachedClient | None = None
        self._failure_events = FailureEvents(self.recorder) if settings.failure_events else None
        every = (*operator.reconcilers, *operator.finalizers.values(), *operator.timers, *operator.daemons)
        self._loggers = {
            each.kind: logging.getLogger(f"{operator.name}.{kind_name(each.kind).lower()}") for each in every
        }

    def values(self, *, live: bool = False, plain: bool = False) -> dict[str, Any]:
        """Return the values for functions of the process. `plain`: with those for plain functions."""
        client = self.manager.client.uncached if live else self.manager.client
        values = {
            "client": client,
            "cache": self.manager.cache,
            "recorder": self.recorder,
            "manager": self.manager,
        }
        if plain:
            values["sync_client"] = sync_client(client, self._running_loop())
        if self.operator.services.names:
            values.update(self.operator.services.values())
        return values

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the manager, also in a thread of a daemon."""
        return self.manager.loop or asyncio.get_running_loop()

    def values_for(self, call: InjectedFunction, kind: ObjectKind, obj: Any) -> dict[str, Any]:
        """Return the values for a function of an object."""
        request = Request(obj.metadata.namespace or "", obj.metadata.name)
        client, cache = self.manager.client, self.manager.cache
        name = kind_name(kind)
        info = current_reconcile.get()
        log = ObjectLogger(
            self._loggers[kind],
            {"kind": name, "namespace": request.namespace, "object": request.name},
        )
        context: Context[Any] = Context(
            request=request,
            object=obj,
            client=client,
            cache=cache,
            recorder=self.recorder,
            log=log,
            desired=self._desired_state(kind),
            memory=self._memory(kind, request, obj.metadata.uid),
            causes=info.causes if info is not None else (),
        )
        values = {
            "object": obj,
            "context": context,
            "request": request,
            "log": log,
            "client": client,
            "cache": cache,
            "recorder": self.recorder,
            "manager": self.manager,
        }
        if not call.is_async:
            if self._sync_client is None:
                self._sync_client = sync_client(client, self._running_loop())
            values["sync_client"] = self._sync_client
            values["sync_context"] = SyncContext.of(context, self._sync_client)
        if self.operator.services.names:
            values.update(self.operator.services.values())
        return values

    async def _call(self, call: InjectedFunction, kind: ObjectKind, obj: Any) -> Any:
        """Call a function for an object; an error is recorded as an event."""
        values = self.values_for(call, kind, obj)
        if self._failure_events is None:
            return await call(values)
        return await self._failure_events.watch(obj, functools.partial(call, values))

    def _desired_state(self, kind: ObjectKind) -> DesiredState:
        found = self._desired.get(kind)
        if found is None and (kind in self.operator.rendered or kind in self.operator.composed):
            found = self._desired[kind] = self.object_sets(kind)
        if found is None:
            owned = [
                each for handler in self.operator.reconcilers if handler.kind == kind for each in handler.owns
            ]
            found = self._desired[kind] = DesiredState(
                self.manager.client,
                self.manager.cache,
                kinds=tuple(dict.fromkeys(owned)),
                field_owner=self.operator.name,
            )
        return found

    def object_sets(self, kind: ObjectKind) -> ObjectSets:
        """Return the object sets of a kind with templates or a composition."""
        found = self._object_sets.get(kind)
        if found is None:
            client, cache, name = self.manager.client, self.manager.cache, self.operator.name
            composed = self.operator.composed.get(kind)
            found = (
                composed.sets(client, cache, name)
                if composed is not None
                else ObjectSets(client, cache, field_owner=name)
            )
            self._object_sets[kind] = found
        return found

    def _memory(self, kind: ObjectKind, request: Request, uid: str | None) -> dict[str, Any]:
        memories = self._memories
        known = memories.get((kind, request))
        if known is None or known[0] != uid:
            known = memories[kind, request] = (uid, {})
            if len(memories) > MAX_MEMORIES:
                memories.popitem(last=False)
        memories.move_to_end((kind, request))
        return known[1]

    def reader(self, kind: ObjectKind) -> Callable[[Request], Awaitable[Any]]:
        """Return a function from a request to its object, or `None` if it does not exist.

        An object that does not match the class gets an event and raises a `TerminalError`.
        """
        client, read = self.manager.client, object_reader(self.manager.client, kind)

        async def read_object(request: Request) -> Any:
            try:
                return await read(request)
            except TerminalError as error:
                assert not isinstance(kind, str) and kind.gvk is not None  # noqa: PT018
                obj = await client.get(kind.gvk, request.name, namespace=request.namespace or None)
                self.recorder.event(obj, "Warning", "InvalidObject", str(error), action="Decode")
                raise

        return read_object

    def reconciler(self, handler: ObjectHandler, *, first: bool) -> Callable[[Request], Any]:
        """Return a function from a request to a call of the handler, which first stores the finalizer.

        Of several reconcilers of a kind, the first one stores the finalizer and runs the cleanup; the others
        wait for it.
        """
        kind, call, read = handler.kind, handler.call, self.reader(handler.kind)
        finalizers = self.finalizers_of(kind) if first else None
        finalizing = self.operator.finalizers.get(kind)
        required = finalizing.options["finalizer"] if finalizing is not None and not first else ""

        async def reconcile(request: Request) -> Result | None:
            obj = await read(request)
            if obj is None:
                self._memories.pop((kind, request), None)
                return None
            if finalizers is not None:
                finalized = await finalizers.handle(obj)
                if finalized is not None:
                    return finalized
            if is_deleting(obj):
                return None
            if required and not has_finalizer(obj, required):
                return Result(requeue_after=FINALIZER_RETRY_SECONDS)
            result: Result | None = await self._call(call, kind, obj)
            return result

        reconcile.__qualname__ = describe(handler.function)
        return reconcile

    def finalizers_of(self, kind: ObjectKind) -> Finalizers | None:
        """Return the finalizer of a kind with its cleanup function."""
        handler = self.operator.finalizers.get(kind)
        if handler is None:
            return None
        call = handler.call

        async def clean_up(obj: Any) -> Result | None:
            result = await self._call(call, kind, obj)
            return result if isinstance(result, Result) and result.delay > 0 else None

        return Finalizers(self.manager.client, {handler.options["finalizer"]: clean_up})

    def object_function(self, handler: ObjectHandler) -> Callable[[Any], Any]:
        """Return the function of a timer, which takes the object."""

        async def function(obj: Any) -> Any:
            return await self._call(handler.call, handler.kind, obj)

        return function

    def daemon_function(self, handler: ObjectHandler) -> Callable[..., Any]:
        """Return the function of a daemon: async or plain, with or without a `StopEvent`."""
        call, kind = handler.call, handler.kind

        async def run_async(obj: Any) -> Any:
            return await call(self.values_for(call, kind, obj))

        async def run_until(obj: Any, stop: StopEvent) -> Any:
            return await call({**self.values_for(call, kind, obj), "stop": stop})

        def run_plain(obj: Any, stop: StopEvent) -> Any:
            return call.bind({**self.values_for(call, kind, obj), "stop": stop})()

        if not call.is_async:
            return run_plain
        return run_until if "stop" in call.parameters.values() else run_async


def build_runtime(operator: Operator, client: Client) -> OperatorRuntime:
    """Build the manager of an operator with all of its components."""
    runtime = OperatorRuntime(operator, client)
    manager = runtime.manager
    manager.add(runtime.recorder)
    for indexed, index in operator.indexes:
        manager.cache.add_index(indexed, index)
    _add_servers(runtime, client)
    finalized: set[ObjectKind] = set()
    for handler in operator.reconcilers:
        _add_controller(runtime, handler, first=handler.kind not in finalized)
        finalized.add(handler.kind)
    for kind in operator.finalizers:
        if kind not in finalized:
            _add_finalizer_controller(runtime, kind)
    for handler in operator.timers:
        add_timer(
            manager,
            handler.kind,
            runtime.object_function(handler),
            **handler.options,
        )
    for handler in operator.daemons:
        add_daemon(manager, handler.kind, runtime.daemon_function(handler), **handler.options)
    return runtime


def _add_controller(runtime: OperatorRuntime, handler: ObjectHandler, *, first: bool) -> None:
    options = {name: value for name, value in handler.options.items() if value is not None}
    builder: ControllerBuilder[Request] = ControllerBuilder(runtime.manager, options.pop("name", ""))
    builder.for_(handler.kind, predicates=handler.predicates)
    for owned in handler.owns:
        builder.owns(owned)
    for watched in runtime.operator.watches_of(handler):
        builder.watches(
            watched.kind,
            _bound_late(watched.map_function, runtime),
            predicates=watched.predicates,
            metadata_only=watched.metadata_only,
            optional=watched.optional,
            priority=watched.priority,
        )
    rendered = runtime.operator.rendered.get(handler.kind)
    composed = runtime.operator.composed.get(handler.kind)
    is_set = rendered is not None and handler.function == rendered.reconcile
    if is_set or (composed is not None and handler.call is composed):
        builder.source(runtime.object_sets(handler.kind).source)
    elif (rendered is not None or composed is not None) and handler.owns:
        origin = "templates" if rendered is not None else "a composition"
        raise TypeError(
            f"{describe(handler.function)}: objects of {kind_name(handler.kind)} come from {origin}; "
            f"add the owned objects to the {origin.removeprefix('a ')}, and remove owns="
        )
    # With the setting, the manager exports the spans of all controllers.
    tracing = bool(options.pop("tracing", False)) and not runtime.operator.settings.tracing
    builder.with_options(**options, tracing=tracing)
    builder.complete(runtime.reconciler(handler, first=first))


def _bound_late(function: InjectedFunction, runtime: OperatorRuntime) -> Callable[..., Any]:
    """Return a map function whose arguments are looked up at each call, after services were created."""
    if not runtime.operator.services.names:
        return function.bind(runtime.values())

    async def call_async(obj: Any) -> Any:
        return await function.bind(runtime.values())(obj)

    def call_plain(obj: Any) -> Any:
        return function.bind(runtime.values())(obj)

    return call_async if function.is_async else call_plain


def _add_finalizer_controller(runtime: OperatorRuntime, kind: ObjectKind) -> None:
    """Add a controller for a kind with a finalizer and without a reconciler."""
    finalizers = runtime.finalizers_of(kind)
    assert finalizers is not None
    read = runtime.reader(kind)

    async def reconcile(request: Request) -> Result | None:
        obj = await read(request)
        return None if obj is None else await finalizers.handle(obj)

    name = f"{kind_name(kind).lower()}-finalizer"
    builder = ControllerBuilder[Request](runtime.manager, name).for_(kind)
    builder.complete(reconcile)


def _add_servers(runtime: OperatorRuntime, client: Client) -> None:
    """Add the probe, metrics and webhook servers that the settings and declarations require."""
    operator, manager = runtime.operator, runtime.manager
    settings, probes = operator.settings, operator.probes
    probes.add_health_check("workers", functools.partial(_check_workers, manager))
    probes.add_ready_check("caches", lambda: _require(manager.ready, "caches have not synced yet"))
    if settings.probe_port is not None:
        manager.add(probe_server(probes, port=settings.probe_port))
    if settings.metrics_port is not None:
        certificates, authorizer = None, None
        if settings.metrics_secure:
            certificates = _metrics_certificates(settings.metrics_certificates)
            authorizer = MetricsAuthorizer(client)
        manager.add(
            metrics_server(port=settings.metrics_port, certificates=certificates, authorizer=authorizer)
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
    from .trace_server import TraceServer

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


async def prepare(operator: Operator, client: Client) -> OperatorRuntime:
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
        client.with_field_owner(operator.name), operator.kinds, adopt=operator.settings.adopt_crds
    )
    if names:
        logger.info("installed CRDs", extra={"names": ",".join(names)})
    await require_served(client, required_kinds(operator))


async def _cancel_on_stop(
    stop: asyncio.Event, preparing: Coroutine[Any, Any, OperatorRuntime]
) -> OperatorRuntime | None:
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


def _opentelemetry_sink() -> SpanSink:
    from kubewright.tracing.opentelemetry import OpenTelemetrySink

    try:
        return OpenTelemetrySink()
    except ImportError:
        raise SettingsError("tracing requires OpenTelemetry: pip install 'kubewright[tracing]'") from None


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)
