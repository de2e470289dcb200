"""`Cache`: the kinds that a program follows, and reads of them without the server.

    async with Cache(client, kinds={Pod: KindOptions(labels="app=web")}) as cache:
        web = await cache.get(Deployment, "web", "shop")
        pods = await cache.list(Pod, "shop", labels={"tier": "front"})

A kind is followed from the first time somebody reads it or asks for its `informer`, in one copy: reads as a
class, as `Unstructured` and as metadata all decode the same bytes, and each gets an object of its own. Who
only needs metadata (`metadata_of(Pod)`) has only metadata fetched, unless somebody else needs the whole.

A cache never guesses. What it does not keep, because of a namespace or a selector, it does not call
missing: it raises `NotCached`. It does not keep all Secrets and ConfigMaps of a cluster unless told to
(`allow=`).

Permissions: list and watch for every kind, in the namespaces that are kept.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar, cast, overload

from kubewright.api.errors import APIError, NotFound, not_found
from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.api.meta import MetaObject, PartialObjectMetadata
from kubewright.api.unstructured import Unstructured
from kubewright.client.errors import ConnectionFailed, NoKindMatch
from kubewright.client.kind_types import (
    ALL_NAMESPACES,
    AnyKind,
    APIResource,
    MetadataKind,
    UnstructuredKind,
    metadata_of,
)
from kubewright.client.listwatch.pager import ListPager
from kubewright.client.listwatch.raw import RawPage
from kubewright.client.verbs.base import Fields, Labels, class_of, decode_object
from kubewright.client.verbs.read import ReadVerbs

from .errors import CacheError, CachingNotAllowed, NoInformer, NotCached, NotSynced
from .indexes import Index
from .informer import Informer
from .kind_options import RESTRICTED_KINDS, KindOptions, parse_fields, parse_labels
from .list_watch import ListWatch
from .queries import describe_scope, select_entries
from .store import ObjectKey

TypedT = TypeVar("TypedT", bound=MetaObject)

RESYNC_SECONDS = 10 * 3600.0
SYNC_TIMEOUT = 120.0
OWN_WRITE_WAIT = 2.0


@dataclass(frozen=True, slots=True)
class KindUsage:
    """What one kind costs and how far it is known."""

    gvk: GroupVersionKind
    objects: int
    bytes: int
    metadata_only: bool
    synced: bool
    revision: int


@dataclass(frozen=True, slots=True)
class _View:
    """How readers of one kind see an informer."""

    informer: Informer
    resource: APIResource
    cls: type[Any]


class Cache:
    """The kinds that are followed. Start and stop it, or use it in `async with`."""

    def __init__(
        self,
        client: ReadVerbs,
        *,
        namespaces: Iterable[str] | None = None,
        kinds: Mapping[Any, KindOptions] | None = None,
        allow: Iterable[AnyKind] = (),
        resync: float | None = RESYNC_SECONDS,
        fail_on_missing_informer: bool = False,
        sync_timeout: float = SYNC_TIMEOUT,
        own_write_timeout: float = OWN_WRITE_WAIT,
        rng: random.Random | None = None,
    ) -> None:
        """`namespaces`: keep only these, for all kinds that do not say otherwise.

        `kinds`: what to keep of single kinds. `allow`: keep all of these, even Secrets and ConfigMaps.
        `resync`: tell handlers everything again every so many seconds (give or take a tenth); `None`: never.
        `fail_on_missing_informer`: a read of a kind that nobody follows raises `NoInformer`.
        `sync_timeout`: how long a first read waits. `own_write_timeout`: how long a read waits for
        the watch to deliver a write of this client.
        """
        self.client = client
        self.own_write_timeout = own_write_timeout
        settings = client.settings
        if namespaces is None and settings.only_namespace:
            namespaces = (settings.namespace,)
        self._namespaces = None if namespaces is None else tuple(dict.fromkeys(namespaces))
        self._options: dict[GroupVersionKind | str, KindOptions] = {}
        for kind, options in (kinds or {}).items():
            metadata_only = isinstance(kind, MetadataKind)
            self._options[_named(kind)] = replace(options, metadata_only=True) if metadata_only else options
        self._allowed = {_named(kind) for kind in allow}
        self._resync = resync
        self._fail_on_missing_informer = fail_on_missing_informer
        self._sync_timeout = sync_timeout
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._informers: dict[GroupVersionKind, Informer] = {}
        self._resources: dict[GroupVersionKind, APIResource] = {}
        self._views: dict[AnyKind, _View] = {}
        self._timers: dict[GroupVersionKind, asyncio.TimerHandle] = {}
        self._started = False

    # Life

    async def start(self) -> None:
        """Begin to follow every kind that was asked for, now and later. Does not wait for anything."""
        self._started = True
        for informer in self._informers.values():
            self._run(informer)

    async def stop(self) -> None:
        """Stop following."""
        self._started = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._views.clear()
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def _run(self, informer: Informer) -> None:
        informer.start()
        if self._resync is not None and informer.gvk not in self._timers:
            self._arrange_resync(informer)

    def _arrange_resync(self, informer: Informer) -> None:
        assert self._resync is not None
        delay = self._resync * self._rng.uniform(0.9, 1.1)

        def resync() -> None:
            self._arrange_resync(informer)
            informer.resync()

        self._timers[informer.gvk] = asyncio.get_running_loop().call_later(delay, resync)

    # Informers

    async def informer(self, kind: AnyKind) -> Informer:
        """The informer of a kind; it is made, and started if the cache is. Does not wait for its state.

        `metadata_of(kind)` asks for one that need not have more than metadata. A kind that does not exist
        yet is followed as soon as it does, if it is named by class or `GroupVersionKind`.
        """
        gvk, namespaced = await self._resolve(kind)
        wants_metadata = isinstance(kind, MetadataKind)
        found = self._informers.get(gvk)
        if found is None:
            found = self._informers[gvk] = self._make(gvk, namespaced, wants_metadata)
            if self._started:
                self._run(found)
        elif found.metadata_only and not wants_metadata:
            options = self._options_of(gvk)
            sources = self._sources(gvk, namespaced, options, metadata_only=False)
            self._forget_views(gvk)
            await found.upgrade(sources)
        return found

    def existing_informer(self, kind: AnyKind) -> Informer | None:
        """The informer of a kind, if it is followed."""
        resource = self.client.mapper.find_cached(kind)
        gvk = resource.gvk if resource is not None else _named(kind)
        return self._informers.get(gvk) if isinstance(gvk, GroupVersionKind) else None

    async def remove(self, kind: AnyKind) -> None:
        """Stop following a kind and forget its objects; its handlers hear nothing more."""
        informer = self.existing_informer(kind)
        if informer is not None:
            del self._informers[informer.gvk]
            self._forget_views(informer.gvk)
            timer = self._timers.pop(informer.gvk, None)
            if timer is not None:
                timer.cancel()
            await informer.stop()

    def add_index(self, kind: type[MetaObject] | GroupVersionKind, *indexes: Index) -> None:
        """Keep indexes of a kind, from now on or from when it is followed."""
        gvk = _named(kind)
        options = self._options_of(gvk)
        others = tuple(each for each in options.indexes if each.name not in {new.name for new in indexes})
        self._options[gvk] = replace(options, indexes=(*others, *indexes))
        informer = self._informers.get(gvk) if isinstance(gvk, GroupVersionKind) else None
        if informer is not None:
            for each in indexes:
                if informer.metadata_only and not each.metadata_only:
                    raise CacheError(
                        f"the index {each.name!r} needs whole objects, but only metadata of {gvk} is kept: "
                        "ask for the informer of the kind itself first"
                    )
                informer.store.add_index(each.name, each.indexer)

    def informers_for(self, resource: GroupResource) -> Iterable[Informer]:
        """The informers of a resource, whatever their version."""
        for gvk, informer in self._informers.items():
            known = self._resources.get(gvk)
            if known is not None and known.gvr.group_resource == resource:
                yield informer

    def retry_now(self) -> None:
        """Look now for kinds that could not be followed: something was installed or allowed."""
        for informer in self._informers.values():
            informer.retry_now()

    async def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait until every kind that is followed is known; `NotSynced` says which is not, and why."""
        seconds = self._sync_timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                while not all(informer.synced for informer in self._informers.values()):
                    for informer in list(self._informers.values()):
                        await informer.wait_for_sync()
        except TimeoutError:
            raise self._not_synced(self._informers.values(), seconds) from None

    def _not_synced(self, informers: Iterable[Informer], seconds: float) -> NotSynced:
        reasons = [
            f"{each.gvk}: {each.last_error or 'its state has not come yet'}"
            for each in informers
            if not each.synced
        ]
        return NotSynced(f"the cache is not in sync after {seconds:g} s: {'; '.join(reasons)}")

    def usage(self) -> list[KindUsage]:
        """What each kind costs."""
        return [
            KindUsage(
                gvk,
                len(informer.store),
                informer.store.bytes,
                informer.metadata_only,
                informer.synced,
                informer.revision(),
            )
            for gvk, informer in self._informers.items()
        ]

    async def _resolve(self, kind: AnyKind) -> tuple[GroupVersionKind, bool]:
        """The kind, and whether it has namespaces; what is not there yet is taken to have them."""
        base: AnyKind = kind.kind if isinstance(kind, MetadataKind) else kind
        resource = self.client.mapper.find_cached(base)
        if resource is None:
            try:
                resource = await self.client.mapper.resource_for(base)
            except (NoKindMatch, ConnectionFailed, APIError, TimeoutError):
                gvk = _named(base)
                if isinstance(gvk, str):
                    raise
                return gvk, True
        self._resources[resource.gvk] = resource
        return resource.gvk, resource.namespaced

    def _options_of(self, gvk: GroupVersionKind | str) -> KindOptions:
        found = self._options.get(gvk)
        if found is None and isinstance(gvk, GroupVersionKind):
            resource = self._resources.get(gvk)
            names = (name for name in self._options if isinstance(name, str))
            found = next(
                (
                    self._options[name]
                    for name in names
                    if resource is not None and resource.matches_name(name.lower().partition(".")[0])
                ),
                None,
            )
        return found or KindOptions()

    def _make(self, gvk: GroupVersionKind, namespaced: bool, wants_metadata: bool) -> Informer:
        options = self._options_of(gvk)
        metadata_only = wants_metadata or options.metadata_only
        informer = Informer(
            gvk,
            self._sources(gvk, namespaced, options, metadata_only),
            metadata_only=metadata_only,
            labels=parse_labels(options.labels),
            filtered_by_fields=parse_fields(options.fields) is not None,
            transform=options.transform,
            rng=self._rng,
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
                f"not every {gvk.kind} of the cluster is kept in memory unless you ask for it. "
                f"Narrow it down with kinds={{{gvk.kind}: KindOptions(labels=...)}} or "
                f"KindOptions(namespaces=(...,)), "
                f"follow metadata_of({gvk.kind}), read it through `client.uncached`, "
                f"or keep them all with allow=({gvk.kind},); in an operator, kinds and allow are "
                "operator.settings.kinds and operator.settings.allow"
            )
        kind: AnyKind = metadata_of(gvk) if metadata_only else gvk
        return {
            namespace: ListWatch(self.client, kind, namespace, options.labels, options.fields)
            for namespace in namespaces
        }

    def _namespaces_of(self, options: KindOptions) -> Sequence[str]:
        """The namespaces that are followed one by one; an empty name stands for all of them."""
        found = (self._namespaces if options.namespaces is None else options.namespaces) or ("",)
        return ("",) if "" in found or ALL_NAMESPACES in found else found

    def caches_full_objects(self, kind: AnyKind) -> bool:
        """Whether whole objects of a kind may be followed here: all but every Secret and every ConfigMap."""
        gvk = _named(kind)
        if isinstance(gvk, str) or gvk.group_kind not in RESTRICTED_KINDS:
            return True
        options = self._options_of(gvk)
        narrowed = bool(options.labels or options.fields or "" not in self._namespaces_of(options))
        return narrowed or any(gvk == each or gvk.kind == each for each in self._allowed)

    def _forget_views(self, gvk: GroupVersionKind) -> None:
        for kind in [kind for kind, view in self._views.items() if view.informer.gvk == gvk]:
            del self._views[kind]

    # Reads

    @overload
    async def get(self, kind: type[TypedT], name: str, namespace: str | None = None) -> TypedT: ...
    @overload
    async def get(self, kind: UnstructuredKind, name: str, namespace: str | None = None) -> Unstructured: ...
    @overload
    async def get(
        self, kind: MetadataKind, name: str, namespace: str | None = None
    ) -> PartialObjectMetadata: ...
    async def get(self, kind: AnyKind, name: str, namespace: str | None = None) -> Any:
        """One object; `NotFound` if there is none, `NotCached` if that cannot be said here."""
        view = self._views.get(kind) or await self._open(kind)
        if not view.resource.namespaced:
            namespace = ""
        elif not namespace:
            namespace = self.client.settings.namespace
        informer = view.informer
        if informer.has_pending_writes(namespace, name):
            await self._wait_for_pending_writes(informer, namespace, name)
        entry = informer.store.get(ObjectKey(namespace, name))
        if entry is None:
            raise self._missing(view, namespace, name)
        return decode_object(entry.raw, view.cls, view.resource.gvk)

    @overload
    def list(
        self,
        kind: type[TypedT],
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
        limit: int | None = None,
    ) -> ListPager[TypedT]: ...
    @overload
    def list(
        self,
        kind: UnstructuredKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
        limit: int | None = None,
    ) -> ListPager[Unstructured]: ...
    @overload
    def list(
        self,
        kind: MetadataKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
        limit: int | None = None,
    ) -> ListPager[PartialObjectMetadata]: ...
    def list(
        self,
        kind: AnyKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
        limit: int | None = None,
    ) -> ListPager[Any]:
        """Objects of a kind, in every namespace that is kept unless one is given: `await` it, or `async for`.

        `fields` name indexes and ask for exact values; `owner` is the uid of an owner.
        """
        cls = class_of(kind)
        gvks: list[GroupVersionKind] = []

        async def fetch(size: int, token: str) -> RawPage:
            page, gvk = await self.page(kind, namespace, labels=labels, fields=fields, owner=owner)
            gvks.append(gvk)
            return page

        return ListPager(fetch, lambda raw, page: decode_object(raw, cls, gvks[0]), page_size=0, limit=limit)

    async def page(
        self,
        kind: AnyKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
    ) -> tuple[RawPage, GroupVersionKind]:
        """What `list` reads, as bytes, and the kind of the objects."""
        view = self._views.get(kind) or await self._open(kind)
        informer, gvk = view.informer, view.resource.gvk
        settings = self.client.settings
        if not view.resource.namespaced or namespace == ALL_NAMESPACES:
            namespace = None
        elif not namespace:
            namespace = settings.namespace if settings.only_namespace else None
        if namespace and not informer.covers(namespace):
            raise NotCached(f"{gvk.kind} in namespace {namespace!r} is not kept: {describe_scope(informer)}")
        if informer.has_pending_writes(namespace):
            await self._wait_for_pending_writes(informer, namespace, None)
        entries = select_entries(informer, namespace, labels, fields, owner)
        page = RawPage(
            cast(Any, [entry.raw for _, entry in entries]),
            str(informer.revision(namespace or "") or ""),
            "",
            gvk.api_version,
            gvk.kind,
        )
        return page, gvk

    async def _open(self, kind: AnyKind) -> _View:
        if not self._started:
            raise CacheError("the cache is not started: use `async with cache`, or await cache.start()")
        if self._fail_on_missing_informer and self.existing_informer(kind) is None:
            raise NoInformer(
                f"{_named(kind)} is not followed and reading does not begin to "
                "(fail_on_missing_informer): await cache.informer(...) first"
            )
        informer = await self.informer(kind)
        if not informer.synced:
            await self._first_sync(informer)
        resource = await self.client.mapper.resource_for(kind)
        self._resources[informer.gvk] = resource
        view = _View(informer, resource, class_of(kind))
        if informer is self._informers.get(informer.gvk):
            self._views[kind] = view
        return view

    async def _first_sync(self, informer: Informer) -> None:
        """A read waits for the state, but not for somebody to install the kind."""
        try:
            async with asyncio.timeout(self._sync_timeout):
                await informer.wait_for_attempt()
                error = informer.last_error
                if not informer.synced and isinstance(error, NotFound | NoKindMatch):
                    raise NoKindMatch(f"the server does not have {informer.gvk}; is its CRD installed?")
                if not informer.synced and isinstance(error, APIError) and error.status_code in (401, 403):
                    raise NotSynced(f"{informer.gvk} cannot be followed: {error}")
                await informer.wait_for_sync()
        except TimeoutError:
            raise self._not_synced([informer], self._sync_timeout) from None

    async def _wait_for_pending_writes(
        self, informer: Informer, namespace: str | None, name: str | None
    ) -> None:
        try:
            async with asyncio.timeout(self.own_write_timeout):
                await informer.wait_for_pending_writes(namespace, name)
        except TimeoutError:
            what = f" {name!r}" if name else ""
            raise NotCached(
                f"the watch of {informer.gvk.kind} has not told of our own write{what} "
                f"within {self.own_write_timeout:g} s"
            ) from None

    def _missing(self, view: _View, namespace: str, name: str) -> Exception:
        informer = view.informer
        if not informer.covers(namespace) or informer.filtered:
            return NotCached(
                f"{informer.gvk.kind} {ObjectKey(namespace, name)} is outside the scope of this cache "
                f"and may exist on the server: {describe_scope(informer)}"
            )
        return not_found(view.resource.gvr.group_resource, name)


def _named(kind: AnyKind) -> GroupVersionKind | str:
    if isinstance(kind, MetadataKind):
        return _named(kind.kind)
    if isinstance(kind, GroupVersionKind | str):
        return kind
    if kind.gvk is None:
        raise TypeError(f"{kind} names no kind: put @resource(group=..., version=...) on it")
    return kind.gvk


__all__ = ["Cache", "KindUsage"]
