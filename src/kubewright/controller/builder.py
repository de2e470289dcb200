"""Builder of controllers: the kinds that are reconciled, owned and watched, and the options.

    controller = (
        ControllerBuilder(manager)
        .for_(Guestbook, predicates=[generation_changed])
        .owns(Deployment)
        .watches(Secret, guestbooks_using)
        .with_options(workers=4, timeout=60)
        .complete(reconcile)
    )

`for_` names the kind whose objects are reconciled. `owns` watches a kind of owned objects: a change enqueues
the owner. `watches` watches any kind, with a function from its objects to requests; `source` adds any other
source. With `watches` and `source` alone, requests may be of any hashable type.

The reconciler is a function, plain or async, of one argument. If its parameter is annotated with the kind of
`for_`, it receives the object and is not called when the object does not exist; otherwise it receives the
request.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.cache import Cache
from kubewright.cache.informers.resync import check_resync
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.stores.store import CacheEntry, ObjectChange
from kubewright.client.decoding import class_of, decode_object
from kubewright.client.kind_types import AnyKind, MetadataKind, UnstructuredKind, metadata_of
from kubewright.deprecation import warn_deprecated

from .controller import Controller
from .errors import BuildError
from .event_handlers import (
    EventHandler,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
    in_cluster,
)
from .manager_protocol import ManagerProtocol, cluster_name_of, register_controller_name
from .object_readers import object_reader, takes_object
from .queues.rate_limiters import RateLimiter
from .request import Request, Result
from .sources import ChannelSource, KindSource, Source

R = TypeVar("R", bound=Hashable)
ObjectT = TypeVar("ObjectT")
ItemT = TypeVar("ItemT")
ArgumentT_contra = TypeVar("ArgumentT_contra", contravariant=True)
PredicateFunction = Callable[[ObjectChange], bool]


class ReconcilerObject(Protocol[ArgumentT_contra]):
    """An object with a method `reconcile`, plain or async."""

    def reconcile(self, argument: ArgumentT_contra, /) -> Awaitable[Result | None] | Result | None:
        """Bring one object into its desired state."""


@dataclass(frozen=True, slots=True)
class _OwnedKind:
    """Arguments of one call of `owns`."""

    kind: AnyKind
    controller_only: bool
    predicates: Sequence[PredicateFunction]
    optional: bool
    priority: int | None


class ControllerBuilder(Generic[R]):
    """Collects the declaration of a controller; `complete` creates it and adds it to the manager."""

    def __init__(self, manager: ManagerProtocol, name: str = "") -> None:
        """Without a name the controller is named after its kind."""
        self._manager = manager
        self._cluster = cluster_name_of(manager)
        self._name = name
        self._for: AnyKind | None = None
        self._owns: list[_OwnedKind] = []
        self._sources: list[Callable[[], Source[R]]] = []
        self._options: dict[str, Any] = {}
        self._priority = 0
        self._resync: float | None = None

    def for_(
        self,
        kind: AnyKind,
        *,
        predicates: Iterable[PredicateFunction] = (),
        metadata_only: bool = False,
        optional: bool = False,
        priority: int | None = None,
    ) -> Self:
        """Reconcile the objects of this kind.

        With `metadata_only` only their metadata is cached. An `optional` kind may be installed later.
        """
        if self._for is not None:
            raise BuildError(
                f"for_({_text(kind)}): this controller already reconciles {_text(self._for)}; "
                "use watches(...) for other kinds"
            )
        self._for = _checked(kind, "for_", metadata_only)
        self._add_kind(self._for, enqueue_object, predicates, optional, priority)
        return self

    def owns(
        self,
        kind: AnyKind,
        *,
        any_owner: bool = False,
        metadata_only: bool | None = None,
        predicates: Iterable[PredicateFunction] = (),
        optional: bool = False,
        priority: int | None = None,
    ) -> Self:
        """Enqueue the owner when an object of this kind changes.

        Only the controlling owner is enqueued, or each owner with `any_owner`. Of Secrets and ConfigMaps only
        metadata is cached unless `metadata_only=False`.
        """
        if metadata_only is None:
            metadata_only = _default_metadata_only(kind)
        owned = _checked(kind, "owns", metadata_only)
        tests = _predicates(predicates, kind)
        self._owns.append(_OwnedKind(owned, not any_owner, tests, optional, priority))
        return self

    def watches(
        self,
        kind: AnyKind,
        map_function: Callable[[ObjectT], Iterable[R] | Awaitable[Iterable[R]]] | None = None,
        *,
        handler: EventHandler[R] | None = None,
        predicates: Iterable[PredicateFunction] = (),
        metadata_only: bool | None = None,
        optional: bool = False,
        priority: int | None = None,
    ) -> Self:
        """Enqueue the requests that `map_function`, plain or async, returns for a changed object.

        It is called with the old and with the new version. A `handler` receives the `ObjectChange` instead.
        Of Secrets and ConfigMaps only metadata is cached and passed (a `PartialObjectMetadata`), unless the
        cache is configured to store them completely or `metadata_only=False`.
        """
        if (map_function is None) == (handler is None):
            raise BuildError(f"watches({_text(kind)}): expected either a map function or handler=")
        watched = _watched(kind, self._manager.cache, metadata_only)
        if handler is None:
            assert map_function is not None
            handler = enqueue_mapped(_reader(watched), map_function)
        self._add_kind(watched, handler, predicates, optional, priority)
        return self

    def source(
        self,
        source: Source[R] | AsyncIterable[ItemT],
        map_function: Callable[[ItemT], Iterable[R]] | None = None,
        *,
        name: str = "",
        priority: int | None = None,
    ) -> Self:
        """Add a `Source`, or an async iterator of requests, or of items for `map_function`."""
        if isinstance(source, AsyncIterable):
            label = name or getattr(source, "__name__", "channel")

            def make() -> Source[R]:
                level = self._priority if priority is None else priority
                return ChannelSource(source, map_function, name=label, priority=level)

            self._sources.append(make)
        elif hasattr(source, "start") and hasattr(source, "stop"):
            if map_function is not None:
                raise BuildError("source(...): a Source adds requests itself; remove the map function")
            self._sources.append(lambda: source)
        else:
            raise BuildError(f"source({source!r}): expected an async iterator or a Source")
        return self

    def with_options(
        self,
        *,
        name: str | None = None,
        workers: int | None = None,
        rate_limiter: RateLimiter[R] | None = None,
        timeout: float | None = None,
        sync_timeout: float | None = None,
        needs_leader: bool | None = None,
        warm_up: bool | None = None,
        recover: bool | None = None,
        tracing: bool = False,
        priority: int | None = None,
        resync: float | None = None,
    ) -> Self:
        """Set options of the controller; `None` keeps the current value. Defaults are those of `Controller`.

        `priority` is the priority of changes for sources without their own. `tracing` is deprecated: use
        `Manager(..., tracing=True)`. `resync`: seconds within which the objects of all kinds are
        queued again, changed or not (0: never); by default the period of the cache.
        """
        if name is not None:
            self._name = name
        if priority is not None:
            self._priority = priority
        if resync is not None:
            self._resync = check_resync(resync)
        if tracing:
            from kubewright.tracing.opentelemetry import OpenTelemetrySink

            warn_deprecated("tracing=True of a controller", "Manager(..., tracing=True)")
            self._options["sinks"] = (OpenTelemetrySink(),)
        given = {
            "workers": workers,
            "rate_limiter": rate_limiter,
            "timeout": timeout,
            "sync_timeout": sync_timeout,
            "needs_leader": needs_leader,
            "warm_up": warm_up,
            "recover": recover,
        }
        self._options.update({option: value for option, value in given.items() if value is not None})
        return self

    def complete(
        self,
        reconciler: Callable[[ObjectT], Awaitable[Result | None] | Result | None] | ReconcilerObject[ObjectT],
    ) -> Controller[R]:
        """Check the declaration, create the controller and add it to the manager. Raises `BuildError`."""
        self._check(reconciler)
        name = self._name or self._default_name()
        reconcile: Any = getattr(reconciler, "reconcile", reconciler)
        read: Any = None
        if self._for is not None and takes_object(reconcile, class_of(self._for)):
            read = object_reader(self._manager.client, self._for)
        controller: Controller[R] = Controller(
            name,
            reconcile,
            read=read,
            log_fields=self._log_fields(),
            register_metrics=not self._cluster,
            **self._options,
        )
        controller.kind = kind_parts(self._manager, self._for)
        for make in self._sources:
            controller.watch(make())
        for owned in self._owns:
            controller.watch(self._owner_source(owned))
        register_controller_name(self._manager, name)
        self._manager.add(controller)
        return controller

    def _check(self, reconciler: Any) -> None:
        if self._for is None and self._owns:
            raise BuildError("owns(...) requires for_(...), the kind of the owners")
        if not self._sources:
            raise BuildError("nothing to reconcile: call for_(...), watches(...) or source(...)")
        if self._for is None and not self._name:
            raise BuildError('a controller without for_(...) requires a name: with_options(name="...")')
        target = getattr(reconciler, "reconcile", reconciler)
        if not callable(target):
            raise BuildError(f"complete({reconciler!r}): expected a function or an object with reconcile()")
        try:
            inspect.signature(target).bind(object())
        except TypeError:
            raise BuildError(
                f"complete({getattr(target, '__qualname__', target)}): a reconciler takes one argument, "
                "the request or the object"
            ) from None
        except ValueError:
            pass

    def _default_name(self) -> str:
        assert self._for is not None
        return _text(self._for).lower()

    def _add_kind(
        self,
        kind: AnyKind,
        handler: EventHandler[Any],
        predicates: Iterable[PredicateFunction],
        optional: bool,
        priority: int | None,
    ) -> None:
        tests = _predicates(predicates, kind)

        def make() -> Source[R]:
            level = self._priority if priority is None else priority
            return KindSource(
                self._manager.cache,
                kind,
                in_cluster(handler, self._cluster),
                tests,
                priority=level,
                optional=optional,
                resync=self._resync,
            )

        self._sources.append(make)

    def _owner_source(self, owned: _OwnedKind) -> Source[R]:
        owner, mapper = self._for, self._manager.client.mapper
        assert owner is not None
        base: Any = owner.kind if isinstance(owner, MetadataKind) else owner

        async def prepare() -> EventHandler[Any]:
            resource = mapper.find_cached(base) or await mapper.resource_for(base)
            handler = enqueue_owner(
                resource.gvk, controller_only=owned.controller_only, namespaced=resource.namespaced
            )
            return in_cluster(handler, self._cluster)

        level = self._priority if owned.priority is None else owned.priority
        return KindSource(
            self._manager.cache,
            owned.kind,
            prepare=prepare,
            predicates=owned.predicates,
            priority=level,
            optional=owned.optional,
            resync=self._resync,
        )

    def _log_fields(self) -> Callable[[Any], dict[str, object]]:
        kind = _text(self._for) if self._for is not None else ""

        def fields(request: Any) -> dict[str, object]:
            if not isinstance(request, Request):
                return {}
            found = {
                "kind": kind,
                "cluster": request.cluster,
                "namespace": request.namespace,
                "object": request.name,
            }
            return {key: value for key, value in found.items() if value}

        return fields


def mapped_source(
    cache: Cache,
    kind: AnyKind,
    map_function: Callable[[ObjectT], Iterable[Request] | Awaitable[Iterable[Request]]],
    *,
    cluster: str = "",
    predicates: Iterable[PredicateFunction] = (),
    metadata_only: bool | None = None,
    optional: bool = False,
    priority: int | None = None,
    resync: float | None = None,
) -> KindSource[Request]:
    """Return a source like that of `ControllerBuilder.watches`, for a kind in the cache of another cluster.

    `cluster`: the cluster of the requested objects.
    """
    watched = _watched(kind, cache, metadata_only)
    handler = enqueue_mapped(_reader(watched), map_function)
    return KindSource(
        cache,
        watched,
        in_cluster(handler, cluster),
        _predicates(predicates, kind),
        priority=priority or 0,
        optional=optional,
        resync=resync,
    )


def _watched(kind: AnyKind, cache: Cache, metadata_only: bool | None) -> AnyKind:
    if metadata_only is None:
        metadata_only = _default_metadata_only(kind) and not cache.caches_full_objects(kind)
    return _checked(kind, "watches", metadata_only)


def _checked(kind: Any, method: str, metadata_only: bool) -> AnyKind:
    base = kind.kind if isinstance(kind, MetadataKind) else kind
    if isinstance(base, type):
        if not issubclass(base, MetaObject) or base.gvk is None:
            raise BuildError(
                f"{method}({base.__name__}): the class is not a kind; decorate it with "
                "@resource(group=..., version=...), or pass a GroupVersionKind"
            )
    elif not isinstance(base, UnstructuredKind) or not base:
        raise BuildError(
            f"{method}({kind!r}): expected a class, a GroupVersionKind, a GroupVersionResource or a name"
        )
    return metadata_of(base) if metadata_only else kind


def _predicates(predicates: Iterable[PredicateFunction], kind: Any) -> Sequence[PredicateFunction]:
    if callable(predicates):
        raise BuildError(f"{_text(kind)}: expected a list of predicates: predicates=[...]")
    tests = tuple(predicates)
    for test in tests:
        if not callable(test):
            raise BuildError(
                f"{_text(kind)}: {test!r} is not a predicate; expected a function from a Change to bool"
            )
    return tests


def _gvk(kind: Any) -> GroupVersionKind | None:
    """Return group, version and kind, if no request is needed for it."""
    base = kind.kind if isinstance(kind, MetadataKind) else kind
    if isinstance(base, GroupVersionResource):
        built_in = builtin_resources.resource_at(base)
        return None if built_in is None else built_in.gvk
    return base if isinstance(base, GroupVersionKind) else getattr(base, "gvk", None)


def _default_metadata_only(kind: Any) -> bool:
    gvk = _gvk(kind)
    return gvk is not None and gvk.group_kind in RESTRICTED_KINDS


def _reader(kind: AnyKind) -> Callable[[CacheEntry], Any]:
    """Return the function that decodes objects of a kind for a map function."""
    cls, gvk = class_of(kind), _gvk(kind)

    def read_entry(entry: CacheEntry) -> Any:
        return decode_object(entry.raw, cls, gvk) if gvk is not None else entry.decode(cls)

    return read_entry


def _text(kind: Any) -> str:
    base = kind.kind if isinstance(kind, MetadataKind) else kind
    if isinstance(base, GroupVersionKind | GroupVersionResource):
        return base[2]
    return str(getattr(base, "__name__", base))


def kind_parts(manager: ManagerProtocol, kind: AnyKind | None) -> tuple[str, str, str]:
    """Return group, version and kind for spans; of a kind that is not known yet, only its name."""
    if kind is None:
        return "", "", ""
    base: Any = kind.kind if isinstance(kind, MetadataKind) else kind
    resource = manager.client.mapper.find_cached(base)
    if resource is not None:
        return resource.gvk.group, resource.gvk.version, resource.gvk.kind
    if isinstance(base, GroupVersionKind):
        return base.group, base.version, base.kind
    return "", "", _text(base)
