"""A control plane in process, and a client for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

Object = dict[str, Any]
MERGE = "application/merge-patch+json"


class Cluster:
    """Client of a control plane in process."""

    def __init__(self, plane: ControlPlane) -> None:
        self.server = plane.server
        self.warnings: list[str] = []

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Object]:
        """Send a request; return the status code and the body."""
        request = HTTPRequest(
            method,
            path,
            headers={"Content-Type": type, "Accept": accept},
            body=json.dumps(body).encode() if body is not None else b"",
            user=SYSTEM,
        )
        response = await self.server.handle(request)
        self.warnings = list(request.warnings)
        return response.status, json.loads(response.body) if response.body else {}

    async def create(self, path: str, name: str, **rest: Any) -> Object:
        """Create an object."""
        metadata = {"name": name, **rest.pop("metadata", {})}
        status, obj = await self.call("POST", path, {"metadata": metadata, **rest})
        assert status == 201, obj
        return obj

    async def rejected(self, path: str, name: str, **rest: Any) -> dict[str, str]:
        """Create an object that is invalid; return the error messages by field."""
        metadata = {"name": name, **rest.pop("metadata", {})}
        status, obj = await self.call("POST", path, {"metadata": metadata, **rest})
        assert status == 422, obj
        return {cause["field"]: cause["message"] for cause in obj["details"]["causes"]}

    async def patch(self, path: str, body: Any, *, type: str = MERGE) -> tuple[int, Object]:
        """Patch an object."""
        return await self.call("PATCH", path, body, type=type)

    async def table(self, path: str) -> tuple[list[str], list[list[Any]]]:
        """Return the header and the cells of a table."""
        _, table = await self.call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        header = [column["name"] for column in table["columnDefinitions"]]
        return header, [row["cells"] for row in table["rows"]]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A control plane without controllers."""
    plane = ControlPlane(
        port=None, auth="always-allow", controllers=False, disable_admission_plugins=["ServiceAccount"]
    )
    async with plane:
        made = Cluster(plane)
        await made.create("/api/v1/namespaces", "ns")
        yield made
