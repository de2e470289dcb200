"""`InformerManager`: create, start and stop the informers of a cache, one per kind.

An informer is created when a kind is first read or watched, with the options of its kind (namespaces,
selectors, metadata only). Typed, unstructured and metadata reads of a kind share it; a metadata informer is
upgraded when full objects are needed. It starts immediately if the cache is started, otherwise with it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.cache.errors import CacheError, CachingNotAllowed, NotSynced
from kubewright.cache.kind_options import RESTRICTED_KINDS, KindOptions
from kubewright.cache.reflectors.list_watch import ListWatch
from kubewright.cache.stores.indexes import Index
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.errors import ConnectionFailed, NoKindMatch
from kubewright.client.kind_types import ALL_NAMESPACES, AnyKind, MetadataKind, metadata_of
from kubewright.client.selectors import parse_fields, parse_labels
from kubewright.client.verbs.read import ReadVerbs

from .informer import Informer
from .resync import RESYNC_SECONDS, check_resync

KindT = TypeVar("KindT", bound=AnyKind)
SYNC_TIMEOUT = 120.0
OWN_WRITE_TIMEOUT = 2.0
ReadObserver = Callable[[str, APIResource, str, str], None]
"""Receives verb, resource, namespace and name of a read."""


@dataclass(frozen=True, slots=True)
class KindUsage:
    """The size and state of one cached kind."""

    gvk: GroupVersionKind
    objects: int
    bytes: int
    metadata_only: bool
    has_synced: bool
    revision: int
    spilled_bytes: int = 0
    """Size of the file that the objects are in; 0 if they are in memory."""


@dataclass(frozen=True, slots=True)
class KindView:
    """An informer with the class that its objects are decoded as."""

    informer: Informer
    resource: APIResource
    cls: type[Any]


class InformerManager:
    """Informers by kind; the base class of `Cache`."""

    def __init__(
        self,
        client: ReadVerbs,
        *,
        namespaces: Iterable[str] | None = None,
        kinds: Mapping[KindT, KindOptions] | None = None,
        allow: Iterable[AnyKind] = (),
        resync: float = RESYNC_SECONDS,
        fail_on_missing_informer: bool = False,
        sync_timeout: float = SYNC_TIMEOUT,
        own_write_timeout: float = OWN_WRITE_TIMEOUT,
        rng: random.Random | None = None,
    ) -> None:
        """Create the informers of a cache.

        `namespaces`: cache only these, unless the options of a kind have others.
        `kinds`: options of single kinds. `allow`: cache all objects of these, also Secrets and ConfigMaps.
        `resync`: seconds within which handlers are called again for every object; 0: never.
        `fail_on_missing_informer`: reads of a kind without an informer raise `NoInformer`.
        `sync_timeout`: how long a first read waits for the initial state. `own_write_timeout`: how long a
        read waits for the watch to deliver a write of this client.
        """
        self.client = client
        self.own_write_timeout = own_write_timeout
        self.on_read: ReadObserver | None = None
        """Called with verb, resource, namespace and name of each read, if it is set."""
        self._informer_callbacks: list[Callable[[Informer], None]] = []
        options = client.options
        if namespaces is None and options.only_namespace:
            namespaces = (options.namespace,)
        self._namespaces = None if namespaces is None else tuple(dict.fromkeys(namespaces))
        self._options: dict[GroupVersionKind | str, KindOptions] = {}
        for kind, kind_options in (kinds or {}).items():
            metadata_only = isinstance(kind, MetadataKind)
            self._options[gvk_or_name(kind)] = (
                replace(kind_options, metadata_only=True) if metadata_only else kind_options
            )
        self._allowed = {gvk_or_name(kind) for kind in allow}
        self._resync = check_resync(resync)
        self._fail_on_missing_informer = fail_on_missing_informer
        self._sync_timeout = sync_timeout
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._informers: dict[GroupVersionKind, Informer] = {}
        self._resources: dict[GroupVersionKind, APIResource] = {}
        self._by_resource: dict[GroupResource, list[Informer]] = {}
        """Informers by resource, for each write; computed from the two others."""
        self._views: dict[AnyKind, KindView] = {}
        self._started = False

    # Lifecycle

    async def start(self) -> None:
        """Start the informers, existing and future ones. Does not wait for their initial state."""
        self._started = True
        for informer in self._informers.values():
            informer.start()

    async def stop(self) -> None:
        """Stop all informers."""
        self._started = False
        self._views.clear()
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    # Informers

    async def informer(self, kind: AnyKind) -> Informer:
        """Return the informer of a kind; create it, and start it if the cache is started.

        Does not wait for the initial state. `metadata_of(kind)` requests an informer of metadata only. A
        class or `GroupVersionKind` whose CRD is not installed is watched as soon as it is.
        """
        gvk, namespaced = await self._resolve(kind)
        wants_metadata = isinstance(kind, MetadataKind)
        informer = self._informers.get(gvk)
        if informer is None:
            informer = self._informers[gvk] = self._create_informer(gvk, namespaced, wants_metadata)
            self._by_resource.clear()
            for callback in self._informer_callbacks:
                callback(informer)
            if self._started:
                informer.start()
        elif informer.metadata_only and not wants_metadata:
            options = self._options_of(gvk)
            sources = self._sources(gvk, namespaced, options, metadata_only=False)
            self._discard_views(gvk)
            await informer.upgrade(sources)
        return informer

    def follow_informers(self, callback: Callable[[Informer], None]) -> None:
        """Call a function with each informer, existing and future ones."""
        self._informer_callbacks.append(callback)
        for informer in self._informers.values():
            callback(informer)

    def report_read(self, verb: str, kind: GroupVersionKind, namespace: str, name: str) -> None:
        """Report a read from a store to `on_read`, for code that reads the store of an informer itself."""
        resource = self.client.mapper.find_cached(kind)
        if self.on_read is not None and resource is not None:
            self.on_read(verb, resource, namespace, name)

    def existing_informer(self, kind: AnyKind) -> Informer | None:
        """Return the informer of a kind, or `None`; does not create one."""
        resource = self.client.mapper.find_cached(kind)
        gvk = resource.gvk if resource is not None else gvk_or_name(kind)
        return self._informers.get(gvk) if isinstance(gvk, GroupVersionKind) else None

    async def remove_informer(self, kind: AnyKind) -> None:
        """Stop the informer of a kind and drop its objects; its handlers are not called again."""
        informer = self.existing_informer(kind)
        if informer is not None:
            del self._informers[informer.gvk]
            self._by_resource.clear()
            self._discard_views(informer.gvk)
            await informer.stop()

    def add_index(self, kind: type[MetaObject] | GroupVersionKind, *indexes: Index) -> None:
        """Add indexes to a kind, whether it has an informer already or gets one later."""
        gvk = gvk_or_name(kind)
        options = self._options_of(gvk)
        others = tuple(each for each in options.indexes if each.name not in {new.name for new in indexes})
        self._options[gvk] = replace(options, indexes=(*others, *indexes))
        informer = self._informers.get(gvk) if isinstance(gvk, GroupVersionKind) else None
        if informer is not None:
            for each in indexes:
                if informer.metadata_only and not each.metadata_only:
                    raise CacheError(
                        f"index {each.name!r} needs full objects, but only metadata of {gvk} is cached; "
                        "call `await cache.informer(kind)` first"
                    )
                informer.store.add_index(each.name, each.indexer)

    def informers_for(self, resource: GroupResource) -> Iterable[Informer]:
        """Return the informers of a resource in all its versions."""
        found = self._by_resource.get(resource)
        if found is None:
            found = self._by_resource[resource] = [
                informer
                for gvk, informer in self._informers.items()
                if (known := self._resources.get(gvk)) is not None and known.gvr.group_resource == resource
            ]
        return found

    def retry_now(self) -> None:
        """Retry kinds that could not be watched, because a CRD was installed or a permission granted."""
        for informer in self._informers.values():
            informer.retry_now()

    async def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait for the initial state of all informers; `NotSynced` has each missing kind and its reason."""
        seconds = self._sync_timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                while not all(informer.has_synced for informer in self._informers.values()):
                    for informer in list(self._informers.values()):
                        await informer.wait_for_sync()
        except TimeoutError:
            raise self._not_synced(self._informers.values(), seconds) from None

    async def wait_for_revision(self, kind: AnyKind, revision: int, *, namespace: str = "") -> None:
        """Wait until the cache contains all changes of a kind up to a revision, a numeric resourceVersion."""
        await (await self.informer(kind)).wait_for_revision(revision, namespace=namespace)

    def _not_synced(self, informers: Iterable[Informer], seconds: float) -> NotSynced:
        reasons = [
            f"{each.gvk}: {each.last_error or 'the initial state has not been received'}"
            for each in informers
            if not each.has_synced
        ]
        return NotSynced(f"the cache has not synced within {seconds:g} s: {'; '.join(reasons)}")

    def usage(self) -> list[KindUsage]:
        """Return the size and state of each cached kind."""
        return [
            KindUsage(
                gvk,
                len(informer.store),
                informer.store.bytes,
                informer.metadata_only,
                informer.has_synced,
                informer.revision(),
                informer.store.spilled_bytes,
            )
            for gvk, informer in self._informers.items()
        ]

    async def _resolve(self, kind: AnyKind) -> tuple[GroupVersionKind, bool]:
        """Return the kind, and whether it is namespaced; a kind that is not served is assumed to be."""
        base: AnyKind = kind.kind if isinstance(kind, MetadataKind) else kind
        resource = self.client.mapper.find_cached(base)
        if resource is None:
            try:
                resource = await self.client.mapper.resource_for(base)
            except (NoKindMatch, ConnectionFailed, APIError, TimeoutError):
                gvk = gvk_or_name(base)
                if isinstance(gvk, str):
                    raise
                return gvk, True
        self._remember_resource(resource)
        return resource.gvk, resource.namespaced

    def _remember_resource(self, resource: APIResource) -> None:
        if self._resources.get(resource.gvk) != resource:
            self._resources[resource.gvk] = resource
            self._by_resource.clear()

    def _options_of(self, gvk: GroupVersionKind | str) -> KindOptions:
        found = self._options.get(gvk)
        if found is None and isinstance(gvk, GroupVersionKind):
            resource = self._resources.get(gvk)
            names = (name for name in self._options if isinstance(name, str))
            found = next(
                (self._options[name] for name in names if resource is not None and resource.matches(name)),
                None,
            )
        return found or KindOptions()

    def _create_informer(self, gvk: GroupVersionKind, namespaced: bool, wants_metadata: bool) -> Informer:
        options = self._options_of(gvk)
        metadata_only = wants_metadata or options.metadata_only
        informer = Informer(
            gvk,
            self._sources(gvk, namespaced, options, metadata_only),
            metadata_only=metadata_only,
            labels=parse_labels(options.labels),
            filtered_by_fields=parse_fields(options.fields) is not None,
            transform=options.stored_form,
            form=options.form,
            store=options.create_store(),
            resync=self._resync if options.resync is None else options.resync,
            rng=self._rng,
            optional=options.optional,
        )
        for index in options.indexes:
            if index.metadata_only or not metadata_only:
                informer.store.add_index(index.name, index.indexer)
        return informer

    def _sources(
        self, gvk: GroupVersionKind, namespaced: bool, options: KindOptions, metadata_only: bool
    ) -> dict[str, ListWatch]:
        namespaces = self._namespaces_of(options) if namespaced else ("",)
        if not metadata_only and not self.caches_full_objects(gvk):
            raise CachingNotAllowed(
                f"all {gvk.kind}s of the cluster are only cached if requested: "
                f"limit them with kinds={{{gvk.kind}: KindOptions(labels=...)}} or "
                f"KindOptions(namespaces=(...,)), keep some fields with KindOptions(projection=...), "
                f"watch metadata_of({gvk.kind}), read them with "
                f"`client.uncached`, or set allow=({gvk.kind},); in an operator, kinds and allow are "
                "operator.settings.kinds and operator.settings.allow"
            )
        kind: AnyKind = metadata_of(gvk) if metadata_only else gvk
        return {
            namespace: ListWatch(
                self.client, kind, namespace=namespace, labels=options.labels, fields=options.fields
            )
            for namespace in namespaces
        }

    def _namespaces_of(self, options: KindOptions) -> Sequence[str]:
        """Return the namespaces that are watched one by one; `("",)` means one watch of all of them."""
        found = (self._namespaces if options.namespaces is None else options.namespaces) or ("",)
        return ("",) if "" in found or ALL_NAMESPACES in found else found

    def caches_full_objects(self, kind: AnyKind) -> bool:
        """Whether full objects of a kind can be cached; False for unlimited Secrets and ConfigMaps."""
        gvk = gvk_or_name(kind)
        if isinstance(gvk, str) or gvk.group_kind not in RESTRICTED_KINDS:
            return True
        options = self._options_of(gvk)
        limited = bool(
            options.labels
            or options.fields
            or options.projection is not None
            or "" not in self._namespaces_of(options)
        )
        return limited or any(gvk == each or gvk.kind == each for each in self._allowed)

    def _discard_views(self, gvk: GroupVersionKind) -> None:
        for kind in [kind for kind, view in self._views.items() if view.informer.gvk == gvk]:
            del self._views[kind]


def gvk_or_name(kind: AnyKind) -> GroupVersionKind | str:
    """Return the group, version and kind, or the name if that is all that is known."""
    if isinstance(kind, MetadataKind):
        return gvk_or_name(kind.kind)
    if isinstance(kind, GroupVersionResource):
        built_in = builtin_resources.resource_at(kind)
        return built_in.gvk if built_in is not None else ".".join(filter(None, (kind[2], kind[1], kind[0])))
    if isinstance(kind, GroupVersionKind | str):
        return kind
    if isinstance(kind, GroupResource):
        return str(kind)
    if kind.gvk is None:
        raise TypeError(f"{kind.__name__} does not declare a kind; add @resource(group=..., version=...)")
    return kind.gvk
