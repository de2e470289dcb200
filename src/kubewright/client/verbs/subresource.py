"""Subresources of an object: `scale`, `eviction`, `token`, `approval`, `status` and so on.

tokens = client.subresource("token", ServiceAccount, "build")
token = await tokens.create(TokenRequest(...))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from kubewright.api.encoding import codec
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.client.decoding import decode_object
from kubewright.client.kind_types import ObjectOrKind
from kubewright.client.patches import Patch

from .base import JSON, ResourceLocation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubewright.client.client import Client
    from kubewright.client.streams.exec import ExecCommand
    from kubewright.client.transport.interface import WebSocketConnection

SubresourceT = TypeVar("SubresourceT", bound=MetaObject | Unstructured)


class SubresourceClient:
    """Verbs on one subresource of one object. `as_` is the class that a response is decoded as."""

    def __init__(
        self,
        client: Client,
        subresource: str,
        target: ObjectOrKind,
        name: str | None = None,
        *,
        namespace: str | None = None,
    ) -> None:
        self._client = client
        self._subresource = subresource
        self._target = target
        self._name = name
        self._namespace = namespace

    @overload
    async def get(self) -> Unstructured: ...
    @overload
    async def get(self, as_: type[SubresourceT]) -> SubresourceT: ...
    async def get(self, as_: type[Any] = Unstructured) -> Any:
        """Read the subresource."""
        return await self._send("get", "GET", as_)

    async def create(self, body: SubresourceT, *, dry_run: bool = False) -> SubresourceT:
        """Post an object to the subresource and return the response, of the same class."""
        created: SubresourceT = await self._send(
            "create", "POST", type(body), JSON, codec.encode(body), dry_run
        )
        return created

    async def update(self, body: SubresourceT, *, dry_run: bool = False) -> SubresourceT:
        """Replace the subresource."""
        updated: SubresourceT = await self._send(
            "update", "PUT", type(body), JSON, codec.encode(body), dry_run
        )
        return updated

    @overload
    async def patch(self, patch: Patch, *, dry_run: bool = False) -> Unstructured: ...
    @overload
    async def patch(
        self, patch: Patch, as_: type[SubresourceT], *, dry_run: bool = False
    ) -> SubresourceT: ...
    async def patch(self, patch: Patch, as_: type[Any] = Unstructured, *, dry_run: bool = False) -> Any:
        """Patch the subresource."""
        return await self._send("patch", "PATCH", as_, patch.content_type, patch.body, dry_run)

    def exec(
        self,
        command: Sequence[str] = (),
        *,
        input: bytes | None = None,
        stdin: bool = False,
        tty: bool = False,
        check: bool = False,
    ) -> ExecCommand:
        """Connect to a subresource with standard streams: `await` returns the result, `async with` a session.

        As `Client.exec`, for subresources other than `pods/exec`.
        """
        from kubewright.client.streams.exec import ExecCommand

        async def connect() -> WebSocketConnection:
            arguments = [("command", argument) for argument in command]
            return await self._client.open_channels(
                await self.locate(), self._subresource, "", stdin or input is not None, tty, arguments
            )

        return ExecCommand(connect, input, check, f"{' '.join(command) or self._subresource!r}")

    async def locate(self) -> ResourceLocation:
        """Return where the object is served."""
        location = await self._client.locate(self._target, self._name, self._namespace)
        if not location.name:
            raise ValueError(f"subresource {self._subresource!r} requires the name of an object")
        return location

    async def _send(
        self,
        verb: str,
        method: str,
        as_: type[Any],
        content_type: str = "",
        body: bytes = b"",
        dry_run: bool = False,
    ) -> Any:
        location = await self.locate()
        query = None if method == "GET" else self._client.write_query(dry_run=dry_run)
        request = self._client.build_request(
            verb,
            method,
            location,
            subresource=self._subresource,
            query=query,
            content_type=content_type,
            body=body,
        )
        response = await self._client.send(request)
        return decode_object(response.body, as_, location.resource.gvk)
