"""Client of the control plane's own API server, without a network.

    client = LoopbackClient(server, controller_user("token-controller"))
    secret = await client.get(SECRETS, "token", namespace="default")

Requests pass through the whole pipeline (admission, validation, conversion, storage) as the given user.
Objects are dicts in the storage version of their resource. A request for a resource of an extension API
server, given by its declaration, passes the aggregator. Errors are raised as `APIError`. It has the verbs
of `kubewright.client.Client` and none of its imports: a control plane starts without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from kubewright.api.errors import APIError, from_response, not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, User
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.resources.objects import Object

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.server import APIServer

AnyResource: TypeAlias = "GroupResource | Resource"
"""A stored resource by name, or the declaration of a resource of an extension API server."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def controller_user(name: str) -> User:
    """Return the identity of a controller of kube-controller-manager."""
    return User(
        f"system:serviceaccount:kube-system:{name}",
        ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED, MASTERS),
    )


class LoopbackClient:
    """Sends requests to a server in this process as one user."""

    def __init__(self, server: APIServer, user: User, *, user_agent: str = "kube-controller-manager") -> None:
        self.server = server
        self.user = user
        self.user_agent = user_agent

    def path(
        self, resource: AnyResource, name: str = "", *, namespace: str = "", subresource: str = ""
    ) -> str:
        """Return the URL path of an object or, without a name, of a collection; raises `NotFound`."""
        if isinstance(resource, GroupResource):
            store = self.server.store(resource.group, resource.resource)
            if store is None:
                raise not_found(resource, name)
            declared = store.resource
        else:
            declared = resource
        group, version = declared.group, declared.storage_version
        parts = ["/apis", group, version] if group else ["/api", version]
        if declared.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(declared.plural)
        if name:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        query: dict[str, str] | None = None,
    ) -> Any:
        """Send a request and return the decoded response; raises `APIError`."""
        request = HTTPRequest(
            method,
            path,
            query=urlencode(query) if query else None,
            headers={"Content-Type": content_type, "Accept": JSON, "User-Agent": self.user_agent},
            body=_encode(body) if body is not None else b"",
            user=self.user,
        )
        response = await self.server.handle(request)
        body = await response.read()
        if response.stream is not None:  # of an extension API server
            body = b"".join([chunk async for chunk in response.stream])
        if response.status >= 400:
            raise error_of(response.status, body)
        return _decode(body) if body else None

    async def get(self, resource: AnyResource, name: str, *, namespace: str = "") -> Object:
        """Return an object."""
        found: Object = await self.send("GET", self.path(resource, name, namespace=namespace))
        return found

    async def list(self, resource: AnyResource, *, namespace: str = "") -> list[Object]:
        """Return the objects of a namespace, or of all."""
        found = await self.send("GET", self.path(resource, namespace=namespace))
        items: list[Object] = found["items"]
        return items

    async def create(self, resource: AnyResource, obj: Object, *, namespace: str = "") -> Object:
        """Create an object."""
        created: Object = await self.send("POST", self.path(resource, namespace=namespace), obj)
        return created

    async def update(self, resource: AnyResource, obj: Object, *, subresource: str = "") -> Object:
        """Replace an object, or a subresource of it."""
        metadata = obj["metadata"]
        path = self.path(
            resource, metadata["name"], namespace=metadata.get("namespace") or "", subresource=subresource
        )
        updated: Object = await self.send("PUT", path, obj)
        return updated

    async def merge_patch(
        self, resource: AnyResource, name: str, patch: Object, *, namespace: str = ""
    ) -> Object:
        """Change an object by a merge patch."""
        path = self.path(resource, name, namespace=namespace)
        patched: Object = await self.send("PATCH", path, patch, content_type=MERGE_PATCH)
        return patched

    async def apply(
        self, resource: AnyResource, obj: Object, *, namespace: str = "", field_manager: str
    ) -> Object:
        """Apply an object on the server, taking over conflicting fields."""
        path = self.path(resource, obj["metadata"]["name"], namespace=namespace)
        query = {"fieldManager": field_manager, "force": "true"}
        applied: Object = await self.send("PATCH", path, obj, content_type=APPLY_PATCH, query=query)
        return applied

    async def delete(
        self,
        resource: AnyResource,
        name: str,
        *,
        namespace: str = "",
        propagation_policy: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> None:
        """Delete an object, with preconditions."""
        options = _delete_options(propagation_policy)
        preconditions = {
            key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value
        }
        if preconditions:
            options["preconditions"] = preconditions
        await self.send("DELETE", self.path(resource, name, namespace=namespace), options)

    async def delete_collection(
        self, resource: AnyResource, *, namespace: str = "", propagation_policy: str = ""
    ) -> None:
        """Delete all objects of a namespace."""
        path = self.path(resource, namespace=namespace)
        await self.send("DELETE", path, _delete_options(propagation_policy))


def _delete_options(propagation_policy: str) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation_policy:
        options["propagationPolicy"] = propagation_policy
    return options


def error_of(code: int, body: bytes) -> APIError:
    """Return the error of a response with this status code and body."""
    try:
        status = _decode(body)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return APIError.from_status(status, code)
    return from_response(code, body.decode(errors="replace"))
