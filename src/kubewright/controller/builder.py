"""The builder: which kinds a controller is for, owns and watches, and how it runs.

    controller = (
        ControllerBuilder(manager)
        .for_(Guestbook, predicates=[generation_changed])
        .owns(Deployment)
        .watches(Secret, lambda secret: users_of(secret), metadata_only=True)
        .with_options(workers=4, timeout=60)
        .complete(reconcile)
    )

`for_` is the kind whose objects are reconciled. `owns` are kinds that its objects own: a change of one is a
request for its owner. `watches` is any kind, with a function from its objects to requests; `source` anything
else. With `watches` and `source` alone, requests may be keys of any kind that can be hashed.

The reconciler is a function, plain or async, of the request, or of the object: if its first parameter is
annotated with the kind of `for_` it is given the object, and is not called when there is none.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.store import CacheEntry, ObjectChange
from kubewright.client.decoding import class_of, decode_object
from kubewright.client.kind_types import AnyKind, MetadataKind, metadata_of

from .controller import Controller, Reconciler
from .event_handlers import EventHandler, MapFunction, enqueue_mapped, enqueue_object, enqueue_owner
from .object_readers import object_reader, wants_object
from .rate_limiters import RateLimiter
from .request import Request
from .sources import ChannelSource, KindSource, Source

R = TypeVar("R", bound=Hashable)
PredicateLike = Callable[[ObjectChange], bool]


class ManagerProtocol(Protocol):
    """What a builder needs of a manager."""

    @property
    def client(self) -> Any:
        """Reads from the cache, writes to the server."""

    @property
    def cache(self) -> Any:
        """The kinds that are followed."""

    def add(self, runnable: Any) -> Any:
        """Have something run."""


class BuildError(ValueError):
    """A controller that cannot be built as described; the message says what to change."""


_names: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def register_controller_name(manager: ManagerProtocol, name: str) -> None:
    """Take a name for a controller of a manager; each is there once."""
    taken = _names.setdefault(manager, set())
    if name in taken:
        raise BuildError(
            f"there is a controller named {name!r} already, and its metrics and logs could not be told from "
            'those of this one: give it another, with_options(name="...")'
        )
    taken.add(name)


class ControllerBuilder(Generic[R]):
    """Describes a controller and makes it with `complete`."""

    def __init__(self, manager: ManagerProtocol, name: str = "") -> None:
        """Without a name the controller is called as its kind."""
        self._manager = manager
        self._name = name
        self._for: AnyKind | None = None
        self._owns: list[tuple[AnyKind, bool, dict[str, Any]]] = []
        self._sources: list[Callable[[], Source[R]]] = []
        self._options: dict[str, Any] = {}
        self._priority = 0

    def for_(
        self,
        kind: AnyKind,
        *,
        predicates: Iterable[PredicateLike] = (),
        metadata_only: bool = False,
        optional: bool = False,
        priority: int | None = None,
    ) -> Self:
        """Reconcile the objects of this kind.

        `metadata_only` keeps no more than metadata of them. An `optional` kind may be installed later.
        """
        if self._for is not None:
            raise BuildError(
                f"for_({_text(kind)}): this controller is for {_text(self._for)} already; "
                "use watches(...) for further kinds"
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
        predicates: Iterable[PredicateLike] = (),
        optional: bool = False,
        priority: int | None = None,
    ) -> Self:
        """Ask for the owner when an object of this kind changes: its controller, or each with `any_owner`.

        Of Secrets and ConfigMaps only metadata is kept unless `metadata_only=False`.
        """
        wanted = _checked(
            kind, "owns", _default_metadata_only(kind) if metadata_only is None else metadata_only
        )
        settings = {"predicates": _predicates(predicates, kind), "optional": optional, "priority": priority}
        self._owns.append((wanted, not any_owner, settings))
        return self

    def watches(
        self,
        kind: AnyKind,
        mapping: MapFunction[R] | None = None,
        *,
        handler: EventHandler[R] | None = None,
        predicates: Iterable[PredicateLike] = (),
        metadata_only: bool | None = None,
        optional: bool = False,
        priority: int | None = None,
    ) -> Self:
        """Ask for what `mapping`, plain or async, makes of an object of this kind when it changes.

        It is called with the old and the new version. A `handler` gets the `Change` itself instead. Of
        Secrets and ConfigMaps it sees metadata alone (a `PartialObjectMetadata`), unless the cache keeps
        them whole or `metadata_only=False`.
        """
        if (mapping is None) == (handler is None):
            raise BuildError(f"watches({_text(kind)}): give either a mapping or a handler")
        if metadata_only is None:
            metadata_only = _default_metadata_only(kind) and not self._manager.cache.caches_full_objects(kind)
        wanted = _checked(kind, "watches", metadata_only)
        chosen = handler if handler is not None else enqueue_mapped(_reader(wanted), cast(Any, mapping))
        self._add_kind(wanted, chosen, predicates, optional, priority)
        return self

    def source(
        self,
        source: Source[R] | AsyncIterable[Any],
        mapping: Callable[[Any], Iterable[R]] | None = None,
        *,
        name: str = "",
        priority: int | None = None,
    ) -> Self:
        """Take requests from an async iterator, mapped if a function is given, or from a `Source`."""
        if hasattr(source, "__aiter__"):
            label = name or getattr(source, "__name__", "channel")

            def make() -> Source[R]:
                level = self._priority if priority is None else priority
                return ChannelSource(cast(Any, source), mapping, name=label, priority=level)

            self._sources.append(make)
        elif hasattr(source, "start") and hasattr(source, "stop"):
            if mapping is not None:
                raise BuildError("source(...): a Source makes requests itself; the mapping has no use")
            self._sources.append(lambda: cast(Any, source))
        else:
            raise BuildError(f"source({source!r}): give an async iterator or a Source")
        return self

    def with_options(
        self,
        *,
        name: str | None = None,
        workers: int | None = None,
        limiter: RateLimiter[R] | None = None,
        timeout: float | None = None,
        sync_timeout: float | None = None,
        needs_leader: bool | None = None,
        warm_up: bool | None = None,
        recover: bool | None = None,
        tracing: bool = False,
        priority: int | None = None,
    ) -> Self:
        """How it runs; what is not given stays as it is. Defaults are those of `Controller`.

        `priority` is that of changes, for sources that do not say their own. `tracing` makes an OpenTelemetry
        span of every reconcile.
        """
        if name is not None:
            self._name = name
        if priority is not None:
            self._priority = priority
        if tracing:
            self._options["tracer"] = _tracer()
        given = {
            "workers": workers,
            "limiter": limiter,
            "timeout": timeout,
            "sync_timeout": sync_timeout,
            "needs_leader": needs_leader,
            "warm_up": warm_up,
            "recover": recover,
        }
        self._options.update({option: value for option, value in given.items() if value is not None})
        return self

    def complete(self, reconciler: Any) -> Controller[R]:
        """Check everything, make the controller and give it to the manager."""
        self._check(reconciler)
        name = self._name or self._default_name()
        reconcile = getattr(reconciler, "reconcile", reconciler)
        read = None
        if self._for is not None and wants_object(reconcile, class_of(self._for)):
            read = cast(Any, object_reader(self._manager.client, self._for))
        controller: Controller[R] = Controller(
            name, cast(Reconciler[R], reconcile), read=read, log_fields=self._log_fields(), **self._options
        )
        for make in self._sources:
            controller.watch(make())
        for kind, controller_only, settings in self._owns:
            controller.watch(self._owner_source(kind, controller_only, settings))
        register_controller_name(self._manager, name)
        self._manager.add(controller)
        return controller

    def _check(self, reconciler: Any) -> None:
        if self._for is None and self._owns:
            raise BuildError("owns(...) needs for_(...): the kind of the owners")
        if not self._sources:
            raise BuildError("nothing to reconcile: call for_(...), watches(...) or source(...)")
        if self._for is None and not self._name:
            raise BuildError('a controller without for_(...) needs a name: with_options(name="...")')
        target = getattr(reconciler, "reconcile", reconciler)
        if not callable(target):
            raise BuildError(f"complete({reconciler!r}): give a function, or an object with reconcile()")
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
        handler: Any,
        predicates: Iterable[PredicateLike],
        optional: bool,
        priority: int | None,
    ) -> None:
        tests = _predicates(predicates, kind)

        def make() -> Source[R]:
            level = self._priority if priority is None else priority
            return KindSource(self._manager.cache, kind, handler, tests, priority=level, optional=optional)

        self._sources.append(make)

    def _owner_source(self, kind: AnyKind, controller_only: bool, settings: dict[str, Any]) -> Source[R]:
        owner, mapper = self._for, self._manager.client.mapper
        assert owner is not None
        base: Any = owner.kind if isinstance(owner, MetadataKind) else owner

        async def prepare() -> EventHandler[Any]:
            resource = mapper.find_cached(base) or await mapper.resource_for(base)
            return enqueue_owner(
                resource.gvk, controller_only=controller_only, namespaced=resource.namespaced
            )

        level = self._priority if settings["priority"] is None else settings["priority"]
        return KindSource(
            self._manager.cache,
            kind,
            prepare=prepare,
            predicates=settings["predicates"],
            priority=level,
            optional=settings["optional"],
        )

    def _log_fields(self) -> Callable[[Any], dict[str, Any]]:
        kind = _text(self._for) if self._for is not None else ""

        def fields(request: Any) -> dict[str, Any]:
            if not isinstance(request, Request):
                return {}
            found = {"kind": kind, "namespace": request.namespace, "object": request.name}
            return {key: value for key, value in found.items() if value}

        return fields


def _checked(kind: Any, method: str, metadata_only: bool) -> AnyKind:
    base = kind.kind if isinstance(kind, MetadataKind) else kind
    if isinstance(base, type):
        if not issubclass(base, MetaObject) or base.gvk is None:
            raise BuildError(
                f"{method}({base.__name__}): not a kind; put @resource(group=..., version=...) on the class, "
                "or name the kind by GroupVersionKind"
            )
    elif not isinstance(base, GroupVersionKind | str) or not base:
        raise BuildError(f"{method}({kind!r}): give a class, a GroupVersionKind or a resource name")
    return metadata_of(base) if metadata_only else cast(AnyKind, kind)


def _predicates(predicates: Iterable[PredicateLike], kind: Any) -> Sequence[PredicateLike]:
    if callable(predicates):
        raise BuildError(f"{_text(kind)}: predicates is a list of predicates: predicates=[...]")
    tests = tuple(predicates)
    for test in tests:
        if not callable(test):
            raise BuildError(f"{_text(kind)}: {test!r} is no predicate: give a function of a Change")
    return tests


def _default_metadata_only(kind: Any) -> bool:
    base = kind.kind if isinstance(kind, MetadataKind) else kind
    gvk = base if isinstance(base, GroupVersionKind) else getattr(base, "gvk", None)
    return gvk is not None and gvk.group_kind in RESTRICTED_KINDS


def _reader(kind: AnyKind) -> Callable[[CacheEntry], Any]:
    """How objects of a kind are read for a mapping."""
    cls = class_of(kind)
    base: Any = kind.kind if isinstance(kind, MetadataKind) else kind
    gvk = base if isinstance(base, GroupVersionKind) else getattr(base, "gvk", None)

    def read_entry(entry: CacheEntry) -> Any:
        return decode_object(entry.raw, cls, gvk) if gvk is not None else entry.decode(cls)

    return read_entry


def _text(kind: Any) -> str:
    base = kind.kind if isinstance(kind, MetadataKind) else kind
    if isinstance(base, GroupVersionKind):
        return base.kind
    return str(getattr(base, "__name__", base))


def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        raise BuildError("tracing needs OpenTelemetry: pip install kubewright[tracing]") from None
    return trace.get_tracer("kubewright.controller")
