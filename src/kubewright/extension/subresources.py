"""Subresources that a function of an `APIServerApp` serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.api.codec import from_plain, to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.subresource import Subresource, SubresourceRequest

from .functions import DeclaredFunction

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FunctionSubresource:
    """A function that serves a subresource."""

    name: str
    function: DeclaredFunction
    verbs: tuple[str, ...]
    streams: bool
    kind: GroupVersionKind | None
    content_type: str

    def build(self, values: Mapping[str, Any]) -> Subresource:
        """Return the declaration for the server."""

        async def handle(request: SubresourceRequest) -> HTTPResponse | Object:
            version = request.resource.version(self.function.version) or request.version
            plain = await request.store.get_object(version, request.namespace, request.name)
            obj = from_plain(plain, self.function.kind)
            given = {**values, "user": request.operation.user, "request": request}
            return self._response(await self.function((obj,), given))

        return Subresource(
            handler=handle,
            verbs=self.verbs,
            kind=self.kind,
            connects=self.streams,
            decodes=not self.streams,
            status_code=201 if "create" in self.verbs and not self.streams else 200,
        )

    def _response(self, result: Any) -> HTTPResponse | Object:
        if isinstance(result, HTTPResponse):
            return result
        if isinstance(result, AsyncIterator):
            return HTTPResponse(stream=_encoded(result), content_type=self.content_type)
        if isinstance(result, bytes | str):
            body = result.encode() if isinstance(result, str) else result
            return HTTPResponse(200, body, content_type=self.content_type)
        if isinstance(result, dict):
            return result
        plain: Object = to_plain(result)
        return plain


async def _encoded(chunks: AsyncIterator[bytes | str]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk.encode() if isinstance(chunk, str) else chunk
