"""Fixtures: an in-process control plane, custom resource definitions and a webhook server."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kubewright.apiserver import SYSTEM, HTTPRequest, HTTPResponse, User
from kubewright.controlplane import ControlPlane
from kubewright.tls.certificates import CertificateAuthority, server_context

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
Object = dict[str, Any]


class Talk:
    """Sends requests to a control plane; bodies and responses are plain data."""

    def __init__(self, plane: ControlPlane, user: User = SYSTEM) -> None:
        self.plane = plane
        self.user = user

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> HTTPResponse:
        data = json.dumps(body).encode() if body is not None else b""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = HTTPRequest(method, path, user=self.user, headers=given, body=data)
        return await self.plane.server.handle(request)

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        if method == "PATCH":
            headers.setdefault("Content_Type", MERGE)
        response = await self.send(method, path, body, **headers)
        if response.content_type.startswith("application/json"):
            return response.status, json.loads(response.body)
        return response.status, response.body.decode()

    async def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, response = await self(method, path, body, **headers)
        assert status in (200, 201), response
        return response

    async def until(self, path: str, accept: Callable[[int, Any], bool]) -> Any:
        """Repeat a GET until `accept` returns true for its status and body."""
        async with asyncio.timeout(60):
            while True:
                status, response = await self("GET", path)
                if accept(status, response):
                    return response
                await asyncio.sleep(0.001)


def definition(group: str = "example.com", kind: str = "Widget", **spec: Any) -> Object:
    """Return a CRD; `versions` is optional, `names` and the rest of the spec are merged."""
    plural = f"{kind.lower()}s"
    names = {"plural": plural, "kind": kind, **spec.pop("names", {})}
    schema = spec.pop("schema", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version], **spec},
    }


def widget(name: str, version: str = "v1", **fields: Any) -> Object:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": metadata, **fields}


def condition(crd: Object, kind: str) -> Object | None:
    found = [each for each in crd["status"]["conditions"] or () if each["type"] == kind]
    return found[0] if found else None


class Hooks:
    """A webhook server: handlers by path, and the reviews that they received."""

    def __init__(self) -> None:
        self.authority = CertificateAuthority.create("hooks-ca")
        self.pair = self.authority.issue("hooks", hosts=("127.0.0.1", "svc.default.svc"), server=True)
        self.handlers: dict[str, Callable[[Object], Awaitable[Any] | Any]] = {}
        self.asked: list[tuple[str, Object]] = []
        self.paths: list[str] = []
        self.traceparents: list[str] = []
        self.port = 0

    @property
    def bundle(self) -> str:
        return b64encode(self.authority.certificate).decode()

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}/{path}"

    def config(self, path: str) -> Object:
        return {"url": self.url(path), "caBundle": self.bundle}

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        name = request.path.strip("/")
        self.asked.append((name, body))
        self.paths.append(request.raw_path)
        self.traceparents.append(request.headers.get("Traceparent", ""))
        made = self.handlers[name](body)
        if asyncio.iscoroutine(made):
            made = await made
        return made if isinstance(made, web.Response) else web.json_response(made)

    def requests(self, name: str) -> list[Object]:
        return [body["request"] for asked, body in self.asked if asked == name]


@asynccontextmanager
async def serve_hooks() -> AsyncIterator[Hooks]:
    """Run a webhook server."""
    made = Hooks()
    app = web.Application()
    app.router.add_route("POST", "/{tail:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(made.pair))
    await site.start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    async with serve_hooks() as made:
        yield made


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with ControlPlane(
        port=None, controllers=False, disable_admission_plugins=["ServiceAccount"]
    ) as plane:
        yield plane


@pytest.fixture
def talk(plane: ControlPlane) -> Talk:
    return Talk(plane)


@pytest.fixture
def base() -> str:
    return "/apis/example.com/v1/namespaces/default/widgets"
