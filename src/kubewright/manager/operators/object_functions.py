"""`ObjectFunctions`: the decorators that declare functions for the objects of a cluster.

`Operator` has them for the cluster that it runs in, `Fleet` for clusters that join and leave. Each decorator
stores a declaration; `cluster_runtime` builds controllers from them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kubewright.api.declaring.declarations import is_resource, resource_info
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.cache.informers.resync import check_resync
from kubewright.cache.stores.indexes import Index, by_function
from kubewright.client.kind_types import AnyKind
from kubewright.controller.daemons import StopEvent
from kubewright.controller.finalizers import check_finalizer_name
from kubewright.controller.queues.rate_limiters import RateLimiter
from kubewright.controller.request import Request

from .change_handlers import ChangeDispatcher, ChangeHandlers
from .declared_functions import (
    OBJECT_VALUES,
    PROCESS_VALUES,
    MappedKind,
    ObjectHandler,
    ObjectKind,
    WatchedKind,
    class_of,
)
from .injection import InjectedFunction, InjectionError, check_arguments, describe
from .registration import (
    as_sequence,
    check_kind,
    check_object_kind,
    check_predicates,
    dashed_name,
    kind_name,
    suggest_keywords,
)
from .services import Services
from .settings import Settings

if TYPE_CHECKING:
    from kubewright.composition.template import CompositionTemplate
    from kubewright.manager.expansion.composed_kinds import ComposedKind
    from kubewright.manager.expansion.rendered_kinds import RenderedKind

F = TypeVar("F", bound=Callable[..., object])


class ObjectFunctions:
    """Reconcilers and other functions for objects, with their declarations."""

    def __init__(self, name: str, *, settings: Settings, scheme: Scheme, services: Services) -> None:
        self.name = name
        self.settings = settings
        self.scheme = scheme
        self.services = services
        self.former_field_managers: Sequence[str] = ()
        """Names that functions applied objects under before they or the operator were renamed."""
        self.reconcilers: list[ObjectHandler] = []
        self.watchers: list[WatchedKind] = []
        self.finalizers: dict[ObjectKind, ObjectHandler] = {}
        self.rendered: dict[ObjectKind, RenderedKind] = {}
        self.composed: dict[ObjectKind, ComposedKind] = {}
        self.timers: list[ObjectHandler] = []
        self.daemons: list[ObjectHandler] = []
        self.indexes: list[tuple[type[MetaObject], Index]] = []
        self.related: list[ObjectFunctions] = []
        """The fleets of an operator, or the operator of a fleet."""
        self.on = ChangeHandlers(self)
        """Decorators of handlers for changes, with the old and the new state; see `change_handlers`."""

    @property
    def operators(self) -> Sequence[ObjectFunctions]:
        """The operator of a fleet; of an operator, none."""
        return ()

    def _known(self, values: Mapping[type, str]) -> dict[type, str]:
        return {**values, **self.services.names}

    @suggest_keywords
    def reconcile(
        self,
        kind: ObjectKind,
        *,
        owns: Sequence[type[MetaObject]] = (),
        watches: Sequence[MappedKind] = (),
        predicates: Sequence[Callable[..., bool]] = (),
        name: str = "",
        workers: int = 1,
        timeout: float | None = None,
        rate_limiter: RateLimiter[Request] | None = None,
        sync_timeout: float | None = None,
        needs_leader: bool | None = None,
        warm_up: bool | None = None,
        recover: bool | None = None,
        tracing: bool = False,
        priority: int | None = None,
        resync: float | None = None,
    ) -> Callable[[F], F]:
        """Call the function when an object of `kind`, or an object that it owns, changes.

        `watches` pairs other kinds with a function from their objects to requests, as the decorator `watches`
        does. `name` is that of the controller in logs and metrics, by default the kind in lower case; another
        reconciler of the same kind needs another one. `resync`: seconds within which the function is called
        again for every object, changed or not; 0: never, `None`: the period of the operator. The other
        options are those of `ControllerBuilder.with_options`. The function is not called for objects that
        are being deleted; see `finalize`.
        """
        check_object_kind(kind)
        owned, tests = as_sequence("owns", owns), check_predicates(predicates)
        for each in owned:
            check_kind(each)
        watched = [self._watched_kind(pair) for pair in as_sequence("watches", watches)]
        options = {
            "name": name or None,
            "workers": workers,
            "timeout": timeout,
            "rate_limiter": rate_limiter,
            "sync_timeout": sync_timeout,
            "needs_leader": needs_leader,
            "warm_up": warm_up,
            "recover": recover,
            "tracing": tracing,
            "priority": priority,
            "resync": None if resync is None else check_resync(resync),
        }

        def register(function: F) -> F:
            handler = self._handler(kind, function, "reconciler", options)
            handler.owns, handler.watches, handler.predicates = owned, watched, tests
            self.reconcilers.append(handler)
            return function

        return register

    @suggest_keywords
    def render(
        self,
        kind: type[MetaObject],
        templates: str | os.PathLike[str],
        *,
        kinds: Sequence[type[MetaObject] | GroupVersionKind] = (),
        name: str = "",
        workers: int = 1,
        finalizer: str = "",
    ) -> RenderedKind:
        """Apply the objects that a folder of templates, or a Helm chart, renders to for objects of `kind`.

        The folder is described in `template_folder`, the conditions in `rendered_kinds`. Permissions follow
        from the kinds in the templates; `kinds` are those that the text of the templates does not contain. No
        other functions are needed for the kind. `finalizer` is that of `finalize`.
        """
        from kubewright.manager.expansion.rendered_kinds import RenderedKind
        from kubewright.manager.expansion.template_folder import TemplateFolder

        check_kind(kind)
        given = [each if isinstance(each, GroupVersionKind) else self.scheme.gvk_of(each) for each in kinds]
        rendered = RenderedKind(TemplateFolder(templates), kinds=given)
        self.finalize(kind, finalizer=finalizer)(rendered.finalize)
        options = {"name": name or None, "workers": workers}
        self.reconcilers.append(self._handler(kind, rendered.reconcile, "reconciler", options))
        self.rendered[kind] = rendered
        return rendered

    @suggest_keywords
    def compose(
        self,
        kind: type[MetaObject],
        *,
        owns: Sequence[type[MetaObject] | GroupVersionKind] = (),
        reads: Sequence[type[MetaObject] | GroupVersionKind] = (),
        name: str = "",
        workers: int = 1,
        finalizer: str = "",
    ) -> Callable[[F], F]:
        """Apply the graph of objects that the function returns for objects of `kind`.

        The function returns a `kubewright.composition.Graph`; it may be plain or async and receives its
        arguments by type, as a reconciler does. `owns` are the kinds of all objects of the graph, `reads`
        those of `Graph.read`: they are watched, and permissions follow from them. Conditions are described in
        `set_status`; no other functions are needed for the kind. `finalizer` is that of `finalize`.
        """
        check_kind(kind)
        owned, readable = as_sequence("owns", owns), as_sequence("reads", reads)
        for each in (*owned, *readable):
            if not isinstance(each, GroupVersionKind):
                check_kind(each)

        def register(function: F) -> F:
            known = self._known({class_of(kind): "object", **OBJECT_VALUES})
            call = InjectedFunction(function, known, role="composition")
            options = {"name": name or None, "workers": workers}
            self._add_composed(kind, call, owned, readable, options, finalizer)
            return function

        return register

    @suggest_keywords
    def compose_template(
        self,
        kind: type[MetaObject],
        template: CompositionTemplate | str | os.PathLike[str],
        *,
        name: str = "",
        workers: int = 1,
        finalizer: str = "",
    ) -> CompositionTemplate:
        """Apply the graph of objects that a YAML file with CEL expressions declares for objects of `kind`.

        The file is described in `kubewright.composition.template`; it is checked immediately, against the
        types of `kind` and of built-in kinds. Options are those of `compose`.
        """
        from kubewright.composition.template import CompositionTemplate
        from kubewright.manager.expansion.composed_kinds import template_function

        check_kind(kind)
        loaded = template if isinstance(template, CompositionTemplate) else CompositionTemplate.load(template)
        loaded.check(kind)
        known: dict[type, str] = {class_of(kind): "object"}
        call = InjectedFunction(template_function(kind, loaded), known, role="composition")
        options = {"name": name or None, "workers": workers}
        self._add_composed(kind, call, loaded.kinds, loaded.external_kinds, options, finalizer)
        return loaded

    def _add_composed(
        self,
        kind: type[MetaObject],
        call: InjectedFunction,
        owns: Sequence[type[MetaObject] | GroupVersionKind],
        reads: Sequence[type[MetaObject] | GroupVersionKind],
        options: dict[str, Any],
        finalizer: str,
    ) -> None:
        from kubewright.manager.expansion.composed_kinds import ComposedKind

        composed = ComposedKind(call, owns, reads)
        self.finalize(kind, finalizer=finalizer)(composed.finalize)
        self.reconcilers.append(ObjectHandler(kind, call.function, composed, options))
        self.composed[kind] = composed

    @suggest_keywords
    def watches(
        self,
        kind: AnyKind,
        *,
        reconciles: ObjectKind | None = None,
        predicates: Sequence[Callable[..., bool]] = (),
        metadata_only: bool | None = None,
        optional: bool = False,
        priority: int | None = None,
        watched_in: ObjectFunctions | None = None,
    ) -> Callable[[F], F]:
        """Watch another kind: the function returns the requests to reconcile when an object of it changes.

        `reconciles` is the kind of the requested objects; it can be omitted if the operator reconciles only
        one kind. The function may be async, and receives further arguments by type (a `Client`, the `Cache`).
        Of Secrets and ConfigMaps it receives a `PartialObjectMetadata`, unless `metadata_only=False` or
        `settings.allow` includes the kind. An `optional` kind may be installed later.

        `watched_in`: watch the kind elsewhere. A function of an operator with `watched_in=fleet` is called
        for objects of all clusters of the fleet, and for all of a cluster again when it leaves; one of a
        fleet with `watched_in=operator` is called once for each cluster. Requests and clients are those of
        the reconciled objects.
        """
        if isinstance(kind, type):
            check_kind(kind)
        if reconciles is not None:
            check_object_kind(reconciles)
        if watched_in not in (None, self, *self.related):
            raise TypeError(
                f"watches({getattr(kind, '__name__', kind)}, watched_in=...): expected the operator of this "
                "fleet, or a fleet of this operator"
            )
        tests = check_predicates(predicates)

        def register(function: F) -> F:
            mapped = self._map_function(function)
            self.watchers.append(
                WatchedKind(kind, mapped, reconciles, tests, metadata_only, optional, priority, watched_in)
            )
            return function

        return register

    @suggest_keywords
    def finalize(self, kind: ObjectKind, *, finalizer: str = "") -> Callable[[F], F]:
        """Call the function before an object of `kind` is deleted; deletion waits until it has succeeded.

        The finalizer (by default the group of the kind and the name of the operator) is stored before the
        object is first reconciled. Return `Result(requeue_after=...)` if the cleanup is not finished yet.
        """
        check_object_kind(kind)

        def register(function: F) -> F:
            if kind in self.finalizers:
                raise InjectionError(f"{describe(function)}: {kind_name(kind)} already has a finalizer")
            name = finalizer
            if not name:
                if isinstance(kind, str) or not is_resource(kind) or resource_info(kind).external:
                    raise InjectionError(
                        f"{describe(function)}: {kind_name(kind)} is not a kind of this project; "
                        "name the finalizer: "
                        f'finalize({kind_name(kind)}, finalizer="example.com/{self.name}")'
                    )
                assert kind.gvk is not None
                name = f"{kind.gvk.group}/{self.name}"
            try:
                check_finalizer_name(name)
            except ValueError as error:
                raise InjectionError(f"{describe(function)}: {error}") from None
            self.finalizers[kind] = self._handler(kind, function, "finalizer", {"finalizer": name})
            return function

        return register

    @suggest_keywords
    def timer(
        self,
        kind: ObjectKind,
        *,
        interval: float,
        initial_delay: float = 0.0,
        idle: float = 0.0,
        sharp: bool = False,
        when: Callable[[Any], bool] | None = None,
        name: str = "",
        workers: int = 10,
        timeout: float | None = None,
    ) -> Callable[[F], F]:
        """Call the function for each object of `kind` every `interval` seconds.

        Options are those of `kubewright.controller.add_timer`.
        """
        check_object_kind(kind)
        if interval <= 0:
            raise ValueError(f"the interval of a timer must be greater than 0 seconds, not {interval:g}")
        options = {
            "interval": interval,
            "initial_delay": initial_delay,
            "idle": idle,
            "sharp": sharp,
            "when": when,
            "workers": workers,
            "timeout": timeout,
        }

        def register(function: F) -> F:
            handler = self._handler(kind, function, "timer", options)
            handler.options["name"] = name or dashed_name(function, "timer")
            self.timers.append(handler)
            return function

        return register

    @suggest_keywords
    def daemon(
        self,
        kind: ObjectKind,
        *,
        name: str = "",
        when: Callable[[Any], bool] | None = None,
        identity: Callable[[Any], object] | None = None,
        finalizer: str = "",
        initial_delay: float = 0.0,
        rate_limiter: RateLimiter[Request] | None = None,
        stop_timeout: float = 10.0,
        needs_leader: bool = True,
        workers: int = 10,
    ) -> Callable[[F], F]:
        """Run the function in the background for each object of `kind`, until the object is deleted.

        A parameter of type `StopEvent` lets it end by itself; a plain function must have one. Options are
        those of `kubewright.controller.add_daemon`.
        """
        check_object_kind(kind)
        options = {
            "when": when,
            "identity": identity,
            "finalizer": finalizer,
            "initial_delay": initial_delay,
            "rate_limiter": rate_limiter,
            "stop_timeout": stop_timeout,
            "needs_leader": needs_leader,
            "workers": workers,
        }

        def register(function: F) -> F:
            handler = self._handler(kind, function, "daemon", options, {StopEvent: "stop"})
            if not handler.call.is_async and "stop" not in handler.call.parameters.values():
                raise InjectionError(
                    f"{describe(function)}: a plain function cannot be cancelled; add a parameter "
                    "stop: StopEvent and return when it is set, or make the function async"
                )
            handler.options["name"] = name or dashed_name(function, "daemon")
            self.daemons.append(handler)
            return function

        return register

    @suggest_keywords
    def index(self, kind: type[MetaObject], name: str) -> Callable[[F], F]:
        """Index objects of `kind` by the strings that the function returns.

        `client.list(kind, fields={name: value})` then finds objects in the cache by index.
        """
        check_kind(kind)

        def register(function: F) -> F:
            check_arguments(function, 1, "an index function takes one argument, the object")
            index: Callable[[MetaObject], Iterable[str]] = cast(Any, function)
            self.indexes.append((kind, by_function(name, kind, index)))
            return function

        return register

    def _handler(
        self,
        kind: ObjectKind,
        function: Callable[..., object],
        role: str,
        options: dict[str, Any],
        more: dict[type, str] | None = None,
    ) -> ObjectHandler:
        known = self._known({class_of(kind): "object", **OBJECT_VALUES, **(more or {})})
        return ObjectHandler(kind, function, InjectedFunction(function, known, role=role), dict(options))

    def change_function(
        self, kind: ObjectKind, function: Callable[..., object], role: str
    ) -> InjectedFunction:
        """Check a change handler; it can also have the parameters `old`, `new` and `diff`."""
        check_object_kind(kind)
        known = self._known({class_of(kind): "object", **OBJECT_VALUES})
        return InjectedFunction(function, known, role=role, names=("old", "new", "diff"))

    def add_dispatcher(self, kind: ObjectKind, dispatcher: ChangeDispatcher) -> None:
        """Add the reconciler that calls the change handlers of a kind."""
        name = f"{kind_name(kind).lower()}-changes"
        self.reconcilers.append(ObjectHandler(kind, dispatcher.function, dispatcher, {"name": name}))

    def _map_function(self, function: Callable[..., object]) -> InjectedFunction:
        known = self._known(PROCESS_VALUES)
        return InjectedFunction(function, known, role="map function", given=1, in_thread=False)

    def _watched_kind(self, pair: Any) -> WatchedKind:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and callable(pair[1])):
            raise TypeError(
                "watches: expected pairs of a kind and a function from its objects to requests, as in "
                f"watches=((Region, shops_in),), not {pair!r}"
            )
        kind, map_function = pair
        return WatchedKind(kind, self._map_function(map_function))

    def watches_of(self, handler: ObjectHandler) -> list[WatchedKind]:
        """Return the kinds that a reconciler watches, declared by its option or by the decorator.

        Raises a `TypeError` if it is ambiguous which kind a decorator is for.
        """
        kinds = list(dict.fromkeys(each.kind for each in self.reconcilers))
        found = list(handler.watches)
        for each in self.watchers:
            if each.reconciles is None and len(kinds) > 1:
                names = " and ".join(kind_name(kind) for kind in kinds)
                raise TypeError(
                    f"{describe(each.map_function.function)}: the operator reconciles {names}; choose one "
                    f"with @operator.watches(..., reconciles={kind_name(kinds[0])})"
                )
            if each.reconciles in (None, handler.kind):
                found.append(each)
        return found

    def watched_kinds(self) -> list[WatchedKind]:
        """Return the kinds that are watched in these clusters, for reconcilers here and elsewhere."""
        return [
            watched
            for functions in (self, *self.related)
            for handler in functions.reconcilers
            for watched in functions.watches_of(handler)
            if (watched.watched_in or functions) is self
        ]
