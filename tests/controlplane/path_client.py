"""Requests by URL path, in process, for tests."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from kubewright.controlplane.loopback_client import MERGE_PATCH, LoopbackClient

Object = dict[str, Any]


class PathClient(LoopbackClient):
    """A client whose verbs take URL paths."""

    async def get(self, path: str) -> Object:  # type: ignore[override]
        path, _, query = path.partition("?")
        return await self.send("GET", path, query=dict(parse_qsl(query, keep_blank_values=True)))

    async def create(self, path: str, obj: Object) -> Object:  # type: ignore[override]
        return await self.send("POST", path, obj)

    async def update(self, path: str, obj: Object) -> Object:  # type: ignore[override]
        return await self.send("PUT", path, obj)

    async def merge(self, path: str, patch: Object) -> Object:
        return await self.send("PATCH", path, patch, content_type=MERGE_PATCH)

    async def delete(  # type: ignore[override]
        self, path: str, *, propagation: str = "", uid: str = ""
    ) -> Any:
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        if uid:
            options["preconditions"] = {"uid": uid}
        return await self.send("DELETE", path, options)
