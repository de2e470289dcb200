"""Subresources that a function of an `APIServerApp` serves.

| class | the function |
|---|---|
| `FunctionSubresource` | returns a response: JSON, text, a stream, a WebSocket |
| `ExecSubresource` | talks to an `ExecSession`, as `kubectl exec` opens it |
| `PortSubresource` | serves connections of `kubectl port-forward` |
| `ProxySubresource` | returns where to forward the request to |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.subresource import Subresource, SubresourceRequest

from .functions import PROXY, DeclaredFunction, with_user

ALL_METHODS = ("create", "delete", "get", "patch", "update")


@dataclass(frozen=True, slots=True)
class DeclaredSubresource:
    """A subresource, the function for it, and the verb that users need besides that of the method."""

    name: str
    function: DeclaredFunction
    requires: str

    def build(self, values: Mapping[str, Any]) -> Subresource:
        """Return the declaration for the server."""

        async def handle(request: SubresourceRequest) -> HTTPResponse | Object:
            version = request.resource.version(self.function.version) or request.version
            plain = await request.store.get_object(version, request.namespace, request.name)
            obj = from_plain(plain, self.function.kind)
            given = {**with_user(values, request.operation.user), "request": request}
            if self.requires:
                await given["permissions"].require(self.requires, obj)
            return await self.respond(request, obj, given)

        return self.declare(handle)

    def declare(self, handle: Any) -> Subresource:
        """Return the subresource with a handler: by default one with connections."""
        return Subresource(handler=handle, verbs=("create", "get"), connects=True, decodes=False)

    async def respond(
        self, request: SubresourceRequest, obj: Any, values: dict[str, Any]
    ) -> HTTPResponse | Object:
        """Return the response for an object."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FunctionSubresource(DeclaredSubresource):
    """A subresource whose function returns the response."""

    verbs: tuple[str, ...]
    streams: bool
    kind: GroupVersionKind | None
    content_type: str

    def declare(self, handle: Any) -> Subresource:
        """Return the subresource with a handler."""
        return Subresource(
            handler=handle,
            verbs=self.verbs,
            kind=self.kind,
            connects=self.streams,
            decodes=not self.streams,
            status_code=201 if "create" in self.verbs and not self.streams else 200,
        )

    async def respond(
        self, request: SubresourceRequest, obj: Any, values: dict[str, Any]
    ) -> HTTPResponse | Object:
        """Call the function and return its result as a response."""
        result = await self.function((obj,), values)
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


@dataclass(frozen=True, slots=True)
class ExecSubresource(DeclaredSubresource):
    """A subresource that clients connect to with standard streams."""

    async def respond(
        self, request: SubresourceRequest, obj: Any, values: dict[str, Any]
    ) -> HTTPResponse | Object:
        """Return the upgrade of the connection; the function runs on its streams."""
        from kubewright.apiserver.streams.responses import ProcessOptions, process_response

        from .sessions import ExecSession

        options = ProcessOptions.of(request.request.query)

        async def run(streams: Any) -> int:
            session = ExecSession(streams, options)
            return await self.function((obj,), {**values, "session": session}) or 0

        return process_response(request.request, run, options=options)


@dataclass(frozen=True, slots=True)
class PortSubresource(DeclaredSubresource):
    """A subresource that forwards connections to ports."""

    async def respond(
        self, request: SubresourceRequest, obj: Any, values: dict[str, Any]
    ) -> HTTPResponse | Object:
        """Return the upgrade of the connection; the function serves each forwarded connection."""
        from kubewright.apiserver.streams.responses import ports_response

        async def serve(port: int, connection: Any) -> None:
            await self.function((obj,), {**values, "port": port, "connection": connection})

        return ports_response(request.request, serve)


@dataclass(frozen=True, slots=True)
class ProxySubresource(DeclaredSubresource):
    """A subresource that forwards requests to another server."""

    def declare(self, handle: Any) -> Subresource:
        """Return the subresource with a handler."""
        return Subresource(handler=handle, verbs=ALL_METHODS, connects=True, decodes=False)

    async def respond(
        self, request: SubresourceRequest, obj: Any, values: dict[str, Any]
    ) -> HTTPResponse | Object:
        """Forward the request to the target that the function returns."""
        from .proxy import ProxyTarget

        target = await self.function((obj,), values)
        if isinstance(target, HTTPResponse):
            return target
        if isinstance(target, str):
            target = ProxyTarget(target)
        path = request.path
        if request.request.path.endswith("/") and path:
            path += "/"
        response: HTTPResponse = await values[PROXY].forward(request.request, target, path)
        return response


async def _encoded(chunks: AsyncIterator[bytes | str]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk.encode() if isinstance(chunk, str) else chunk
