"""Fixture: an in-process control plane with a namespace, and a client that sends plain data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.apiserver import SYSTEM, HTTPRequest
from kubewright.controlplane import ControlPlane

PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class APIClient:
    """Sends requests to a control plane; bodies and responses are plain data."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    async def __call__(
        self, method: str, path: str, body: Any = None, *, patch: str = "merge", accept: str = ""
    ) -> tuple[int, Any]:
        """Return status code and body of the response."""
        headers = {"Content-Type": PATCHES[patch]} if method == "PATCH" else {}
        if accept:
            headers["Accept"] = accept
        data = json.dumps(body).encode() if body is not None else b""
        response = await self.plane.server.handle(
            HTTPRequest(method, path, user=SYSTEM, headers=headers, body=data)
        )
        return response.status, json.loads(response.body)

    async def ok(self, method: str, path: str, body: Any = None, **settings: Any) -> Any:
        """Return the body of a response that must be successful."""
        status, response = await self(method, path, body, **settings)
        assert status in (200, 201), response
        return response

    async def cells(self, path: str) -> list[Any]:
        """Return the table cells of one object, without ages."""
        table = await self.ok("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        names = [column["name"] for column in table["columnDefinitions"]]
        row = table["rows"][0]["cells"]
        return [cell for name, cell in zip(names, row, strict=False) if name not in ("Age", "Created At")]

    async def invalid_fields(self, method: str, path: str, body: Any, **settings: Any) -> set[str]:
        """Return the fields named in the causes of a 422 response."""
        status, response = await self(method, path, body, **settings)
        assert status == 422, response
        return {cause["field"] for cause in response["details"]["causes"]}


@pytest.fixture
async def api() -> AsyncIterator[APIClient]:
    async with ControlPlane(port=None, controllers=False) as plane:
        api = APIClient(plane)
        await api.ok(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}},
        )
        yield api
