"""Declaration of subresources: status, scale and those that a function serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kubewright.api.gvk import GroupVersionKind

from .objects import Object

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
    from kubewright.apiserver.rest.store import ResourceStore

    from .resource import Resource, Version
    from .strategy import Operation

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


@dataclass(slots=True)
class SubresourceRequest:
    """A request that a function serves. `store` reads and writes the object."""

    request: HTTPRequest
    resource: Resource
    version: Version
    store: ResourceStore
    namespace: str
    name: str
    subresource: str
    path: str
    """The rest of the URL after the subresource, for proxies."""
    body: Object | None
    """The decoded body of POST, PUT and of a PATCH by a function, unless `Subresource.decodes` is false."""
    operation: Operation
    object: Object | None = None
    """The object to store of a `create`, `update` or `patch` function: after the patch, admission, defaults
    and validation."""
    old_object: Object | None = None
    """The current object of an `update`, `patch` or `delete` function; `None` if it does not exist, or if the
    resource has no verb `get`."""

    async def get(self) -> Object:
        """Return the object in the requested version; raises `NotFound`."""
        return await self.store.get_object(self.version, self.namespace, self.name)


ConnectFieldType = Literal["boolean", "integers", "path", "string", "strings"]
SubresourceHandler = Callable[[SubresourceRequest], Awaitable["HTTPResponse | Object"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A subresource. `handler` returns an object or an `HTTPResponse` (stream, WebSocket); without a handler,
    the subresource reads and writes the stored object."""

    handler: SubresourceHandler | None = None
    verbs: tuple[str, ...] = ("get",)
    kind: GroupVersionKind | None = None
    """The kind of its bodies, if not that of the resource."""
    body_versions: tuple[str, ...] = ()
    """Further apiVersions that a body may name, which are decoded as `kind`."""
    decodes: bool = True
    """Whether bodies are decoded before the handler is called."""
    connects: bool = False
    """Whether admission sees CONNECT (exec, proxy) and the request has no timeout."""
    connect_fields: tuple[tuple[str, ConnectFieldType], ...] = ()
    """Fields of `kind` that CONNECT requests set in the query, and their types; `path` is the rest of the
    URL."""
    status_code: int = 200
    """The status of a response to POST with an object; 201 for creations."""
    wire: Any = None
    """Protobuf codec of the bodies."""
    checks: Any = None
    """Decodes bodies of `kind` (as `SchemaVersion.decode`); without it, they are not checked."""
    default: Callable[[Object], None] | None = None
    """Sets default fields of the body of a POST, before admission."""
    prepare: Callable[[SubresourceRequest], Awaitable[None]] | None = None
    """Completes and validates the body of a POST, between mutating and validating admission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSubresource(Subresource):
    """`/status`: reads the object, writes only its status fields."""

    verbs: tuple[str, ...] = ("get", "patch", "update")
    keeps_metadata: bool = True
    """Whether updates ignore changes of metadata other than managedFields (custom resources)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSubresource(Subresource):
    """`/scale`: an `autoscaling/v1` Scale of dotted paths of the object."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str = ""
    selector: Callable[[Object], str] | None = None
    """Returns the selector, if it is not a string at `label_selector_path`."""
    default_replicas: int | None = None
    """The meaning of absent replicas; with `None`, reading them is an error, as for custom resources."""
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: GroupVersionKind | None = SCALE
