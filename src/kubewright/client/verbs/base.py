"""What every verb of a client needs: the way to the server, the mapping of kinds, and its settings.

A `Client` is a small value over one shared `RESTClient` and `RESTMapper`. Decorators (`with_dry_run`,
`with_field_owner`, ...) copy it with one setting changed, so they stack in any order and cost nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast
from urllib.parse import urlencode

from multidict import CIMultiDict

from kubewright.api import codec
from kubewright.api.field_selectors import FieldSelector, field_selector
from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.api.label_selectors import Selector, selector_from_labels, selector_of
from kubewright.api.meta import LabelSelector, MetaObject, PartialObjectMetadata
from kubewright.api.objects import set_base
from kubewright.api.unstructured import Unstructured
from kubewright.client.discovery.rest_mapper import RESTMapper
from kubewright.client.kind_types import ALL_NAMESPACES, AnyKind, APIResource, MetadataKind
from kubewright.client.rest.rest_client import TIMEOUT, APIRequest, CallNext, Interceptor, RESTClient
from kubewright.client.transport.interface import APIResponse, ResponseStream

JSON = "application/json"
_DEFINITIONS = (
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"),
    GroupResource("apiregistration.k8s.io", "apiservices"),
)
"""Writing one of these changes what the server serves."""
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

Labels = str | Mapping[str, str] | Selector | LabelSelector
Fields = str | Mapping[str, str] | FieldSelector
ObjectOrKind = MetaObject | Unstructured | dict[str, Any] | AnyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a client does to each of its requests; changed by its decorators."""

    namespace: str = "default"
    """Where objects without a namespace are."""
    only_namespace: bool = False
    """Whether objects of other namespaces are refused."""
    dry_run: bool = False
    field_owner: str = ""
    field_validation: str = ""
    interceptors: tuple[Interceptor, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float = TIMEOUT


@dataclass(frozen=True, slots=True)
class ResourceLocation:
    """A resource, and an object or namespace in it."""

    resource: APIResource
    namespace: str
    name: str

    def path(self, subresource: str = "") -> str:
        """The URL path."""
        return self.resource.path(self.namespace, self.name, subresource)


class BaseClient:
    """The part of a client that its verbs share."""

    def __init__(
        self, rest: RESTClient, mapper: RESTMapper | None = None, settings: ClientOptions | None = None
    ) -> None:
        self.rest = rest
        self.mapper = mapper or RESTMapper(rest)
        self.settings = settings or ClientOptions()

    def _with(self, **changes: Any) -> Self:
        return type(self)(self.rest, self.mapper, replace(self.settings, **changes))

    async def locate(
        self, target: ObjectOrKind, name: str = "", namespace: str | None = None, *, many: bool = False
    ) -> ResourceLocation:
        """Where an object, or a kind with a name, is served."""
        kind = kind_of(target)
        resource = self.mapper.find_cached(kind) or await self.mapper.resource_for(kind)
        if not isinstance(target, type | GroupVersionKind | str | MetadataKind):
            own_name, own_namespace = _identity(target)
            name = name or own_name
            if namespace and own_namespace and namespace != own_namespace:
                raise ValueError(f"the object is in namespace {own_namespace!r}, not in {namespace!r}")
            namespace = namespace or own_namespace
        return ResourceLocation(resource, self._namespace(resource, namespace, many), name)

    def _namespace(self, resource: APIResource, asked: str | None, many: bool) -> str:
        if not resource.namespaced:
            return ""
        settings = self.settings
        if settings.only_namespace:
            if asked and asked != settings.namespace:
                raise ValueError(f"this client is for namespace {settings.namespace!r}, not for {asked!r}")
            return settings.namespace
        if many:
            return "" if asked in (None, "", ALL_NAMESPACES) else asked or ""
        if asked == ALL_NAMESPACES:
            raise ValueError("one object is in one namespace, not in all of them")
        return asked or settings.namespace

    def call(
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
        """A request for a location, with the settings of this client."""
        headers = CIMultiDict({"Accept": accept})
        if content_type:
            headers["Content-Type"] = content_type
        if self.settings.headers:
            headers.extend(self.settings.headers)
        return APIRequest(
            verb,
            method,
            location.path(subresource),
            _query(query) if query else "",
            headers,
            body,
            timeout or self.settings.timeout,
            location.resource.gvr.group_resource,
            location.name,
            location.namespace,
            subresource,
        )

    def write_options(
        self, *, dry_run: bool = False, field_owner: str = "", field_validation: str = ""
    ) -> dict[str, str | int | bool | None]:
        """The query of a write."""
        settings = self.settings
        return {
            "dryRun": "All" if dry_run or settings.dry_run else None,
            "fieldManager": field_owner or settings.field_owner or None,
            "fieldValidation": field_validation or settings.field_validation or None,
        }

    async def send(self, call: APIRequest) -> APIResponse:
        """The answer to a call, through the interceptors."""
        if not self.settings.interceptors:
            answer = await self.rest.send(call)
        else:
            answer = cast(APIResponse, await self._intercepted(call, self.rest.send))
        if call.resource in _DEFINITIONS and call.method != "GET":
            self.mapper.invalidate()
        return answer

    async def open(self, call: APIRequest, idle_timeout: float | None = None) -> ResponseStream:
        """The stream that answers a call, through the interceptors."""
        if not self.settings.interceptors:
            return await self.rest.open(call, idle_timeout=idle_timeout)

        async def start(call: APIRequest) -> ResponseStream:
            return await self.rest.open(call, idle_timeout=idle_timeout)

        return cast(ResponseStream, await self._intercepted(call, start))

    async def _intercepted(
        self, call: APIRequest, last: Callable[[APIRequest], Awaitable[APIResponse | ResponseStream]]
    ) -> APIResponse | ResponseStream:
        proceed: CallNext = last
        for interceptor in self.settings.interceptors:
            proceed = _around(interceptor, proceed)
        return await proceed(call)


def _around(interceptor: Interceptor, inner: CallNext) -> CallNext:
    async def proceed(call: APIRequest) -> APIResponse | ResponseStream:
        return await interceptor(call, inner)

    return proceed


def kind_of(target: ObjectOrKind) -> AnyKind:
    """The kind of an object, or the kind itself."""
    if isinstance(target, type | GroupVersionKind | str | MetadataKind):
        return target
    if isinstance(target, MetaObject) and not isinstance(target, PartialObjectMetadata):
        return type(target)
    if isinstance(target, dict):
        api_version, kind = target.get("apiVersion") or "", target.get("kind") or ""
    else:
        api_version, kind = target.api_version, target.kind
    if not kind or not api_version:
        raise ValueError("the object says no apiVersion and kind")
    gvk = GroupVersionKind.from_api_version(api_version, kind)
    if gvk == PartialObjectMetadata.gvk:
        raise ValueError(
            "PartialObjectMetadata says nothing of its kind: set api_version and kind to those of the object"
        )
    return gvk


def class_of(kind: AnyKind) -> type[Any]:
    """The class that objects of a kind are read as."""
    if isinstance(kind, MetadataKind):
        return PartialObjectMetadata
    return kind if isinstance(kind, type) else Unstructured


def decode_object(raw: bytes | Any, of: type[Any], gvk: GroupVersionKind) -> Any:
    """Decode an object; one that came without its kind (an item of a list) or as metadata gets it."""
    value = codec.decode(raw, of)
    if of is PartialObjectMetadata:
        value.api_version, value.kind = gvk.api_version, gvk.kind
    elif isinstance(value, Unstructured) and not value.raw.get("kind"):
        value.raw = {"apiVersion": gvk.api_version, "kind": gvk.kind, **value.raw}
    return value


def update_in_place(target: Any, answer: Any, raw: bytes) -> None:
    """Bring the caller's object up to date with the server's answer."""
    if isinstance(target, dict):
        target.clear()
        target.update(answer.raw)
        return
    if isinstance(target, Unstructured):
        target.raw = answer.raw
    else:
        for name in target.__struct_fields__:
            setattr(target, name, getattr(answer, name))
    set_base(target, raw)


def format_label_selector(labels: Labels | None) -> str:
    """A label selector as it goes into a query."""
    if labels is None or isinstance(labels, str):
        return labels or ""
    if isinstance(labels, LabelSelector):
        return str(selector_of(labels))
    if isinstance(labels, Mapping):
        return str(selector_from_labels(dict(labels)))
    return str(labels)


def format_field_selector(fields: Fields | None) -> str:
    """A field selector as it goes into a query."""
    if fields is None or isinstance(fields, str):
        return fields or ""
    return str(field_selector(fields) if isinstance(fields, Mapping) else fields)


def _identity(target: MetaObject | Unstructured | dict[str, Any]) -> tuple[str, str]:
    if isinstance(target, MetaObject):
        return target.metadata.name or "", target.metadata.namespace or ""
    raw = target if isinstance(target, dict) else target.raw
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


__all__ = [
    "BaseClient",
    "ClientOptions",
    "Fields",
    "Labels",
    "ObjectOrKind",
    "ResourceLocation",
    "class_of",
    "decode_object",
    "kind_of",
    "update_in_place",
]
