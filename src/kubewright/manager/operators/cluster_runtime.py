"""The functions of an operator, or of a fleet, in one cluster: the controllers that call them.

`add_functions` adds a controller for each reconciler, timer and daemon to the manager of the cluster.
Functions for an object receive a `Context`; its `memory` belongs to that object and is dropped when the
object is deleted.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.cache import Cache
from kubewright.controller.builder import ControllerBuilder, mapped_source
from kubewright.controller.children.desired_state import DesiredState
from kubewright.controller.children.object_sets import ObjectSets
from kubewright.controller.controller import Controller, current_reconcile
from kubewright.controller.daemons import StopEvent, add_daemon
from kubewright.controller.finalizers import Finalizers
from kubewright.controller.hot_loops import HotLoop
from kubewright.controller.object_readers import object_reader
from kubewright.controller.request import Request, Result, TerminalError
from kubewright.controller.sources import KindSource
from kubewright.controller.timers import add_timer
from kubewright.manager.contexts.context import Context, ObjectLogger
from kubewright.manager.contexts.object_memories import ObjectMemories
from kubewright.manager.contexts.sync_context import SyncCachedClient, SyncContext, sync_client
from kubewright.manager.events import EventRecorder
from kubewright.manager.fleets.clusters import Clusters
from kubewright.manager.manager import Manager

from .failure_events import FailureEvents
from .field_managers import field_manager
from .injection import InjectedFunction, OperatorFunction, describe
from .registration import kind_name

if TYPE_CHECKING:
    from .declared_functions import ObjectHandler, ObjectKind, WatchedKind
    from .object_functions import ObjectFunctions

FINALIZER_RETRY_SECONDS = 1.0
"""Interval in which a second reconciler of a kind checks whether the first has stored the finalizer."""


@dataclass(frozen=True, slots=True)
class FleetWatch:
    """A kind in the clusters of a fleet, watched for a controller of the cluster of the operator."""

    fleet: ObjectFunctions
    controller: Controller[Request]
    source_in: Callable[[Cache], KindSource[Request]]
    """Returns the source for the cache of a cluster."""


class ClusterRuntime:
    """The functions of an operator or a fleet in one cluster, and the values that they receive."""

    def __init__(
        self,
        functions: ObjectFunctions,
        manager: Manager,
        recorder: EventRecorder,
        *,
        failure_events: bool = True,
        clusters: Clusters | None = None,
        slows_hot_loops: bool = False,
    ) -> None:
        self.functions = functions
        self.manager = manager
        self.recorder = recorder
        self.slows_hot_loops = slows_hot_loops
        """Whether reconciles that trigger themselves are delayed."""
        self.clusters = clusters if clusters is not None else Clusters(manager.cluster)
        self.fleet_watches: list[FleetWatch] = []
        """Kinds in the clusters of a fleet whose changes enqueue requests for controllers of this cluster."""
        self.clusters_users: list[tuple[ObjectKind, Controller[Request]]] = []
        """Controllers whose reconcilers have a parameter of type `Clusters`."""
        self._cluster = manager.cluster_name
        self._memories = ObjectMemories()
        self._desired: dict[int, DesiredState] = {}
        self._object_sets: dict[ObjectKind, ObjectSets] = {}
        self._sync_client: SyncCachedClient | None = None
        self._failure_events = FailureEvents(recorder) if failure_events else None
        every = (
            *functions.reconcilers,
            *functions.finalizers.values(),
            *functions.timers,
            *functions.daemons,
        )
        self._loggers = {
            each.kind: logging.getLogger(f"{functions.name}.{kind_name(each.kind).lower()}") for each in every
        }

    def values(self, *, live: bool = False, plain: bool = False) -> dict[str, Any]:
        """Return the values for functions of the process. `plain`: with those for plain functions."""
        client = self.manager.client.uncached if live else self.manager.client
        values = {
            "client": client,
            "cache": self.manager.cache,
            "recorder": self.recorder,
            "manager": self.manager,
            "clusters": self.clusters,
        }
        if plain:
            values["sync_client"] = sync_client(client, self._running_loop())
        if self.functions.services.names:
            values.update(self.functions.services.values())
        return values

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the manager, also in a thread of a daemon."""
        return self.manager.loop or asyncio.get_running_loop()

    def values_for(self, call: OperatorFunction, kind: ObjectKind, obj: Any) -> dict[str, Any]:
        """Return the values for a function of an object."""
        request = Request(obj.metadata.namespace or "", obj.metadata.name, self._cluster)
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
            desired=self._desired_state(call, kind),
            find_memory=functools.partial(self._memories.get, kind, request, obj.metadata.uid),
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
            "clusters": self.clusters,
        }
        if not call.is_async:
            if self._sync_client is None:
                self._sync_client = sync_client(client, self._running_loop())
            values["sync_client"] = self._sync_client
            values["sync_context"] = SyncContext.of(context, self._sync_client)
        if self.functions.services.names:
            values.update(self.functions.services.values())
        return values

    async def _call(self, call: OperatorFunction, kind: ObjectKind, obj: Any) -> Any:
        """Call a function for an object; an error is recorded as an event."""
        values = self.values_for(call, kind, obj)
        if self._failure_events is None:
            return await call(values)
        return await self._failure_events.watch(obj, functools.partial(call, values))

    async def record_hot_loop(self, kind: ObjectKind, request: Request, loop: HotLoop) -> None:
        """Record an event about an object whose reconcile triggers itself."""
        obj = await self.reader(kind)(request)
        if obj is not None and self._failure_events is not None:
            message = f"reconciled {loop.reconciles} times in {loop.seconds:g} s: {loop.causes}; {loop.hint}"
            self.recorder.event(obj, "Warning", "ReconcileTriggersItself", message)

    def _desired_state(self, call: OperatorFunction, kind: ObjectKind) -> DesiredState:
        found = self._desired.get(id(call))
        if found is None:
            handler = self._writer(call, kind)
            found = self._desired.get(id(handler.call))
            if found is None and self._applies_sets(handler):
                found = self.object_sets(kind)
            if found is None:
                reconcilers = (each for each in self.functions.reconcilers if each.kind == kind)
                found = DesiredState(
                    self.manager.client,
                    self.manager.cache,
                    kinds=tuple(dict.fromkeys(owned for each in reconcilers for owned in each.owns)),
                    field_manager=field_manager(self.functions, handler),
                )
            self._desired[id(call)] = self._desired[id(handler.call)] = found
        return found

    def _writer(self, call: OperatorFunction, kind: ObjectKind) -> ObjectHandler:
        """Return the function whose objects a function applies: a finalizer has those of its reconciler."""
        functions = self.functions
        every = (*functions.reconcilers, *functions.timers, *functions.daemons)
        found = [each for each in every if each.call is call]
        first = [each for each in functions.reconcilers if each.kind == kind]
        return (*found, *first, *(each for each in (functions.finalizers.get(kind),) if each))[0]

    def _applies_sets(self, handler: ObjectHandler) -> bool:
        """Whether a reconciler applies the objects of templates or of a composition."""
        rendered = self.functions.rendered.get(handler.kind)
        composed = self.functions.composed.get(handler.kind)
        return (rendered is not None and handler.function == rendered.reconcile) or (
            composed is not None and handler.call is composed
        )

    def object_sets(self, kind: ObjectKind) -> ObjectSets:
        """Return the object sets of a kind with templates or a composition."""
        found = self._object_sets.get(kind)
        if found is None:
            client, cache = self.manager.client, self.manager.cache
            handler = next(
                each for each in self.functions.reconcilers if each.kind == kind and self._applies_sets(each)
            )
            manager = field_manager(self.functions, handler)
            composed = self.functions.composed.get(kind)
            found = (
                composed.sets(client, cache, manager)
                if composed is not None
                else ObjectSets(client, cache, field_manager=manager)
            )
            found.cluster = self._cluster
            self._object_sets[kind] = found
        return found

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
        finalizing = self.functions.finalizers.get(kind)
        required = finalizing.options["finalizer"] if finalizing is not None and not first else ""

        async def reconcile(request: Request) -> Result | None:
            obj = await read(request)
            if obj is None:
                self._memories.discard(kind, request)
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
        handler = self.functions.finalizers.get(kind)
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


def add_functions(runtime: ClusterRuntime) -> None:
    """Add the controllers of all functions to the manager."""
    functions, manager = runtime.functions, runtime.manager
    for indexed, index in functions.indexes:
        manager.cache.add_index(indexed, index)
    finalized: set[ObjectKind] = set()
    for handler in functions.reconcilers:
        _add_controller(runtime, handler, first=handler.kind not in finalized)
        finalized.add(handler.kind)
    for kind in functions.finalizers:
        if kind not in finalized:
            _add_finalizer_controller(runtime, kind)
    for handler in functions.timers:
        add_timer(manager, handler.kind, runtime.object_function(handler), **handler.options)
    for handler in functions.daemons:
        add_daemon(manager, handler.kind, runtime.daemon_function(handler), **handler.options)


def _add_controller(runtime: ClusterRuntime, handler: ObjectHandler, *, first: bool) -> None:
    options = {name: value for name, value in handler.options.items() if value is not None}
    builder: ControllerBuilder[Request] = ControllerBuilder(runtime.manager, options.pop("name", ""))
    builder.for_(handler.kind, predicates=handler.predicates)
    for owned in handler.owns:
        builder.owns(owned)
    remote: list[WatchedKind] = []
    for watched in runtime.functions.watches_of(handler):
        if _is_elsewhere(runtime, watched):
            remote.append(watched)
            continue
        builder.watches(
            watched.kind,
            _bound_late(watched.map_function, runtime),
            predicates=watched.predicates,
            metadata_only=watched.metadata_only,
            optional=watched.optional,
            priority=watched.priority,
        )
    rendered = runtime.functions.rendered.get(handler.kind)
    composed = runtime.functions.composed.get(handler.kind)
    if runtime._applies_sets(handler):
        builder.source(runtime.object_sets(handler.kind).source)
    elif (rendered is not None or composed is not None) and handler.owns:
        origin = "templates" if rendered is not None else "a composition"
        raise TypeError(
            f"{describe(handler.function)}: objects of {kind_name(handler.kind)} come from {origin}; "
            f"add the owned objects to the {origin.removeprefix('a ')}, and remove owns="
        )
    builder.with_options(**options)
    controller = builder.complete(runtime.reconciler(handler, first=first))
    controller.slows_hot_loops = runtime.slows_hot_loops
    controller.on_hot_loop = functools.partial(runtime.record_hot_loop, handler.kind)
    if "clusters" in handler.call.parameters.values():
        runtime.clusters_users.append((handler.kind, controller))
    for watched in remote:
        priority = options.get("priority") if watched.priority is None else watched.priority
        _watch_remotely(runtime, controller, watched, priority, options.get("resync"))


def _is_elsewhere(runtime: ClusterRuntime, watched: WatchedKind) -> bool:
    """Whether a kind is watched in other clusters than that of the runtime."""
    target = watched.watched_in
    if target is None or target is runtime.functions:
        return False
    # The functions of a fleet can also run in the cluster of its operator.
    return runtime.manager.parent is not None or target not in runtime.functions.operators


def _watch_remotely(
    runtime: ClusterRuntime,
    controller: Controller[Request],
    watched: WatchedKind,
    priority: int | None,
    resync: float | None,
) -> None:
    """Watch a kind in the cluster of the operator, or later in each cluster of a fleet."""
    function = _bound_late(watched.map_function, runtime)

    def source_in(cache: Cache) -> KindSource[Request]:
        return mapped_source(
            cache,
            watched.kind,
            function,
            cluster=runtime.manager.cluster_name,
            predicates=watched.predicates,
            metadata_only=watched.metadata_only,
            optional=True,
            priority=priority,
            resync=resync,
        )

    parent = runtime.manager.parent
    if parent is not None:
        controller.watch(source_in(parent.cache))
    else:
        assert watched.watched_in is not None
        runtime.fleet_watches.append(FleetWatch(watched.watched_in, controller, source_in))


def _bound_late(function: InjectedFunction, runtime: ClusterRuntime) -> Callable[..., Any]:
    """Return a map function whose arguments are looked up at each call, after services were created."""
    if not runtime.functions.services.names:
        return function.bind(runtime.values())

    async def call_async(obj: Any) -> Any:
        return await function.bind(runtime.values())(obj)

    def call_plain(obj: Any) -> Any:
        return function.bind(runtime.values())(obj)

    return call_async if function.is_async else call_plain


def _add_finalizer_controller(runtime: ClusterRuntime, kind: ObjectKind) -> None:
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
