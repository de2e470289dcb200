"""`Cache`: the informers of a program, and reads from them without requests.

    async with Cache(client, kinds={Pod: KindOptions(labels="app=web")}) as cache:
        web = await cache.get(Deployment, "web", namespace="shop")
        pods = await cache.list(Pod, namespace="shop", labels={"tier": "front"})

A kind gets an informer with the first read, or the first call of `informer`. It holds one copy of each
object: reads as a class, as `Unstructured` and as metadata decode the same bytes, and each returns a new
object. For `metadata_of(Pod)` only metadata is requested from the server, unless full objects are read as
well.

An object outside the cached namespaces and selectors is not reported as missing: the cache raises
`NotCached`. All Secrets or ConfigMaps of a cluster are only cached if requested (`allow=`).

Permissions: list and watch for every cached kind, in the cached namespaces.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict, Unpack, cast, overload

from kubewright.api.errors import APIError, NotFound, not_found
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured
from kubewright.client.decoding import class_of, decode_object
from kubewright.client.errors import NoKindMatch
from kubewright.client.kind_types import AnyKind, KindOf, ObjectT
from kubewright.client.listwatch.pager import ListPager
from kubewright.client.listwatch.raw import RawPage
from kubewright.client.selectors import Fields, Labels

from .errors import CacheError, NoInformer, NotCached, NotSynced
from .informers.informer import Informer
from .informers.informer_manager import InformerManager, KindView, gvk_or_name
from .stores.queries import describe_scope, select_entries
from .stores.store import ObjectKey


class CacheListArguments(TypedDict, total=False):
    """Keyword arguments of `Cache.list`."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    owner: str
    limit: int | None


class Cache(InformerManager):
    """Informers by kind, and reads from them. Start and stop it, or use it in `async with`."""

    @overload
    async def get(self, kind: KindOf[ObjectT], name: str, *, namespace: str | None = None) -> ObjectT: ...
    @overload
    async def get(self, kind: str, name: str, *, namespace: str | None = None) -> Unstructured: ...
    async def get(self, kind: Any, name: str, *, namespace: str | None = None) -> Any:
        """Return one object; raise `NotFound` if it does not exist, `NotCached` if the cache cannot know."""
        view = self._views.get(kind) or await self._open(kind)
        if not view.resource.namespaced:
            namespace = ""
        elif not namespace:
            namespace = self.client.options.namespace
        informer = view.informer
        if informer.has_pending_writes(namespace, name):
            await self._wait_for_pending_writes(informer, namespace, name)
        if self.on_read is not None:
            self.on_read("get", view.resource, namespace, name)
        entry = informer.store.get(ObjectKey(namespace, name))
        if entry is None:
            raise self._missing(view, namespace, name)
        return decode_object(entry.raw, view.cls, view.resource.gvk)

    @overload
    async def get_or_none(
        self, kind: KindOf[ObjectT], name: str, *, namespace: str | None = None
    ) -> ObjectT | None: ...
    @overload
    async def get_or_none(
        self, kind: str, name: str, *, namespace: str | None = None
    ) -> Unstructured | None: ...
    async def get_or_none(self, kind: Any, name: str, *, namespace: str | None = None) -> Any:
        """Return one object, or `None` if it does not exist; `NotCached` if the cache cannot know."""
        try:
            return await self.get(kind, name, namespace=namespace)
        except NotFound:
            return None

    @overload
    def list(self, kind: KindOf[ObjectT], **arguments: Unpack[CacheListArguments]) -> ListPager[ObjectT]: ...
    @overload
    def list(self, kind: str, **arguments: Unpack[CacheListArguments]) -> ListPager[Unstructured]: ...
    def list(
        self,
        kind: Any,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
        limit: int | None = None,
    ) -> ListPager[Any]:
        """List objects of a kind, in all cached namespaces unless one is given: `await` it, or `async for`.

        `fields` select exact values of indexes; `owner` is the uid of an owner.
        """
        cls = class_of(kind)
        gvks: list[GroupVersionKind] = []

        async def fetch(size: int, token: str) -> RawPage:
            page, gvk = await self.list_raw(
                kind, namespace=namespace, labels=labels, fields=fields, owner=owner
            )
            gvks.append(gvk)
            return page

        return ListPager(fetch, lambda raw, page: decode_object(raw, cls, gvks[0]), page_size=0, limit=limit)

    async def list_raw(
        self,
        kind: AnyKind,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        owner: str = "",
    ) -> tuple[RawPage, GroupVersionKind]:
        """Return the objects of a list as bytes, and their kind."""
        view = self._views.get(kind) or await self._open(kind)
        informer, gvk = view.informer, view.resource.gvk
        options = self.client.options
        namespace = (options.collection_namespace(namespace) or None) if view.resource.namespaced else None
        if namespace and not informer.covers(namespace):
            raise NotCached(
                f"{gvk.kind} in namespace {namespace!r} is not cached: {describe_scope(informer)}"
            )
        if informer.has_pending_writes(namespace):
            await self._wait_for_pending_writes(informer, namespace, None)
        if self.on_read is not None:
            self.on_read("list", view.resource, namespace or "", "")
        entries = select_entries(informer, namespace, labels, fields, owner)
        page = RawPage(
            cast(Any, [entry.raw for _, entry in entries]),
            str(informer.revision(namespace or "") or ""),
            "",
            gvk.api_version,
            gvk.kind,
        )
        return page, gvk

    async def _open(self, kind: AnyKind) -> KindView:
        if not self._started:
            raise CacheError("the cache is not started; use `async with cache` or `await cache.start()`")
        if self._fail_on_missing_informer and self.existing_informer(kind) is None:
            raise NoInformer(
                f"{gvk_or_name(kind)} has no informer and fail_on_missing_informer is set; "
                "call `await cache.informer(...)` first"
            )
        informer = await self.synced_informer(kind)
        resource = await self.client.mapper.resource_for(kind)
        self._remember_resource(resource)
        view = KindView(informer, resource, class_of(kind))
        if informer is self._informers.get(informer.gvk):
            self._views[kind] = view
        return view

    async def synced_informer(self, kind: AnyKind) -> Informer:
        """Return the informer of a kind with its initial state; create it if it does not exist.

        Raises `NoKindMatch` for a kind that is not served, `NotSynced` if it cannot be listed and watched.
        """
        informer = await self.informer(kind)
        if not informer.has_synced:
            await self._wait_for_first_sync(informer)
        return informer

    async def _wait_for_first_sync(self, informer: Informer) -> None:
        """Wait for the initial state; fail fast for a kind that does not exist or is forbidden."""
        try:
            async with asyncio.timeout(self._sync_timeout):
                await informer.wait_for_first_attempt()
                error = informer.last_error
                if not informer.has_synced and isinstance(error, NotFound | NoKindMatch):
                    raise NoKindMatch(f"the server does not serve {informer.gvk}; install its CRD")
                if (
                    not informer.has_synced
                    and isinstance(error, APIError)
                    and error.status_code in (401, 403)
                ):
                    raise NotSynced(f"cannot list and watch {informer.gvk}: {error}")
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
            target = f"{informer.gvk.kind} {name!r}" if name else informer.gvk.kind
            raise NotCached(
                f"the watch has not delivered a write of this client to {target} "
                f"within {self.own_write_timeout:g} s"
            ) from None

    def _missing(self, view: KindView, namespace: str, name: str) -> Exception:
        informer = view.informer
        if not informer.covers(namespace) or informer.filtered:
            return NotCached(
                f"{informer.gvk.kind} {ObjectKey(namespace, name)} is outside the scope of this cache "
                f"and may exist on the server: {describe_scope(informer)}"
            )
        return not_found(view.resource.gvr.group_resource, name)
