"""`ObjectReader`: cached reads of the objects of an extension API server and of its cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupKind
from kubewright.api.meta import MetaObject
from kubewright.cache import Cache, CachedClient

if TYPE_CHECKING:
    from kubewright.cache import CacheListArguments
    from kubewright.client import Client
    from kubewright.client.kind_types import TypedT
    from kubewright.client.listwatch.pager import ListPager


class ObjectReader:
    """Reads objects from informers; kinds of this server without a network, other kinds from the cluster.

    An informer starts with the first read of its kind, or with the server if a function declares the kind in
    `reads`. An object that the informer does not have is requested from the server, so that an object which
    was created a moment ago is found.
    """

    def __init__(
        self,
        own: Client,
        cluster: Client | None,
        kinds: Iterable[GroupKind],
        reads: Sequence[type[MetaObject]] = (),
    ) -> None:
        """`kinds` are those of the server, `reads` those whose informers start with it."""
        self._reads = tuple(reads)
        self._own = _cached(own, self._reads)
        self._cluster = _cached(cluster, self._reads) if cluster is not None else None
        self._kinds = frozenset(kinds)

    async def start(self) -> None:
        """Start the informers of `reads`; return when they have synced."""
        for client in self._clients:
            await client.cache.start()
        for kind in self._reads:
            if self._cluster is None and not self._is_own(kind):
                continue
            await self._client_of(kind).cache.informer(kind)
        for client in self._clients:
            await client.cache.wait_for_sync()

    async def stop(self) -> None:
        """Stop all informers."""
        for client in self._clients:
            await client.cache.stop()

    @property
    def _clients(self) -> list[CachedClient]:
        return [self._own] if self._cluster is None else [self._own, self._cluster]

    def _is_own(self, kind: type[MetaObject]) -> bool:
        return kind.gvk is not None and kind.gvk.group_kind in self._kinds

    def _client_of(self, kind: type[MetaObject]) -> CachedClient:
        if self._is_own(kind):
            return self._own
        if self._cluster is None:
            raise NotFound(f"{kind.gvk} is not a kind of this server, and the server runs without a cluster")
        return self._cluster

    async def get(self, kind: type[TypedT], name: str, *, namespace: str | None = None) -> TypedT:
        """Return one object; raise `NotFound`."""
        client = self._client_of(_checked(kind))
        try:
            return await client.get(kind, name, namespace=namespace)
        except NotFound:
            return await client.uncached.get(kind, name, namespace=namespace)

    async def exists(self, kind: type[TypedT], name: str, *, namespace: str | None = None) -> bool:
        """Whether an object exists."""
        try:
            await self.get(kind, name, namespace=namespace)
        except NotFound:
            return False
        return True

    def list(self, kind: type[TypedT], **arguments: Unpack[CacheListArguments]) -> ListPager[TypedT]:
        """Return the objects that match; `await` it or iterate with `async for`."""
        return self._client_of(_checked(kind)).cache.list(kind, **arguments)


def _cached(client: Client, allow: Sequence[type[MetaObject]]) -> CachedClient:
    return CachedClient.from_client(client, Cache(client, allow=allow, resync=0))


def _checked(kind: Any) -> type[MetaObject]:
    if not (isinstance(kind, type) and issubclass(kind, MetaObject)):
        raise TypeError(f"{kind!r} is not a class of objects")
    return kind
