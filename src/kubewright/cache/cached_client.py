"""`CachedClient`: a `Client` that reads from a cache, writes to the server, and reads its own writes.

    client = CachedClient.of(client, cache)
    pod = await client.get(Pod, "web-0")           # from the cache, no request
    pod.metadata.labels = {"seen": "yes"}
    await client.update(pod)                       # to the server; the answer goes into the cache
    await client.get(Pod, "web-0")                 # that version or a newer one
    await client.live.get(Pod, "web-0")            # asks the server

After a write has returned, no read shows an older version of that object, nor one that we deleted: the
answer is taken in before the caller gets it. Where the answer does not tell enough, a read waits a moment
for the watch and then asks the server. The server is also asked for whatever the cache cannot know: objects
outside its namespaces and selectors, kinds it does not keep, fields without an index, exact resource
versions, and all reads on behalf of somebody else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, TypeVar, overload

from kubewright.api.errors import APIError, NotFound
from kubewright.api.meta import MetaObject, PartialObjectMetadata
from kubewright.api.objects import base_of
from kubewright.api.unstructured import Unstructured
from kubewright.client.client import Client
from kubewright.client.core import Fields, Labels, Place, Settings
from kubewright.client.kinds import ALL_NAMESPACES, Kind, MetadataOf, NamedKind
from kubewright.client.mapper import RESTMapper
from kubewright.client.raw import RawPage
from kubewright.client.rest import REST, Call
from kubewright.client.transport import Answer

from .cache import Cache
from .errors import NotCached
from .own_writes import take_in, take_in_refusal, writes
from .store import Key

TypedT = TypeVar("TypedT", bound=MetaObject)


class CachedClient(Client):
    """A client whose reads come from a cache. Decorators work as on every client."""

    def __init__(
        self,
        rest: REST,
        mapper: RESTMapper | None = None,
        settings: Settings | None = None,
        *,
        cache: Cache,
        reads_live: bool = False,
    ) -> None:
        super().__init__(rest, mapper, settings)
        self.cache = cache
        self._reads_live = reads_live or any(
            name.startswith("Impersonate-") for name, _ in self.settings.headers
        )

    @classmethod
    def of(cls, client: Client, cache: Cache) -> Self:
        """The same client, reading from a cache of the same server."""
        return cls(client.rest, client.mapper, client.settings, cache=cache)

    def _with(self, **changes: Any) -> Self:
        return type(self)(
            self.rest,
            self.mapper,
            replace(self.settings, **changes),
            cache=self.cache,
            reads_live=self._reads_live,
        )

    @property
    def live(self) -> Self:
        """The same client, asking the server for every read; its writes are seen by the cache as well."""
        return type(self)(self.rest, self.mapper, self.settings, cache=self.cache, reads_live=True)

    async def send(self, call: Call) -> Answer:
        """The answer to a call; what it says about the state goes into the cache first."""
        if not writes(call):
            return await super().send(call)
        try:
            answer = await super().send(call)
        except APIError as error:
            take_in_refusal(self.cache, call, error)
            raise
        take_in(self.cache, call, answer)
        return answer

    @overload
    async def get(
        self, kind: type[TypedT], name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> TypedT: ...
    @overload
    async def get(
        self, kind: NamedKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Unstructured: ...
    @overload
    async def get(
        self, kind: MetadataOf, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> PartialObjectMetadata: ...
    async def get(
        self, kind: Any, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Any:
        """One object by name, from the cache; `NotFound` if there is none."""
        if self._reads_live or resource_version:
            return await super().get(kind, name, namespace, resource_version=resource_version)
        if not name:
            raise ValueError("get needs a name")
        place = await self.place(kind, name, namespace)
        try:
            return await self.cache.get(kind, name, place.namespace)
        except NotCached:
            return await self._get_live(kind, Key(place.namespace, name))

    async def _get_live(self, kind: Any, key: Key) -> Any:
        """Ask the server, and let the cache know what it says."""
        informer = self.cache.existing_informer(kind)
        try:
            obj: Any = await super().get(kind, key.name, key.namespace or None)
        except NotFound:
            if informer is not None:
                informer.stop_expecting(key)
            raise
        raw = base_of(obj)
        if informer is not None and raw is not None and informer.observe(raw):
            informer.stop_expecting(key)
        return obj

    async def list_raw(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        timeout: float | None = None,
    ) -> RawPage:
        """Objects of a kind as bytes: all at once from the cache, or a page from the server."""
        if not (self._reads_live or continue_ or resource_version or resource_version_match):
            place = await self.place(kind, "", namespace, many=True)
            try:
                page, _ = await self.cache.page(
                    kind, place.namespace or ALL_NAMESPACES, labels=labels, fields=fields
                )
                return page
            except NotCached:
                pass
        return await super().list_raw(
            kind,
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            timeout=timeout,
        )

    async def _find(self, kind: Kind, place: Place) -> tuple[Any, str]:
        """What `wait` begins with: a watch goes on from there, so the server has to know the revision."""
        return await super(CachedClient, self.live)._find(kind, place)


__all__ = ["CachedClient"]
