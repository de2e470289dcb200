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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kubewright.api.declare import Declaration, Webhook, is_resource, resource_info
from kubewright.api.finalizers import add_finalizer, has_finalizer, remove_finalizer
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient, KindOptions
from kubewright.client import Client
from kubewright.client.kinds import Kind
from kubewright.controller.builder import ControllerBuilder
from kubewright.controller.request import Request, Result

from . import permissions
from .cluster import Cluster
from .context import Context, ObjectLogger
from .events import EventRecorder
from .injection import Injected
from .leader_election import LeaderElector
from .manager import Manager

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


@dataclass(slots=True, kw_only=True)
class Settings:
    """How an operator runs. Everything has a default that suits development."""

    namespaces: Sequence[str] | None = None
    """Work in these namespaces only; `None` means all."""
    leader_election: bool = False
    leader_election_namespace: str = ""
    leader_election_name: str = ""
    grace: float = 30.0
    webhook_host: str = "127.0.0.1"
    webhook_port: int = 0
    kinds: dict[Any, KindOptions] = field(default_factory=dict)
    """What to keep of single kinds; see `Cache`."""
    allow: Sequence[Kind] = ()
    """Kinds to keep whole even if they are Secrets or ConfigMaps."""


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
        self._memory: dict[str, dict[str, Any]] = {}

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
        for each in self._reconcilers:
            self._build(manager, recorder, each)
        return manager

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
                owned_kinds=each.owns,
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


__all__ = ["Operator", "Settings"]
