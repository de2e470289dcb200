"""A control plane in process, with a namespace, that tests send plain data to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.apiserver import SYSTEM, Request
from kubewright.controlplane import ControlPlane

PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Talk:
    """Sends requests to a control plane; bodies and answers are plain data."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    async def __call__(
        self, method: str, path: str, body: Any = None, *, patch: str = "merge", accept: str = ""
    ) -> tuple[int, Any]:
        """Status and body of the answer."""
        headers = {"Content-Type": PATCHES[patch]} if method == "PATCH" else {}
        if accept:
            headers["Accept"] = accept
        data = json.dumps(body).encode() if body is not None else b""
        answer = await self.plane.server.handle(
            Request(method, path, user=SYSTEM, headers=headers, body=data)
        )
        return answer.status, json.loads(answer.body)

    async def ok(self, method: str, path: str, body: Any = None, **settings: Any) -> Any:
        """The body of an answer that has to be a success."""
        status, answer = await self(method, path, body, **settings)
        assert status in (200, 201), answer
        return answer

    async def cells(self, path: str) -> list[Any]:
        """What `kubectl get` prints of one object, without times."""
        table = await self.ok("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        names = [column["name"] for column in table["columnDefinitions"]]
        row = table["rows"][0]["cells"]
        return [cell for name, cell in zip(names, row, strict=False) if name not in ("Age", "Created At")]

    async def faults(self, method: str, path: str, body: Any, **settings: Any) -> set[str]:
        """The fields that an object is refused for."""
        status, answer = await self(method, path, body, **settings)
        assert status == 422, answer
        return {cause["field"] for cause in answer["details"]["causes"]}


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    async with ControlPlane(port=None, controllers=False) as plane:
        talk = Talk(plane)
        await talk.ok(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}},
        )
        yield talk
