"""Subresources: status, scale and those answered by a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubewright.api.gvk import GroupVersionKind

from .objects import Object

if TYPE_CHECKING:
    from .http.messages import HTTPRequest, HTTPResponse
    from .resource import Resource, Version
    from .rest.store import ResourceStore
    from .strategy import Operation

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


@dataclass(slots=True)
class SubresourceRequest:
    """A request to a custom subresource. `store` reads and writes the parent."""

    request: HTTPRequest
    resource: Resource
    version: Version
    store: ResourceStore
    namespace: str
    name: str
    subresource: str
    path: str
    """What follows the subresource in the URL, for handlers that proxy."""
    body: Object | None
    """The decoded body of POST and PUT, if `Subresource.decodes` is set and there is one."""
    operation: Operation

    async def get(self) -> Object:
        """The parent in the requested version; raises `NotFound`."""
        return await self.store.get_object(self.version, self.namespace, self.name)


SubresourceHandler = Callable[[SubresourceRequest], Awaitable["HTTPResponse | Object"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A custom subresource: `handler` answers with an object, or with a `HTTPResponse` (stream, WebSocket).

    `kind` is what it speaks, for discovery; `None` means the parent's own kind.
    """

    handler: SubresourceHandler | None = None
    verbs: tuple[str, ...] = ("get",)
    kind: GroupVersionKind | None = None
    decodes: bool = True
    connects: bool = False
    """Whether admission sees it as CONNECT (exec, proxy) and the request may run for long."""
    status_code: int = 200
    """Of an object answered to POST; 201 where it is a creation."""
    wire: Any = None
    checks: Any = None
    """Reads bodies of `kind` (as `SchemaVersion.decode` does); without it, they are taken as they come."""
    prepare: Callable[[SubresourceRequest], Awaitable[None]] | None = None
    """Fills in what admission is to see of a POST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSubresource(Subresource):
    """`/status`: reads the object, writes only its status. `preserve` names what an update keeps from the old
    object besides; by default everything outside the status fields and managedFields."""

    verbs: tuple[str, ...] = ("get", "patch", "update")
    keeps_metadata: bool = True
    """Whether labels, annotations and the rest of metadata stay as they were (custom resources)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSubresource(Subresource):
    """`/scale`: an `autoscaling/v1` Scale read from and written to dotted paths of the parent."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str = ""
    selector: Callable[[Object], str] | None = None
    """The selector as text, where it is not simply a string at `label_selector_path`."""
    default_replicas: int | None = None
    """What an absent replica count means; `None` makes reading it an error, as for custom resources."""
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: GroupVersionKind | None = SCALE
