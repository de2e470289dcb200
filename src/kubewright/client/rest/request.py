"""`APIRequest`: one request to the API server, and the hooks and interceptors that receive it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from multidict import CIMultiDict

from kubewright.api.gvk import GroupResource
from kubewright.client.transport.interface import APIResponse, ResponseStream

from .expected_object import ExpectedObject

TIMEOUT: Final = 60.0
"""Default timeout of a request in seconds; API servers end requests after 60 s themselves."""


@dataclass(slots=True)
class APIRequest:
    """A request to the API server. Hooks and interceptors can read and change it."""

    verb: str
    """The API verb: get, list, watch, create, update, patch, delete, deletecollection or connect."""
    method: str
    path: str
    query: str = ""
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: bytes = b""
    timeout: float | None = TIMEOUT
    resource: GroupResource | None = None
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    expects: ExpectedObject | None = None
    """The object of a write; a response with another one is an error."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


RequestHook = Callable[[APIRequest], None]
"""Called before each attempt to send a request; can change it, or raise to cancel it."""
CallNext = Callable[[APIRequest], Awaitable[APIResponse | ResponseStream]]
Interceptor = Callable[[APIRequest, CallNext], Awaitable[APIResponse | ResponseStream]]
"""Called around each request, retries included; can respond, fail, change, measure or repeat it. Watches and
logs return a `ResponseStream`, all other requests an `APIResponse`."""
