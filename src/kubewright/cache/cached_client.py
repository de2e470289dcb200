"""`CachedClient`: a `Client` that reads from a cache, writes to the server, and reads its own writes.

    client = CachedClient.from_client(client, cache)
    pod = await client.get(Pod, "web-0")           # from the cache, no request
    pod.metadata.labels = {"seen": "yes"}
    await client.update(pod)                       # to the server; the answer goes into the cache
    await client.get(Pod, "web-0")                 # that version or a newer one
    await client.uncached.get(Pod, "web-0")            # asks the server

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
from kubewright.client.discovery.rest_mapper import RESTMapper
from kubewright.client.kind_types import ALL_NAMESPACES, AnyKind, MetadataKind, UnstructuredKind
from kubewright.client.listwatch.raw import RawPage
from kubewright.client.rest.rest_client import APIRequest, RESTClient
from kubewright.client.transport.interface import APIResponse
from kubewright.client.verbs.base import ClientOptions, Fields, Labels, ResourceLocation

from .cache import Cache
from .errors import NotCached
from .store import ObjectKey
from .write_through import is_write, record_error, record_response

TypedT = TypeVar("TypedT", bound=MetaObject)


class CachedClient(Client):
    """A client whose reads come from a cache. Decorators work as on every client."""

    def __init__(
        self,
        rest: RESTClient,
        mapper: RESTMapper | None = None,
        settings: ClientOptions | None = None,
        *,
        cache: Cache,
        bypass_cache: bool = False,
    ) -> None:
        super().__init__(rest, mapper, settings)
        self.cache = cache
        self._bypass_cache = bypass_cache or any(
            name.startswith("Impersonate-") for name, _ in self.settings.headers
        )

    @classmethod
    def from_client(cls, client: Client, cache: Cache) -> Self:
        """The same client, reading from a cache of the same server."""
        return cls(client.rest, client.mapper, client.settings, cache=cache)

    def _with(self, **changes: Any) -> Self:
        return type(self)(
            self.rest,
            self.mapper,
            replace(self.settings, **changes),
            cache=self.cache,
            bypass_cache=self._bypass_cache,
        )

    @property
    def uncached(self) -> Self:
        """The same client, asking the server for every read; its writes are seen by the cache as well."""
        return type(self)(self.rest, self.mapper, self.settings, cache=self.cache, bypass_cache=True)

    async def send(self, call: APIRequest) -> APIResponse:
        """The answer to a call; what it says about the state goes into the cache first."""
        if not is_write(call):
            return await super().send(call)
        try:
            answer = await super().send(call)
        except APIError as error:
            record_error(self.cache, call, error)
            raise
        record_response(self.cache, call, answer)
        return answer

    @overload
    async def get(
        self, kind: type[TypedT], name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> TypedT: ...
    @overload
    async def get(
        self, kind: UnstructuredKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Unstructured: ...
    @overload
    async def get(
        self, kind: MetadataKind, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> PartialObjectMetadata: ...
    async def get(
        self, kind: Any, name: str, namespace: str | None = None, *, resource_version: str = ""
    ) -> Any:
        """One object by name, from the cache; `NotFound` if there is none."""
        if self._bypass_cache or resource_version:
            return await super().get(kind, name, namespace, resource_version=resource_version)
        if not name:
            raise ValueError("get needs a name")
        location = await self.locate(kind, name, namespace)
        try:
            return await self.cache.get(kind, name, location.namespace)
        except NotCached:
            return await self._get_from_server(kind, ObjectKey(location.namespace, name))

    async def _get_from_server(self, kind: Any, key: ObjectKey) -> Any:
        """Ask the server, and let the cache know what it says."""
        informer = self.cache.existing_informer(kind)
        try:
            obj: Any = await super().get(kind, key.name, key.namespace or None)
        except NotFound:
            if informer is not None:
                informer.discard_expectation(key)
            raise
        raw = base_of(obj)
        if informer is not None and raw is not None and informer.record_write(raw):
            informer.discard_expectation(key)
        return obj

    async def list_raw(
        self,
        kind: AnyKind,
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
        if not (self._bypass_cache or continue_ or resource_version or resource_version_match):
            location = await self.locate(kind, "", namespace, many=True)
            try:
                page, _ = await self.cache.page(
                    kind, location.namespace or ALL_NAMESPACES, labels=labels, fields=fields
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

    async def _find(self, kind: AnyKind, location: ResourceLocation) -> tuple[Any, str]:
        """What `wait` begins with: a watch goes on from there, so the server has to know the revision."""
        return await super(CachedClient, self.uncached)._find(kind, location)


__all__ = ["CachedClient"]
