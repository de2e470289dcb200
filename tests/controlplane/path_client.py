"""Requests by URL path, in process, for tests."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from multidict import CIMultiDict

from kubewright.api.encoding import codec
from kubewright.apiserver import APIServer, User
from kubewright.client.rest.request import APIRequest
from kubewright.client.rest.retry_policy import RetryPolicy
from kubewright.controlplane.in_process_clients import in_process_client

Object = dict[str, Any]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
NO_RETRIES = RetryPolicy(retry_after_attempts=0, transient_attempts=0)


class PathClient:
    """A client whose verbs take URL paths."""

    def __init__(self, server: APIServer, user: User, *, user_agent: str = "kube-controller-manager") -> None:
        self._rest = in_process_client(server, user, user_agent=user_agent, retries=NO_RETRIES).rest

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        query: dict[str, str] | None = None,
    ) -> Any:
        path, _, given = path.partition("?")
        headers = CIMultiDict({"Content-Type": content_type, "Accept": JSON})
        encoded = codec.encode(body) if body is not None else b""
        request = APIRequest(method.lower(), method, path, given or urlencode(query or {}), headers, encoded)
        response = await self._rest.send(request)
        return codec.loads(response.body) if response.body else None

    async def get(self, path: str) -> Object:
        return await self.send("GET", path)

    async def create(self, path: str, obj: Object) -> Object:
        return await self.send("POST", path, obj)

    async def update(self, path: str, obj: Object) -> Object:
        return await self.send("PUT", path, obj)

    async def merge(self, path: str, patch: Object) -> Object:
        return await self.send("PATCH", path, patch, content_type=MERGE_PATCH)

    async def delete(self, path: str, *, propagation: str = "", uid: str = "") -> Any:
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        if uid:
            options["preconditions"] = {"uid": uid}
        return await self.send("DELETE", path, options)
