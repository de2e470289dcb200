"""`Operator`: the short form. Decorated functions in, a running manager out.

    operator = Operator("guestbook")

    @operator.reconcile(Guestbook, owns=(Deployment,))
    async def reconcile(guestbook: Guestbook, ctx: Context) -> Result | None: ...

    @operator.default(Guestbook)
    def fill(guestbook: Guestbook) -> None: ...

It has nothing of its own: each decorator notes what `Manager`, `ControllerBuilder` and `WebhookServer` are
told when the operator is run (`assembly`). Functions get their arguments by type (`injection`), may be plain
or async, and the permissions and webhook configurations that they need follow from what they declare.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kubewright.api.declarations import Declaration, Webhook, is_resource, webhook_path
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient
from kubewright.cache.indexes import Index, by_function
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind
from kubewright.controller.builder import ControllerBuilder
from kubewright.controller.daemons import DaemonController, StopEvent
from kubewright.controller.request import Request
from kubewright.controller.timers import add_timer
from kubewright.webhook.conversion import Converter

from . import rbac as permissions
from .context import Context, ObjectLogger
from .events import EventRecorder
from .injection import InjectedFunction, InjectionError, check_takes, describe, where_is
from .manager import Manager
from .probes import Probes
from .settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
Watched = tuple[AnyKind, Callable[..., Iterable[Request] | Awaitable[Iterable[Request]]]]
"""A kind, and a function from its objects to requests."""

PROCESS: dict[type, str] = {
    CachedClient: "client",
    Client: "client",
    Cache: "cache",
    EventRecorder: "recorder",
    Manager: "manager",
}
"""What every function of an operator can have."""
CALL: dict[type, str] = {
    Context: "context",
    Request: "request",
    ObjectLogger: "log",
    logging.Logger: "log",
    **PROCESS,
}
"""What a function about an object can have beside the object."""


@dataclass(slots=True)
class ObjectHandler:
    """A function about objects of a kind, and how it is to be called."""

    kind: type[MetaObject]
    function: Callable[..., Any]
    call: InjectedFunction
    options: dict[str, Any] = field(default_factory=dict)
    owns: Sequence[type[MetaObject]] = ()
    watches: Sequence[tuple[AnyKind, InjectedFunction]] = ()
    predicates: Sequence[Callable[..., bool]] = ()


@dataclass(slots=True)
class AdmissionFunction:
    """A function of an admission webhook."""

    kind: type[MetaObject]
    function: Callable[..., Any]
    webhook: Webhook


class Operator:
    """A program that looks after kinds of objects."""

    def __init__(
        self, name: str, *, namespaces: Sequence[str] | None = None, scheme: Scheme | None = None
    ) -> None:
        self.name = name
        self.settings = Settings(namespaces=namespaces)
        self.scheme = scheme if scheme is not None else Scheme()
        self.probes = Probes()
        """Named checks of health and readiness; add your own."""
        self.reconcilers: list[ObjectHandler] = []
        self.finalizers: dict[type[MetaObject], ObjectHandler] = {}
        self.timers: list[ObjectHandler] = []
        self.daemons: list[ObjectHandler] = []
        self.defaults: dict[type[MetaObject], AdmissionFunction] = {}
        self.validators: dict[type[MetaObject], AdmissionFunction] = {}
        self.converters: list[Converter] = []
        self.indexes: list[tuple[type[MetaObject], Index]] = []
        self.startup: list[InjectedFunction] = []
        self.cleanup: list[InjectedFunction] = []

    # Functions about objects

    def reconcile(
        self,
        kind: type[MetaObject],
        *,
        owns: Sequence[type[MetaObject]] = (),
        watches: Sequence[Watched] = (),
        predicates: Sequence[Callable[..., bool]] = (),
        workers: int = 1,
        timeout: float | None = None,
        name: str = "",
        **options: Any,
    ) -> Callable[[F], F]:
        """Call the function whenever an object of `kind`, or something it owns, may need attention.

        `watches` pairs other kinds with a function from their objects to requests; it may be async, and what
        it asks for beside the object (a `Client`, the `Cache`) is found by type. Of Secrets and ConfigMaps it
        sees metadata alone, unless `settings.allow` or `settings.kinds` has them kept. Further options are
        those of `ControllerBuilder.with_options`. Objects that are being deleted are left alone; see
        `finalize`.
        """
        check_kind(kind)
        check_options("reconcile", options, ControllerBuilder.with_options, ("owns", "watches", "predicates"))
        owned, tests = sequence_of("owns", owns), sequence_of("predicates", predicates)
        for each in owned:
            check_kind(each)
        for test in tests:
            if not callable(test):
                raise TypeError(f"predicates: {test!r} is no predicate: give a function of a Change")
        watched = [_watched(pair) for pair in sequence_of("watches", watches)]

        def register(function: F) -> F:
            chosen = {"workers": workers, "timeout": timeout, "name": name or None, **options}
            handler = self._handler(kind, function, "reconciler", chosen)
            handler.owns, handler.watches, handler.predicates = owned, watched, tests
            self.reconcilers.append(handler)
            return function

        return register

    def finalize(self, kind: type[MetaObject], *, finalizer: str = "") -> Callable[[F], F]:
        """Call the function before an object of `kind` goes; it stays until the function has succeeded.

        The finalizer (by default the group of the kind and the name of the operator) is stored before the
        object is reconciled for the first time. A `Result` with `requeue_after` says: not yet.
        """
        check_kind(kind)

        def register(function: F) -> F:
            if kind in self.finalizers:
                raise InjectionError(f"{describe(function)}: {kind.__name__} has a finalizer already")
            mark = finalizer
            if not mark:
                assert kind.gvk is not None
                if not is_resource(kind):
                    raise InjectionError(
                        f"{describe(function)}: {kind.__name__} is not a kind of yours: name the finalizer, "
                        f'finalize({kind.__name__}, finalizer="example.com/{self.name}")'
                    )
                mark = f"{kind.gvk.group}/{self.name}"
            handler = self._handler(kind, function, "finalizer", {"finalizer": mark})
            self.finalizers[kind] = handler
            return function

        return register

    def timer(self, kind: type[MetaObject], *, every: float, **options: Any) -> Callable[[F], F]:
        """Call the function for every object of `kind`, every so many seconds.

        Options are those of `add_timer`: `initial_delay`, `idle`, `sharp`, `when`, `workers`, `name`, ...
        """
        check_kind(kind)
        check_options("timer", options, add_timer, ("every",))
        if every <= 0:
            raise ValueError(f"a timer needs an interval above 0 seconds, not {every:g}")

        def register(function: F) -> F:
            chosen = {"interval": every, "name": _dashed(function, "timer"), **options}
            self.timers.append(self._handler(kind, function, "timer", chosen))
            return function

        return register

    def daemon(self, kind: type[MetaObject], **options: Any) -> Callable[[F], F]:
        """Run the function beside every object of `kind` for as long as the object exists.

        It may ask for `StopEvent`, to end by itself; a plain function has to. Options: those of `add_daemon`.
        """
        check_kind(kind)
        check_options("daemon", options, DaemonController)

        def register(function: F) -> F:
            handler = self._handler(kind, function, "daemon", {}, {StopEvent: "stopped"})
            if not handler.call.is_async and "stopped" not in handler.call.parameters.values():
                raise InjectionError(
                    f"{describe(function)}: a plain function cannot be cancelled; let it take "
                    "stopped: StopEvent and end when that is true, or make it async"
                )
            handler.options = {"name": _dashed(function, "daemon"), **options}
            self.daemons.append(handler)
            return function

        return register

    def index(self, kind: type[MetaObject], name: str) -> Callable[[F], F]:
        """Find objects of `kind` by the texts that the function gives: `list(kind, fields={name: text})`."""
        check_kind(kind)

        def register(function: F) -> F:
            check_takes(function, 1, "an index takes one argument, the object")
            self.indexes.append((kind, by_function(name, kind, function)))
            return function

        return register

    # Webhooks

    def default(self, kind: type[MetaObject], **webhook: Any) -> Callable[[F], F]:
        """Fill in objects of `kind` before they are stored (a mutating webhook).

        The function takes the object, and the `AdmissionRequest` if it has a second parameter. Options are
        those of `Webhook`: `failure_policy`, `timeout_seconds`, ...
        """
        return self._admission(kind, self.defaults, mutating=True, options=webhook)

    def validate(
        self, kind: type[MetaObject], *, on: Sequence[str] = ("create", "update"), **webhook: Any
    ) -> Callable[[F], F]:
        """Refuse objects of `kind` that are wrong (a validating webhook).

        The function takes the new and the old object, and the `AdmissionRequest` if it has a third parameter.
        """
        options = {"verbs": tuple(on), **webhook}
        return self._admission(kind, self.validators, mutating=False, options=options)

    def _admission(
        self,
        kind: type[MetaObject],
        known: dict[type[MetaObject], AdmissionFunction],
        *,
        mutating: bool,
        options: dict[str, Any],
    ) -> Callable[[F], F]:
        check_kind(kind)
        assert kind.gvk is not None
        gvk = kind.gvk
        if is_resource(kind):
            options = {"of": kind, **options}
        else:
            info = self.scheme.info_of(kind)
            letter = "m" if mutating else "v"
            options = {
                "groups": (gvk.group or "core",),
                "versions": (gvk.version,),
                "resources": (info.plural,),
                "name": f"{letter}{gvk.kind.lower()}-{gvk.version}.{self.name}.kubewright.dev",
                "path": webhook_path(gvk, mutating=mutating),
                **options,
            }

        def register(function: F) -> F:
            word = "defaulting" if mutating else "validating"
            if kind in known:
                raise InjectionError(f"{describe(function)}: {kind.__name__} has a {word} function already")
            if mutating:
                check_takes(function, 1, "takes the object, and the AdmissionRequest if it wants to")
            else:
                check_takes(
                    function, 2, "takes the new and the old object, and the AdmissionRequest if it wants to"
                )
            declared = Webhook(mutating=mutating, where=where_is(function), **options)
            known[kind] = AdmissionFunction(kind, function, declared)
            return function

        return register

    def convert(self, converter: Converter) -> Converter:
        """Convert between the versions of a kind (a conversion webhook)."""
        self.converters.append(converter)
        return converter

    # The process

    def on_startup(self, function: F) -> F:
        """Call the function, on every replica, before anything starts. Its client reads from the server."""
        self.startup.append(InjectedFunction(function, PROCESS, what="startup function"))
        return function

    def on_cleanup(self, function: F) -> F:
        """Call the function after everything has stopped, while a leader still leads."""
        self.cleanup.append(InjectedFunction(function, PROCESS, what="cleanup function"))
        return function

    def _handler(
        self,
        kind: type[MetaObject],
        function: Callable[..., Any],
        what: str,
        options: dict[str, Any],
        more: dict[type, str] | None = None,
    ) -> ObjectHandler:
        known = {kind: "object", **CALL, **(more or {})}
        return ObjectHandler(kind, function, InjectedFunction(function, known, what=what), options)

    # What manifests need

    def declarations(self) -> Iterable[Declaration]:
        """The permissions and webhooks that follow from the decorators and the settings."""
        yield from permissions.of(self)
        yield from self.webhooks()

    def webhooks(self) -> list[Webhook]:
        """The admission webhooks that are declared."""
        return [each.webhook for each in (*self.defaults.values(), *self.validators.values())]

    @property
    def kinds(self) -> list[type[MetaObject]]:
        """The kinds of its own that the operator looks after: those whose definitions it needs installed."""
        every = [each.kind for each in (*self.reconcilers, *self.timers, *self.daemons)]
        every += [*self.finalizers, *self.defaults, *self.validators]
        every += [kind for converter in self.converters for kind in converter.types]
        return [kind for kind in dict.fromkeys(every) if is_resource(kind)]

    # Running

    def manager(self, client: Client) -> Manager:
        """Make the manager that runs this operator against the cluster of a client."""
        from .operator_runtime import build_runtime

        return build_runtime(self, client).manager

    async def run(
        self,
        client: Client | None = None,
        stop: asyncio.Event | None = None,
        *,
        also: Sequence[Callable[[Manager, EventRecorder], Any]] = (),
    ) -> None:
        """Run until `stop` is set or a signal comes; connects as kubectl would if no client is given.

        `also` are functions that make further parts of the process.
        """
        from .operator_runtime import run

        own = client is None
        client = client if client is not None else Client.connect()
        try:
            await run(self, client, stop, also)
        finally:
            if own:
                await client.aclose()


def check_kind(kind: type[MetaObject]) -> None:
    """Complain about a class that is no kind."""
    if inspect.isfunction(kind):
        raise InjectionError(
            f"{describe(kind)}: name the kind in the decorator, as in @operator.reconcile(Shop)"
        )
    if getattr(kind, "gvk", None) is None:
        name = getattr(kind, "__name__", kind)
        raise TypeError(f"{name} is not a kind: put @resource(group=..., version=...) on it")


def check_options(
    what: str, options: Mapping[str, Any], target: Callable[..., Any], more: Sequence[str] = ()
) -> None:
    """Complain about options that nobody knows, where they are written and not when they are used."""
    known = [
        each.name for each in inspect.signature(target).parameters.values() if each.kind is each.KEYWORD_ONLY
    ]
    known = sorted({*known, *more})
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            advice = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known)}"
            raise TypeError(f"{what}(...) has no option {name!r}; {advice}")


def sequence_of(name: str, values: Any) -> tuple[Any, ...]:
    """The values of an argument that takes several."""
    if isinstance(values, Iterable) and not isinstance(values, str | type):
        return tuple(values)
    shown = getattr(values, "__name__", repr(values))
    raise TypeError(f"{name}={shown}: give several in parentheses, {name}=({shown},)")


def _watched(pair: Any) -> tuple[AnyKind, InjectedFunction]:
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and callable(pair[1])):
        raise TypeError(
            "watches takes pairs of a kind and a function from its objects to requests, as in "
            f"watches=((Region, shops_in),): not {pair!r}"
        )
    kind, mapping = pair
    return kind, InjectedFunction(mapping, PROCESS, what="mapping", given=1)


def _dashed(function: Callable[..., Any], suffix: str) -> str:
    return f"{getattr(function, '__name__', suffix)}-{suffix}".replace("_", "-")


__all__ = ["Operator"]
