"""`Operator`: the short form. Decorated functions in, a running manager out.

    operator = Operator("guestbook")

    @operator.reconcile(Guestbook, owns=(Deployment,))
    async def reconcile(guestbook: Guestbook, ctx: Context) -> Result | None: ...

    @operator.default(Guestbook)
    def fill(guestbook: Guestbook) -> None: ...

It has nothing of its own: each decorator notes what `Manager`, `ControllerBuilder` and `WebhookServer` are
told when the operator is run. Functions get their arguments by type (`injection`), may be plain or async, and
the permissions and webhook configurations that they need follow from what they declare (`declarations`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kubewright.api.declare import Declaration, Webhook, is_resource, resource_info, webhook_path
from kubewright.api.finalizers import add_finalizer, has_finalizer, remove_finalizer
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient
from kubewright.client import Client
from kubewright.client.kinds import Kind
from kubewright.controller.builder import ControllerBuilder
from kubewright.controller.daemons import add_daemon
from kubewright.controller.desired import DesiredState
from kubewright.controller.request import Request, Result
from kubewright.controller.timers import add_timer
from kubewright.webhook.admission import Defaulter, Validator
from kubewright.webhook.certificates import (
    CertificateFiles,
    DevelopmentCertificates,
    Injection,
    ManagedCertificates,
)
from kubewright.webhook.conversion import Converter
from kubewright.webhook.server import Certificates, WebhookServer

from . import permissions
from .cluster import Cluster
from .context import Context, ObjectLogger
from .events import EventRecorder
from .http import AccessCheck, metrics_server, probe_server
from .injection import Injected
from .installation import install_definitions, install_webhooks
from .leader_election import LeaderElector, in_cluster_namespace
from .manager import Manager
from .probes import Probes
from .settings import Settings

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=MetaObject)


@dataclass(slots=True)
class _Reconciler:
    kind: type[MetaObject]
    function: Callable[..., Any]
    owns: Sequence[type[MetaObject]]
    watches: Sequence[tuple[Kind, Callable[..., Iterable[Request]]]]
    finalize: Callable[..., Any] | None
    options: dict[str, Any]
    predicates: Sequence[Callable[..., bool]]


class Operator:
    """A program that looks after kinds of objects."""

    def __init__(
        self, name: str, *, namespaces: Sequence[str] | None = None, scheme: Scheme | None = None
    ) -> None:
        self.name = name
        self.settings = Settings(namespaces=namespaces)
        self.scheme = scheme if scheme is not None else Scheme()
        self._reconcilers: list[_Reconciler] = []
        self._finalizers: dict[type[MetaObject], Callable[..., Any]] = {}
        self._defaults: dict[type[MetaObject], Callable[..., Any]] = {}
        self._validates: dict[type[MetaObject], tuple[Callable[..., Any], tuple[str, ...]]] = {}
        self._startup: list[Injected] = []
        self._cleanup: list[Injected] = []
        self._converters: list[Converter] = []
        self._timers: list[tuple[type[MetaObject], Callable[..., Any], dict[str, Any]]] = []
        self._daemons: list[tuple[type[MetaObject], Callable[..., Any], dict[str, Any]]] = []
        self._memory: dict[str, dict[str, Any]] = {}
        self.probes = Probes()

    # Decorators

    def reconcile(
        self,
        kind: type[MetaObject],
        *,
        owns: Sequence[type[MetaObject]] = (),
        watches: Sequence[tuple[Kind, Callable[..., Iterable[Request]]]] = (),
        predicates: Sequence[Callable[..., bool]] = (),
        workers: int = 1,
        timeout: float | None = None,
        name: str = "",
        **options: Any,
    ) -> Callable[[F], F]:
        """Call the function whenever an object of `kind`, or something it owns, may need attention.

        `watches` pairs other kinds with a function from their objects to requests.
        """
        self._check(kind)

        def register(function: F) -> F:
            Injected(function, self._known(kind), what="reconciler")
            chosen = {"workers": workers, "timeout": timeout, "name": name or None, **options}
            self._reconcilers.append(
                _Reconciler(kind, function, tuple(owns), tuple(watches), None, chosen, tuple(predicates))
            )
            return function

        return register

    def finalize(self, kind: type[MetaObject]) -> Callable[[F], F]:
        """Call the function before an object of `kind` goes; it stays until the function has succeeded."""
        self._check(kind)

        def register(function: F) -> F:
            if kind in self._finalizers:
                raise ValueError(f"{kind.__name__} has a finalizer already")
            Injected(function, self._known(kind), what="finalizer")
            self._finalizers[kind] = function
            return function

        return register

    def default(self, kind: type[MetaObject]) -> Callable[[F], F]:
        """Fill in objects of `kind` before they are stored (a mutating webhook)."""
        self._check(kind)

        def register(function: F) -> F:
            if kind in self._defaults:
                raise ValueError(f"{kind.__name__} has a defaulting function already")
            self._defaults[kind] = function
            return function

        return register

    def validate(
        self, kind: type[MetaObject], *, on: Sequence[str] = ("create", "update")
    ) -> Callable[[F], F]:
        """Refuse objects of `kind` that are wrong (a validating webhook)."""
        self._check(kind)

        def register(function: F) -> F:
            if kind in self._validates:
                raise ValueError(f"{kind.__name__} has a validating function already")
            self._validates[kind] = (function, tuple(on))
            return function

        return register

    def timer(self, kind: type[MetaObject], *, every: float, **options: Any) -> Callable[[F], F]:
        """Call the function for every object of `kind`, again and again."""
        self._check(kind)

        def register(function: F) -> F:
            self._timers.append((kind, function, {"every": every, **options}))
            return function

        return register

    def daemon(self, kind: type[MetaObject], **options: Any) -> Callable[[F], F]:
        """Run the function beside every object of `kind` for as long as the object exists."""
        self._check(kind)

        def register(function: F) -> F:
            self._daemons.append((kind, function, options))
            return function

        return register

    def convert(self, converter: Converter) -> Converter:
        """Convert between the versions of a kind (a conversion webhook)."""
        self._converters.append(converter)
        return converter

    def on_startup(self, function: F) -> F:
        """Call the function before anything is reconciled."""
        self._startup.append(Injected(function, self._process_known(), what="startup function"))
        return function

    def on_cleanup(self, function: F) -> F:
        """Call the function after everything has stopped."""
        self._cleanup.append(Injected(function, self._process_known(), what="cleanup function"))
        return function

    def _check(self, kind: type[MetaObject]) -> None:
        if getattr(kind, "gvk", None) is None:
            name = getattr(kind, "__name__", kind)
            raise TypeError(f"{name} is not a kind: put @resource(group=..., version=...) on it")

    def _process_known(self) -> dict[type, str]:
        return {
            CachedClient: "client",
            Client: "client",
            Cache: "cache",
            EventRecorder: "recorder",
            Manager: "manager",
        }

    def _known(self, kind: type[MetaObject]) -> dict[type, str]:
        return {
            kind: "object",
            Context: "context",
            Request: "request",
            ObjectLogger: "log",
            logging.Logger: "log",
            **self._process_known(),
        }

    # What manifests need

    def declarations(self) -> Iterable[Declaration]:
        """The permissions and webhooks that follow from the decorators."""
        for each in self._reconcilers:
            yield from permissions.for_reconciled(self.scheme, each.kind)
            for owned in each.owns:
                yield from permissions.for_owned(self.scheme, owned)
            for watched, _ in each.watches:
                if isinstance(watched, type):
                    yield from permissions.for_watched(self.scheme, watched)
        if self._reconcilers:
            yield from permissions.for_events()
        yield from self.webhooks()

    def webhooks(self) -> list[Webhook]:
        """The webhooks that are declared."""
        found = [Webhook(of=kind, mutating=True) for kind in self._defaults if is_resource(kind)]
        found += [
            Webhook(of=kind, mutating=False, verbs=verbs)
            for kind, (_, verbs) in self._validates.items()
            if is_resource(kind)
        ]
        return found

    @property
    def kinds(self) -> list[type[MetaObject]]:
        """The kinds of its own that the operator looks after: those whose definitions it needs installed."""
        every = [each.kind for each in self._reconcilers]
        every += [*self._defaults, *self._validates]
        every += [kind for kind, _, _ in (*self._timers, *self._daemons)]
        every += [kind for converter in self._converters for kind in converter.types]
        return [kind for kind in dict.fromkeys(every) if is_resource(kind)]

    # Running

    def manager(self, client: Client) -> Manager:
        """Make the manager that runs this operator against the cluster of a client."""
        settings = self.settings
        cluster = Cluster(
            client.field_owner(self.name),
            scheme=self.scheme,
            namespaces=settings.namespaces,
            kinds=settings.kinds,
            allow=settings.allow,
        )
        elector = None
        if settings.leader_election:
            elector = LeaderElector(
                client,
                settings.leader_election_name or self.name,
                namespace=settings.leader_election_namespace,
            )
        manager = Manager(cluster, elector=elector, grace=settings.grace)
        recorder = EventRecorder(client, self.name)
        manager.add(recorder)
        self._serve(manager, client)
        for each in self._reconcilers:
            self._build(manager, recorder, each)
        for kind, function, options in self._timers:
            add_timer(manager, kind, function, **options)
        for kind, function, options in self._daemons:
            add_daemon(manager, kind, function, **options)
        return manager

    def _serve(self, manager: Manager, client: Client) -> None:
        """Add the servers that the settings and decorators ask for."""
        settings = self.settings
        self.probes.add_ready_check("caches", lambda: _require(manager.ready, "caches are not in step yet"))
        if settings.probe_port is not None:
            manager.add(probe_server(self.probes, port=settings.probe_port))
        if settings.metrics_port is not None:
            tls, access = None, None
            if settings.metrics_secure:
                tls = DevelopmentCertificates(("localhost", socket.gethostname())).context()
                access = AccessCheck(client)
            manager.add(metrics_server(port=settings.metrics_port, tls=tls, access=access))
        if self._defaults or self._validates or self._converters:
            server = self.webhook_server(client)
            self.probes.add_ready_check("webhooks", lambda: _require(server.listening, "not listening yet"))
            manager.add(server)
            if settings.development:
                manager.add(_Registration(self, client, server))

    def webhook_server(self, client: Client) -> WebhookServer:
        """The server of the webhooks that are declared, with the certificates that the settings name."""
        settings = self.settings
        certificates: Certificates
        if settings.development:
            certificates = DevelopmentCertificates((settings.webhook_host, "localhost"))
        elif settings.webhook_certificates:
            directory = Path(settings.webhook_certificates)
            certificates = CertificateFiles(directory / "tls.crt", directory / "tls.key")
        else:
            namespace = settings.leader_election_namespace or in_cluster_namespace()
            service = settings.webhook_service or f"{self.name}-webhook-service"
            certificates = ManagedCertificates(
                client,
                secret=settings.webhook_secret or f"{self.name}-webhook-certificates",
                namespace=namespace,
                hosts=(f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"),
                inject=self._injections(),
            )
        server = WebhookServer(certificates, host=settings.webhook_host, port=settings.webhook_port)
        for kind, function in self._defaults.items():
            server.add_admission(_webhook_path(kind, mutating=True), Defaulter(kind, function))
        for kind, (function, operations) in self._validates.items():
            server.add_admission(_webhook_path(kind, mutating=False), Validator(kind, function, operations))
        for converter in self._converters:
            server.conversions.add(converter)
        return server

    def _injections(self) -> list[Injection]:
        """The objects that must trust the webhooks' authority."""
        group, version = "admissionregistration.k8s.io", "v1"
        found: list[Injection] = []
        for word, wanted in (("Mutating", self._defaults), ("Validating", self._validates)):
            if wanted:
                kind = GroupVersionKind(group, version, f"{word}WebhookConfiguration")
                found.append((kind, f"{self.name}-{word.lower()}-webhook-configuration"))
        definition = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        for converter in self._converters:
            info = resource_info(converter.hub)
            found.append((definition, f"{info.plural}.{info.gvk.group}"))
        return found

    def _build(self, manager: Manager, recorder: EventRecorder, each: _Reconciler) -> None:
        options = {name: value for name, value in each.options.items() if value is not None}
        builder: ControllerBuilder[Request] = ControllerBuilder(manager, options.pop("name", ""))
        builder.for_(each.kind, predicates=each.predicates)
        for owned in each.owns:
            builder.owns(owned)
        for kind, mapping in each.watches:
            builder.watches(kind, mapping)
        builder.with_options(**options)
        builder.complete(self._reconcile_function(manager, recorder, each))

    def _reconcile_function(
        self, manager: Manager, recorder: EventRecorder, each: _Reconciler
    ) -> Callable[[Request], Any]:
        from kubewright.api.errors import NotFound

        call = Injected(each.function, self._known(each.kind), what="reconciler")
        finalizer = self._finalizers.get(each.kind)
        clean_up = Injected(finalizer, self._known(each.kind), what="finalizer") if finalizer else None
        mark = f"{resource_info(each.kind).gvk.group}/{self.name}" if clean_up is not None else ""
        base_log = logging.getLogger(f"{self.name}.{each.kind.__name__.lower()}")
        client = manager.client
        desired = DesiredState(client, manager.cache, kinds=each.owns, field_owner=self.name)

        async def reconcile(request: Request) -> Result | None:
            key = f"{each.kind.__name__}/{request}"
            try:
                obj = await client.get(each.kind, request.name, namespace=request.namespace)
            except NotFound:
                self._memory.pop(key, None)
                return None
            log = ObjectLogger(
                base_log,
                {"kind": each.kind.__name__, "namespace": request.namespace, "object": request.name},
            )
            context: Context[Any] = Context(
                request=request,
                object=obj,
                client=client,
                cache=manager.cache,
                recorder=recorder,
                log=log,
                desired=desired,
                memory=self._memory.setdefault(key, {}),
            )
            values = {
                "object": obj,
                "context": context,
                "request": request,
                "log": log,
                "client": client,
                "cache": manager.cache,
                "recorder": recorder,
                "manager": manager,
            }
            if obj.metadata.deletion_timestamp is not None:
                if clean_up is not None and has_finalizer(obj, mark):
                    result = await clean_up(values)
                    if isinstance(result, Result) and result.delay > 0:
                        return result
                    remove_finalizer(obj, mark)
                    await client.update(obj)
                return None
            if clean_up is not None and add_finalizer(obj, mark):
                await client.update(obj)
            answer: Result | None = await call(values)
            return answer

        return reconcile

    async def run(self, client: Client | None = None, stop: asyncio.Event | None = None) -> None:
        """Run until `stop` is set or a signal comes; connects as kubectl would if no client is given."""
        own = client is None
        client = client if client is not None else Client.connect()
        try:
            if self.settings.development:
                await install_definitions(client.field_owner(self.name), self.kinds)
            manager = self.manager(client)
            values = {
                "client": manager.client,
                "cache": manager.cache,
                "manager": manager,
                "recorder": EventRecorder(client, self.name),
            }
            for function in self._startup:
                await function(values)
            try:
                await manager.run(stop)
            finally:
                for function in self._cleanup:
                    await function(values)
        finally:
            if own:
                await client.aclose()


class _Registration:
    """Tells the API server where this process serves its webhooks, before anything is reconciled."""

    needs_leader = False
    group = "webhooks"
    name = "webhook registration"

    def __init__(self, operator: Operator, client: Client, server: WebhookServer) -> None:
        self._operator = operator
        self._client = client.field_owner(operator.name)
        self._server = server
        self._done = asyncio.Event()

    async def wait_listening(self) -> None:
        """Wait until the API server knows."""
        await self._done.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Register, then wait for the end."""
        await self._server.wait_listening()
        certificates = self._server.certificates
        assert isinstance(certificates, DevelopmentCertificates)
        url = f"https://{self._server.host}:{self._server.port}"
        await install_webhooks(
            self._client,
            self._operator.name,
            self._operator.webhooks(),
            url=url,
            authority=certificates.authority,
        )
        await install_definitions(
            self._client, self._operator.kinds, convert_at=url, authority=certificates.authority
        )
        self._done.set()
        await stop.wait()


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(otherwise)


def _webhook_path(kind: type[MetaObject], *, mutating: bool) -> str:
    assert kind.gvk is not None
    return webhook_path(kind.gvk, mutating=mutating)


__all__ = ["Operator"]
