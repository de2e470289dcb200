"""`CachedClient`: a `Client` that reads from a cache, writes to the server, and sees its own writes.

    client = CachedClient.from_client(client, cache)
    pod = await client.get(Pod, "web-0")                # from the cache
    pod.metadata.labels = {"seen": "yes"}
    await client.update(pod)                            # to the server; the response is stored in the cache
    await client.get(Pod, "web-0")                      # that version or a newer one
    await client.uncached.get(Pod, "web-0")             # from the server

After a write has returned, no read returns an older version of that object, or an object that was deleted:
the response is stored before the caller receives it. Where the response does not contain the object, a read
waits for the watch for a short time, then reads from the server. These reads always go to the server:
objects outside the namespaces and selectors of the cache, kinds that are not cached, fields without an
index, exact resource versions, and reads with impersonation.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from kubewright.api.errors import APIError, NotFound
from kubewright.api.objects import base_of
from kubewright.client.client import Client
from kubewright.client.discovery.rest_mapper import RESTMapper
from kubewright.client.kind_types import ALL_NAMESPACES, AnyKind
from kubewright.client.listwatch.raw import RawPage
from kubewright.client.rest.request import APIRequest
from kubewright.client.rest.rest_client import RESTClient
from kubewright.client.selectors import Fields, Labels
from kubewright.client.transport.interface import APIResponse
from kubewright.client.verbs.base import ClientOptions, ResourceLocation

from .cache import Cache
from .errors import NotCached
from .stores.store import ObjectKey
from .write_through import is_write, record_error, record_response


class CachedClient(Client):
    """A client that reads from a cache. Derived clients read from the same cache."""

    def __init__(
        self,
        rest: RESTClient,
        mapper: RESTMapper | None = None,
        options: ClientOptions | None = None,
        *,
        cache: Cache,
        bypass_cache: bool = False,
    ) -> None:
        super().__init__(rest, mapper, options)
        self.cache = cache
        self._bypass_cache = bypass_cache or any(
            name.startswith("Impersonate-") for name, _ in self.options.headers
        )

    @classmethod
    def from_client(cls, client: Client, cache: Cache) -> Self:
        """Return a client with the same connections and options that reads from a cache."""
        return cls(client.rest, client.mapper, client.options, cache=cache)

    def _with(self, **changes: Any) -> Self:
        return type(self)(
            self.rest,
            self.mapper,
            msgspec.structs.replace(self.options, **changes),
            cache=self.cache,
            bypass_cache=self._bypass_cache,
        )

    @property
    def uncached(self) -> Self:
        """The same client with reads from the server; its writes update the cache as well."""
        return type(self)(self.rest, self.mapper, self.options, cache=self.cache, bypass_cache=True)

    async def send(self, request: APIRequest) -> APIResponse:
        """Send a request; the response of a write is stored in the cache before it is returned."""
        if not is_write(request):
            return await super().send(request)
        try:
            response = await super().send(request)
        except APIError as error:
            record_error(self.cache, request, error)
            raise
        record_response(self.cache, request, response)
        return response

    async def _get(self, kind: AnyKind, name: str, namespace: str | None, resource_version: str = "") -> Any:
        if self._bypass_cache or resource_version:
            return await super()._get(kind, name, namespace, resource_version)
        location = await self.locate(kind, name, namespace)
        try:
            return await self.cache.get(kind, name, namespace=location.namespace)
        except NotCached:
            return await self._get_from_server(kind, ObjectKey(location.namespace, name))

    async def _get_from_server(self, kind: AnyKind, key: ObjectKey) -> Any:
        informer = self.cache.existing_informer(kind)
        try:
            obj: Any = await super()._get(kind, key.name, key.namespace or None)
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
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        timeout: float | None = None,
    ) -> RawPage:
        """Return objects as bytes: all of them from the cache, or a page from the server."""
        if not (self._bypass_cache or continue_ or resource_version or resource_version_match):
            location = await self.locate(kind, None, namespace, collection=True)
            try:
                page, _ = await self.cache.list_raw(
                    kind, namespace=location.namespace or ALL_NAMESPACES, labels=labels, fields=fields
                )
                return page
            except NotCached:
                pass
        return await super().list_raw(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            timeout=timeout,
        )

    async def _find(self, kind: AnyKind, location: ResourceLocation) -> tuple[Any, str]:
        # `wait` starts a watch at the returned resource version, so it has to be one of the server.
        return await super(CachedClient, self.uncached)._find(kind, location)
