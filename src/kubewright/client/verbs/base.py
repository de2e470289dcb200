"""`BaseClient`: what all verbs share, and the options that `Client.with_...` methods change.

A client is a small value over one `RESTClient` and one `RESTMapper`. Each `with_...` method copies it with
one option changed, so they combine in any order and share connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, cast
from urllib.parse import urlencode

import msgspec
from multidict import CIMultiDict

from kubewright.api.gvk import GroupResource
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.client.decoding import kind_of
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.discovery.rest_mapper import RESTMapper
from kubewright.client.kind_types import ALL_NAMESPACES, KIND_FORMS, AnyObject, ObjectOrKind
from kubewright.client.rest.request import TIMEOUT, APIRequest, CallNext, Interceptor
from kubewright.client.rest.rest_client import RESTClient
from kubewright.client.transport.interface import APIResponse, ResponseStream

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

_DISCOVERY_RESOURCES = (
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"),
    GroupResource("apiregistration.k8s.io", "apiservices"),
)
"""Writing one of these changes which resources the server serves."""


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that a client applies to each request."""

    namespace: str = "default"
    """The namespace that `namespace=None` means."""
    collections_in_namespace: bool = False
    """Whether `namespace=None` means it for lists and watches too; otherwise they are of all namespaces."""
    only_namespace: bool = False
    """Whether other namespaces are rejected."""

    def collection_namespace(self, namespace: str | None) -> str:
        """Return the namespace of a list or watch; empty for all namespaces."""
        if namespace == ALL_NAMESPACES:
            return ""
        is_set = self.collections_in_namespace or self.only_namespace
        return namespace or (self.namespace if is_set else "")

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    interceptors: tuple[Interceptor, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float | None = TIMEOUT
    """Seconds; `None` leaves the limit to the server."""


class ResourceLocation(msgspec.Struct, frozen=True):
    """A resource with the namespace and name of an object; both are empty where they do not apply."""

    resource: APIResource
    namespace: str
    name: str

    def path(self, subresource: str = "") -> str:
        """Return the URL path."""
        return self.resource.path(self.namespace, self.name, subresource)

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource} {key}" if key else str(self.resource)


class BaseClient:
    """Locate kinds, build requests and send them through the interceptors."""

    def __init__(
        self, rest: RESTClient, mapper: RESTMapper | None = None, options: ClientOptions | None = None
    ) -> None:
        self.rest = rest
        self.mapper = mapper or RESTMapper(rest)
        self.options = options or ClientOptions()

    def _with(self, **changes: Any) -> Self:
        return type(self)(self.rest, self.mapper, msgspec.structs.replace(self.options, **changes))

    async def locate(
        self,
        target: ObjectOrKind,
        name: str | None = None,
        namespace: str | None = None,
        *,
        collection: bool = False,
    ) -> ResourceLocation:
        """Return where an object, or a kind with a name, is served.

        With `collection`, a missing namespace means all of them, unless one was set for the client.
        """
        kind = kind_of(target)
        resource = self.mapper.find_cached(kind) or await self.mapper.resource_for(kind)
        if not isinstance(target, KIND_FORMS):
            own_name, own_namespace = _identity(target)
            name = name or own_name
            if namespace and own_namespace and namespace != own_namespace:
                raise ValueError(f"the object is in namespace {own_namespace!r}, not in {namespace!r}")
            namespace = namespace or own_namespace
        return ResourceLocation(resource, self._namespace(resource, namespace, collection), name or "")

    def _namespace(self, resource: APIResource, namespace: str | None, collection: bool) -> str:
        if not resource.namespaced:
            return ""
        options = self.options
        if options.only_namespace:
            if namespace and namespace != options.namespace:
                raise ValueError(
                    f"this client is restricted to namespace {options.namespace!r}, not {namespace!r}"
                )
            return options.namespace
        if collection:
            return options.collection_namespace(namespace)
        if namespace == ALL_NAMESPACES:
            raise ValueError("ALL_NAMESPACES does not identify the namespace of one object")
        return namespace or options.namespace

    def build_request(
        self,
        verb: str,
        method: str,
        location: ResourceLocation,
        *,
        subresource: str = "",
        query: Mapping[str, str | int | bool | None] | None = None,
        accept: str = JSON,
        content_type: str = "",
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIRequest:
        """Return a request for a location, with the options of this client."""
        headers = CIMultiDict({"Accept": accept})
        if content_type:
            headers["Content-Type"] = content_type
        if self.options.headers:
            headers.extend(self.options.headers)
        return APIRequest(
            verb,
            method,
            location.path(subresource),
            _query(query) if query else "",
            headers,
            body,
            timeout or self.options.timeout,
            location.resource.gvr.group_resource,
            location.name,
            location.namespace,
            subresource,
        )

    def write_query(
        self, *, dry_run: bool = False, field_manager: str = "", field_validation: str | None = None
    ) -> dict[str, str | int | bool | None]:
        """Return the query parameters of a write."""
        options = self.options
        return {
            "dryRun": "All" if dry_run or options.dry_run else None,
            "fieldManager": field_manager or options.field_manager or None,
            "fieldValidation": field_validation or options.field_validation or None,
        }

    async def send(self, request: APIRequest) -> APIResponse:
        """Send a request through the interceptors; `APIError` if the server returns one."""
        if not self.options.interceptors:
            response = await self.rest.send(request)
        else:
            response = cast(APIResponse, await self._intercept(request, self.rest.send))
        if request.resource in _DISCOVERY_RESOURCES and request.method != "GET":
            self.mapper.invalidate()
        return response

    async def open_stream(self, request: APIRequest, idle_timeout: float | None = None) -> ResponseStream:
        """Send a request whose response is a stream, through the interceptors."""
        if not self.options.interceptors:
            return await self.rest.open_stream(request, idle_timeout=idle_timeout)

        async def start(request: APIRequest) -> ResponseStream:
            return await self.rest.open_stream(request, idle_timeout=idle_timeout)

        return cast(ResponseStream, await self._intercept(request, start))

    async def _intercept(
        self, request: APIRequest, last: Callable[[APIRequest], Awaitable[APIResponse | ResponseStream]]
    ) -> APIResponse | ResponseStream:
        call_next: CallNext = last
        for interceptor in self.options.interceptors:
            call_next = _wrap(interceptor, call_next)
        return await call_next(request)


def _wrap(interceptor: Interceptor, inner: CallNext) -> CallNext:
    async def call_next(request: APIRequest) -> APIResponse | ResponseStream:
        return await interceptor(request, inner)

    return call_next


def _identity(target: AnyObject) -> tuple[str, str]:
    if isinstance(target, MetaObject):
        return target.metadata.name or "", target.metadata.namespace or ""
    raw = target.raw if isinstance(target, Unstructured) else target
    metadata = raw.get("metadata") or {}
    return metadata.get("name") or "", metadata.get("namespace") or ""


def _query(options: Mapping[str, str | int | bool | None]) -> str:
    return urlencode(
        {
            name: ("true" if value else "false") if isinstance(value, bool) else value
            for name, value in options.items()
            if value is not None and value != ""
        }
    )
