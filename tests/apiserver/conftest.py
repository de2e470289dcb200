"""Fixtures: an in-process API server and a client that sends plain data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kubewright.apiserver import (
    SYSTEM,
    APIServer,
    HTTPRequest,
    HTTPResponse,
    Resource,
    StatusSubresource,
    User,
    Version,
)
from kubewright.schema.structural import Node
from kubewright.storage.contract import Storage
from kubewright.storage.memory import MemoryStorage

GROUP = "example.com"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10},
                "color": {"type": "string", "default": "red"},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "replicas": {"type": "integer"},
            },
        },
        "status": {
            "type": "object",
            "properties": {"ready": {"type": "integer"}, "replicas": {"type": "integer"}},
        },
    },
}


class Talk:
    """Sends requests to a server in process; bodies and responses are plain data."""

    def __init__(self, server: APIServer, user: User | None = SYSTEM) -> None:
        self.server = server
        self.user = user

    async def send(
        self, method: str, path: str, body: Any = None, *, user: User | None = None, **headers: str
    ) -> HTTPResponse:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.server.handle(
            HTTPRequest(method, path, user=user or self.user, headers=given, body=data)
        )

    async def __call__(self, method: str, path: str, body: Any = None, **settings: Any) -> tuple[int, Any]:
        response = await self.send(method, path, body, **settings)
        if not response.body or not response.content_type.startswith("application/json"):
            return response.status, response.body.decode()
        return response.status, json.loads(response.body)

    async def ok(self, method: str, path: str, body: Any = None, **settings: Any) -> Any:
        status, response = await self(method, path, body, **settings)
        assert status in (200, 201), response
        return response


def make_widget(name: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} if name else {}
    metadata.update(fields.pop("metadata", {}))
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, **fields}


def make_server(storage: Storage | None = None, **settings: Any) -> APIServer:
    server = APIServer(storage or MemoryStorage(), **settings)
    version = Version(
        name="v1",
        schema=Node(SCHEMA),
        subresources={"status": StatusSubresource()},
        field_selectors={"spec.color": ".spec.color"},
    )
    server.add(
        Resource(group=GROUP, kind="Widget", plural="widgets", versions=[version], short_names=("wd",))
    )
    return server


@pytest.fixture
def widget() -> Callable[..., dict[str, Any]]:
    return make_widget


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    async with make_server() as server:
        yield server


@pytest.fixture
def talk(server: APIServer) -> Talk:
    return Talk(server)


@pytest.fixture
def base() -> str:
    return f"/apis/{GROUP}/v1/namespaces/default/widgets"


@pytest.fixture
def new_server() -> Callable[..., APIServer]:
    return make_server


@pytest.fixture
def talk_to() -> Callable[..., Talk]:
    return Talk
