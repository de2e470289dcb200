"""Subresources: the paths below an object, such as `scale`, `eviction`, `token`, `approval`, `status`.

tokens = client.subresource("token", ServiceAccount, "build")
issued = await tokens.create(TokenRequest(...))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from kubewright.api import codec
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.client.patches import Patch

from .base import JSON, ObjectOrKind, ResourceLocation, decode_object

if TYPE_CHECKING:
    from kubewright.client.client import Client

PartT = TypeVar("PartT", bound=MetaObject | Unstructured)


class SubresourceClient:
    """One subresource of one object. `as_` names the class that it is read as."""

    def __init__(
        self, client: Client, name: str, target: ObjectOrKind, object_name: str, namespace: str | None
    ) -> None:
        self._client = client
        self._name = name
        self._target = target
        self._object_name = object_name
        self._namespace = namespace

    async def get(self, as_: type[PartT] = Unstructured) -> PartT:  # type: ignore[assignment]
        """Read it."""
        return await self._send("get", "GET", as_)

    async def create(self, body: PartT, *, dry_run: bool = False) -> PartT:
        """Post to it; the answer is of the same kind as the body."""
        return await self._send("create", "POST", type(body), JSON, codec.encode(body), dry_run)

    async def update(self, body: PartT, *, dry_run: bool = False) -> PartT:
        """Replace it."""
        return await self._send("update", "PUT", type(body), JSON, codec.encode(body), dry_run)

    async def patch(
        self,
        patch: Patch,
        as_: type[PartT] = Unstructured,  # type: ignore[assignment]
        *,
        dry_run: bool = False,
    ) -> PartT:
        """Patch it."""
        return await self._send("patch", "PATCH", as_, patch.content_type, patch.body, dry_run)

    async def locate(self) -> ResourceLocation:
        """Where the object is."""
        location = await self._client.locate(self._target, self._object_name, self._namespace)
        if not location.name:
            raise ValueError(f"{self._name} needs the name of an object")
        return location

    async def _send(
        self,
        verb: str,
        method: str,
        as_: type[PartT],
        content_type: str = "",
        body: bytes = b"",
        dry_run: bool = False,
    ) -> PartT:
        location = await self.locate()
        query = None if method == "GET" else self._client.write_options(dry_run=dry_run)
        call = self._client.call(
            verb, method, location, subresource=self._name, query=query, content_type=content_type, body=body
        )
        answer = await self._client.send(call)
        return cast(PartT, decode_object(answer.body, as_, location.resource.gvk))


__all__ = ["SubresourceClient"]
