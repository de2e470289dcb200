"""Requests that the control plane makes to itself: the whole pipeline, without a network.

Controllers write through the same admission, validation and conversion as everybody else. What goes wrong is
raised as an `APIError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from kubewright.api.errors import APIError, from_response
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, User
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    from kubewright.apiserver.resource import Resource
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def controller_user(name: str) -> User:
    """The identity of a controller, as its writes show it."""
    return User(
        f"system:serviceaccount:kube-system:{name}",
        ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED, MASTERS),
    )


def resource_path(
    resource: Resource, namespace: str = "", name: str = "", subresource: str = "", version: str = ""
) -> str:
    """The URL path of an object or, without a name, of a collection."""
    version = version or resource.storage_version
    parts = ["/apis", resource.group, version] if resource.group else ["/api", version]
    if resource.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    if name:
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def failure(response: HTTPResponse) -> APIError:
    """The error that a response stands for."""
    try:
        status = _decode(response.body)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return APIError.from_status(status, response.status)
    return from_response(response.status, response.body.decode(errors="replace"))


class Requests:
    """A client in process, as one user."""

    def __init__(self, server: APIServer, user: User, *, agent: str = "kube-controller-manager") -> None:
        self.server = server
        self.user = user
        self.agent = agent

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = JSON,
        query: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer; raises an `APIError`."""
        request = HTTPRequest(
            method,
            path,
            query=urlencode(query) if query else "",
            headers={"Content-Type": media, "Accept": JSON, "User-Agent": self.agent},
            body=_encode(body) if body is not None else b"",
            user=self.user,
        )
        response = await self.server.handle(request)
        if response.status >= 400:
            raise failure(response)
        return _decode(response.body) if response.body else None

    async def get(self, path: str) -> Object:
        """An object."""
        found: Object = await self.send("GET", path)
        return found

    async def create(self, path: str, obj: Object) -> Object:
        """Create an object in a collection."""
        made: Object = await self.send("POST", path, obj)
        return made

    async def update(self, path: str, obj: Object) -> Object:
        """Replace an object."""
        made: Object = await self.send("PUT", path, obj)
        return made

    async def merge(self, path: str, patch: Object) -> Object:
        """Change an object by a merge patch."""
        made: Object = await self.send("PATCH", path, patch, media=MERGE_PATCH)
        return made

    async def delete(
        self, path: str, *, propagation: str = "", uid: str = "", resource_version: str = ""
    ) -> Any:
        """Delete an object, on conditions."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        preconditions = {
            key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value
        }
        if preconditions:
            options["preconditions"] = preconditions
        return await self.send("DELETE", path, options)
