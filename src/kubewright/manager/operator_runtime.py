"""From what an operator declares to a manager that does it.

Servers come first, then a controller for each reconciler, timer and daemon. A function about an object is
called with a `Context`; what it remembers there belongs to that object alone and ends with it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.declarations import resource_info, webhook_path
from kubewright.api.errors import APIError, NotFound
from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.client.errors import ConnectionFailed
from kubewright.controller.builder import ControllerBuilder
from kubewright.controller.daemons import StopEvent, add_daemon
from kubewright.controller.desired_state import DesiredState
from kubewright.controller.finalizers import Finalizers
from kubewright.controller.request import Request, Result
from kubewright.controller.timers import add_timer
from kubewright.webhook.admission import Defaulter, Validator
from kubewright.webhook.certificates import (
    CABundleTarget,
    CertificateFiles,
    ManagedCertificates,
    SelfSignedCertificates,
)
from kubewright.webhook.server import CertificateProvider, WebhookServer

from .cluster import Cluster
from .context import Context, ObjectLogger
from .events import EventRecorder
from .http import MetricsAuthorizer, metrics_server, probe_server
from .injection import describe
from .installation import install_definitions, install_webhooks, remove_webhooks
from .leader_election import LeaderElector, in_cluster_namespace
from .manager import Manager
from .signals import stopping_on_signals

if TYPE_CHECKING:
    from kubewright.client import Client

    from .operator import ObjectHandler, Operator

logger = logging.getLogger(__name__)

MEMORIES = 100_000
"""So many objects are remembered; of more, those that were not called about for longest are forgotten."""


LOCAL, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - a pod serves on all of its addresses
WEBHOOK_PORT = 9443
FINALIZER_WAIT = 1.0
"""How often a second reconciler of a kind looks whether the first has put the finalizer on."""


class OperatorRuntime:
    """The parts of a running operator."""

    def __init__(self, operator: Operator, client: Client) -> None:
        self.operator = operator
        self.source = client
        settings = operator.settings
        cluster = Cluster(
            client.with_field_owner(operator.name),
            scheme=operator.scheme,
            namespaces=settings.namespaces,
            kinds=settings.kinds,
            allow=settings.allow,
        )
        elector = None
        if settings.leader_election:
            elector = LeaderElector(
                client,
                settings.leader_election_name or operator.name,
                namespace=settings.leader_election_namespace
                or (client.options.namespace if settings.development else ""),
                lease_duration=settings.lease_duration,
                renew_deadline=settings.renew_deadline,
                retry_period=settings.retry_period,
            )
            operator.probes.add_health_check("leader-election", elector.check_health)
        self.manager = Manager(cluster, elector=elector, grace=settings.grace)
        self.recorder = EventRecorder(client, operator.name)
        self._memories: OrderedDict[tuple[type, Request], tuple[str | None, dict[str, Any]]] = OrderedDict()
        self._desired: dict[type, DesiredState] = {}
        every = (*operator.reconcilers, *operator.finalizers.values(), *operator.timers, *operator.daemons)
        self._loggers = {
            each.kind: logging.getLogger(f"{operator.name}.{each.kind.__name__.lower()}") for each in every
        }

    def values(self, *, live: bool = False) -> dict[str, Any]:
        """What every function can have."""
        client = self.manager.client
        return {
            "client": client.uncached if live else client,
            "cache": self.manager.cache,
            "recorder": self.recorder,
            "manager": self.manager,
        }

    def values_for(self, kind: type[MetaObject], obj: Any) -> dict[str, Any]:
        """What a function about an object can have."""
        request = Request(obj.metadata.namespace or "", obj.metadata.name)
        client, cache = self.manager.client, self.manager.cache
        name = kind.__name__
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
        )
        return {
            "object": obj,
            "context": context,
            "request": request,
            "log": log,
            "client": client,
            "cache": cache,
            "recorder": self.recorder,
            "manager": self.manager,
        }

    def _desired_state(self, kind: type[MetaObject]) -> DesiredState:
        found = self._desired.get(kind)
        if found is None:
            owned = [
                each for handler in self.operator.reconcilers if handler.kind is kind for each in handler.owns
            ]
            found = self._desired[kind] = DesiredState(
                self.manager.client,
                self.manager.cache,
                kinds=tuple(dict.fromkeys(owned)),
                field_owner=self.operator.name,
            )
        return found

    def _memory(self, kind: type, request: Request, uid: str | None) -> dict[str, Any]:
        memories = self._memories
        known = memories.get((kind, request))
        if known is None or known[0] != uid:
            known = memories[kind, request] = (uid, {})
            if len(memories) > MEMORIES:
                memories.popitem(last=False)
        memories.move_to_end((kind, request))
        return known[1]

    def reconciler(self, handler: ObjectHandler, *, first: bool) -> Callable[[Request], Any]:
        """From a request to a call of the function, with the finalizer in place before.

        Of several reconcilers of a kind the first one puts it on and cleans up; the others wait for it.
        """
        kind, call, client = handler.kind, handler.call, self.manager.client
        finalizers = self.finalizers_of(kind) if first else None
        finalizing = self.operator.finalizers.get(kind)
        awaited = finalizing.options["finalizer"] if finalizing is not None and not first else ""

        async def reconcile(request: Request) -> Result | None:
            try:
                obj = await client.get(kind, request.name, namespace=request.namespace or None)
            except NotFound:
                self._memories.pop((kind, request), None)
                return None
            if finalizers is not None:
                result = await finalizers.handle(obj)
                if result is not None:
                    return result
            if is_deleting(obj):
                return None
            if awaited and not has_finalizer(obj, awaited):
                return Result(requeue_after=FINALIZER_WAIT)
            answer: Result | None = await call(self.values_for(kind, obj))
            return answer

        reconcile.__qualname__ = describe(handler.function)
        return reconcile

    def finalizers_of(self, kind: type[MetaObject]) -> Finalizers | None:
        """The finalizer of a kind with its clean-up."""
        handler = self.operator.finalizers.get(kind)
        if handler is None:
            return None
        call = handler.call

        async def clean_up(obj: Any) -> Result | None:
            answer = await call(self.values_for(kind, obj))
            return answer if isinstance(answer, Result) and answer.delay > 0 else None

        return Finalizers(self.manager.client, {handler.options["finalizer"]: clean_up})

    def object_function(self, handler: ObjectHandler) -> Callable[[Any], Any]:
        """A timer's function, of the object alone."""

        async def function(obj: Any) -> Any:
            return await handler.call(self.values_for(handler.kind, obj))

        return function

    def daemon_function(self, handler: ObjectHandler) -> Callable[..., Any]:
        """A daemon's function: async or plain, with or without `stopped`, as it was written."""
        call, kind = handler.call, handler.kind

        async def run_async(obj: Any) -> Any:
            return await call.bound(self.values_for(kind, obj))()

        async def run_until(obj: Any, stopped: StopEvent) -> Any:
            return await call.bound({**self.values_for(kind, obj), "stopped": stopped})()

        def run_plain(obj: Any, stopped: StopEvent) -> Any:
            return call.bound({**self.values_for(kind, obj), "stopped": stopped})()

        if not call.is_async:
            return run_plain
        return run_until if "stopped" in call.parameters.values() else run_async


def build_runtime(operator: Operator, client: Client) -> OperatorRuntime:
    """Make everything that an operator needs, ready to run."""
    made = OperatorRuntime(operator, client)
    manager = made.manager
    manager.add(made.recorder)
    for kind, index in operator.indexes:
        manager.cache.add_index(kind, index)
    _add_servers(made, client)
    finalized: set[type] = set()
    for handler in operator.reconcilers:
        _add_controller(made, handler, first=handler.kind not in finalized)
        finalized.add(handler.kind)
    for kind in operator.finalizers:
        if kind not in finalized:
            _add_finalizing_controller(made, kind)
    for handler in operator.timers:
        add_timer(manager, handler.kind, made.object_function(handler), **handler.options)
    for handler in operator.daemons:
        add_daemon(manager, handler.kind, made.daemon_function(handler), **handler.options)
    return made


def _add_controller(made: OperatorRuntime, handler: ObjectHandler, *, first: bool) -> None:
    options = {name: value for name, value in handler.options.items() if value is not None}
    builder: ControllerBuilder[Request] = ControllerBuilder(made.manager, options.pop("name", ""))
    builder.for_(handler.kind, predicates=handler.predicates)
    for owned in handler.owns:
        builder.owns(owned)
    for kind, mapping in handler.watches:
        builder.watches(kind, mapping.bound(made.values()))
    builder.with_options(**options)
    builder.complete(made.reconciler(handler, first=first))


def _add_finalizing_controller(made: OperatorRuntime, kind: type[MetaObject]) -> None:
    """A kind that is cleaned up after and not reconciled."""
    finalizers = made.finalizers_of(kind)
    assert finalizers is not None
    client = made.manager.client

    async def reconcile(request: Request) -> Result | None:
        try:
            obj = await client.get(kind, request.name, namespace=request.namespace or None)
        except NotFound:
            return None
        return await finalizers.handle(obj)

    name = f"{kind.__name__.lower()}-finalizer"
    ControllerBuilder[Request](made.manager, name).for_(kind).complete(reconcile)


def _add_servers(made: OperatorRuntime, client: Client) -> None:
    """Add the servers that the settings and decorators ask for."""
    operator, manager = made.operator, made.manager
    settings, probes = operator.settings, operator.probes
    probes.add_ready_check("caches", lambda: _require(manager.ready, "caches are not in step yet"))
    if settings.probe_port is not None:
        manager.add(probe_server(probes, port=settings.probe_port))
    if settings.metrics_port is not None:
        certificates, access = None, None
        if settings.metrics_secure:
            certificates = _metrics_certificates(settings.metrics_certificates)
            access = MetricsAuthorizer(client)
        manager.add(metrics_server(port=settings.metrics_port, certificates=certificates, access=access))
    if operator.defaults or operator.validators or operator.converters:
        server = webhook_server(operator, client)
        probes.add_ready_check("webhooks", lambda: _require(server.listening, "not listening yet"))
        manager.add(server)
        if settings.development:
            manager.add(_Registration(operator, client, server))


def _metrics_certificates(directory: str) -> CertificateProvider:
    if directory:
        return CertificateFiles(Path(directory, "tls.crt"), Path(directory, "tls.key"))
    return SelfSignedCertificates(("localhost", "127.0.0.1", socket.gethostname()))


def webhook_server(operator: Operator, client: Client) -> WebhookServer:
    """The server of the webhooks that are declared, with the certificates that the settings name."""
    settings = operator.settings
    host = settings.webhook_host or (LOCAL if settings.development else EVERYWHERE)
    port = settings.webhook_port or (0 if settings.development else WEBHOOK_PORT)
    certificates: CertificateProvider
    if settings.development:
        certificates = SelfSignedCertificates((host, "localhost"))
    elif settings.webhook_certificates:
        directory = Path(settings.webhook_certificates)
        certificates = CertificateFiles(directory / "tls.crt", directory / "tls.key")
    else:
        namespace = settings.leader_election_namespace or in_cluster_namespace(
            "webhooks keep their certificates in a Secret and need its namespace (or use "
            "--webhook-certificates, or --development on a laptop)"
        )
        service = settings.webhook_service or f"{operator.name}-webhook-service"
        certificates = ManagedCertificates(
            client,
            secret=settings.webhook_secret or f"{operator.name}-webhook-certificates",
            namespace=namespace,
            hosts=(f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"),
            inject=_injections(operator),
        )
    server = WebhookServer(certificates, host=host, port=port)
    for each in operator.defaults.values():
        server.add_admission(_path(each.webhook, each.kind), Defaulter(each.kind, each.function))
    for each in operator.validators.values():
        validator: Validator[Any] = Validator(each.kind, each.function, each.webhook.verbs)
        server.add_admission(_path(each.webhook, each.kind), validator)
    for converter in operator.converters:
        server.conversions.add(converter)
    return server


def _path(webhook: Any, kind: type[MetaObject]) -> str:
    assert kind.gvk is not None
    return str(webhook.path or webhook_path(kind.gvk, mutating=webhook.mutating))


def _injections(operator: Operator) -> list[CABundleTarget]:
    """The objects that must trust the webhooks' authority."""
    group, version = "admissionregistration.k8s.io", "v1"
    found: list[CABundleTarget] = []
    for word, wanted in (("Mutating", operator.defaults), ("Validating", operator.validators)):
        if wanted:
            kind = GroupVersionKind(group, version, f"{word}WebhookConfiguration")
            found.append((kind, f"{operator.name}-{word.lower()}-webhook-configuration"))
    definition = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    for converter in operator.converters:
        info = resource_info(converter.hub)
        found.append((definition, f"{info.plural}.{info.gvk.group}"))
    return found


class _Registration:
    """Tells the API server where this process serves its webhooks, before anything is reconciled."""

    needs_leader = False
    group = "webhooks"
    name = "webhook registration"

    def __init__(self, operator: Operator, client: Client, server: WebhookServer) -> None:
        self._operator = operator
        self._client = client.with_field_owner(operator.name)
        self._server = server
        self._done = asyncio.Event()

    async def wait_until_started(self) -> None:
        """Wait until the API server knows."""
        await self._done.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Register, then wait for the end."""
        listening, stopping = (
            asyncio.create_task(self._server.wait_until_started()),
            asyncio.create_task(stop.wait()),
        )
        try:
            await asyncio.wait([listening, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
            stopping.cancel()
        if stop.is_set():  # the server could not listen, or somebody was quick
            return
        certificates = self._server.certificates
        assert isinstance(certificates, SelfSignedCertificates)
        url = f"https://{self._server.host}:{self._server.port}"
        authority = certificates.authority
        name, webhooks = self._operator.name, self._operator.webhooks()
        await install_webhooks(self._client, name, webhooks, url=url, authority=authority)
        await install_definitions(self._client, self._operator.kinds, convert_at=url, authority=authority)
        self._done.set()
        await stop.wait()
        try:
            await remove_webhooks(self._client, name, url=url)
        except (APIError, ConnectionFailed) as error:
            logger.warning("the webhook configurations of %s stay, and nobody answers: %s", name, error)


async def run(
    operator: Operator,
    client: Client,
    stop: asyncio.Event | None,
    also: Sequence[Callable[[Manager, EventRecorder], Any]],
) -> None:
    """Install what development needs, call the startup functions, run, and clean up."""
    stop = stop if stop is not None else asyncio.Event()
    with stopping_on_signals(stop):
        made = await _unless(stop, prepare(operator, client))
        if made is None:
            return
        made.manager.handle_signals = False
        for make in also:
            made.manager.add(make(made.manager, made.recorder))
        await made.manager.run(stop)


async def prepare(operator: Operator, client: Client) -> OperatorRuntime:
    """Everything up to the start: definitions, parts, startup functions."""
    if operator.settings.development:
        names = await install_definitions(client.with_field_owner(operator.name), operator.kinds)
        if names:
            logger.info("installed %s", ", ".join(names))
    made = build_runtime(operator, client)
    values = made.values(live=True)
    for function in operator.startup:
        await function(values)
    for function in reversed(operator.cleanup):
        made.manager.on_stop(functools.partial(function, values))
    return made


async def _unless(
    stop: asyncio.Event, preparing: Coroutine[Any, Any, OperatorRuntime]
) -> OperatorRuntime | None:
    """What was prepared, or nothing if `stop` was set before that was done."""
    task = asyncio.ensure_future(preparing)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(otherwise)
