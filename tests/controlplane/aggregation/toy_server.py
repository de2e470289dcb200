"""An extension API server for toys, over TLS, and its APIService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.controlplane.path_client import PathClient

from kubewright.api.errors import Forbidden
from kubewright.apiserver import (
    AlwaysAllow,
    APIServer,
    AuthenticatorChain,
    HTTPResponse,
    Resource,
    Subresource,
    Version,
)
from kubewright.apiserver.authentication.requestheader import RequestHeaderAuthenticator
from kubewright.apiserver.http.server import HTTPServer
from kubewright.controlplane import ControlPlane
from kubewright.storage import MemoryStorage

GROUP = "toys.example.com"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


async def whoami(asked: Any) -> dict[str, Any]:
    user = asked.request.user
    return {"kind": "WhoAmI", "apiVersion": f"{GROUP}/v1", "user": user.to_info()}


async def echo(asked: Any) -> HTTPResponse:
    async def handle_socket(socket: Any) -> None:
        await socket.send(asked.request.headers.get("Sec-WebSocket-Protocol", ""))
        while (message := await socket.receive()) is not None:
            await socket.send(message)

    return HTTPResponse(websocket=handle_socket, protocols=("echo",))


async def shell(asked: Any) -> HTTPResponse:
    """A tunnel handler that returns its input in upper case."""
    if asked.request.headers.get("X-Deny"):
        raise Forbidden("not today")
    if asked.request.headers.get("Upgrade", "").lower() != "spdy/3.1":
        return HTTPResponse(400, b"upgrade request required")
    who = asked.request.user.name

    async def handle_tunnel(tunnel: Any) -> None:
        await tunnel.send(f"hello {who}\n".encode())
        while data := await tunnel.receive():
            await tunnel.send(data.upper())
            if data.endswith(b"bye"):
                return

    headers: dict[str, str | list[str]] = {
        "Connection": "Upgrade",
        "Upgrade": "SPDY/3.1",
        "X-Stream-Protocol-Version": asked.request.headers.get("X-Stream-Protocol-Version", ""),
    }
    return HTTPResponse(101, headers=headers, tunnel=handle_tunnel)


@asynccontextmanager
async def toy_server(plane: ControlPlane) -> AsyncIterator[HTTPServer]:
    """Run a server that authenticates only the front proxy of the control plane."""
    proxy = plane.authentication.front_proxy
    server = APIServer(
        MemoryStorage(),
        authenticator=AuthenticatorChain(
            [RequestHeaderAuthenticator(proxy.client_ca, allowed_names=proxy.allowed_names)],
            allow_anonymous=False,
        ),
        authorizer=AlwaysAllow(),
    )
    subresources = {
        "whoami": Subresource(handler=whoami),
        "echo": Subresource(handler=echo, connects=True),
        "shell": Subresource(handler=shell, verbs=("create", "get"), connects=True, decodes=False),
    }
    server.add(
        Resource(
            group=GROUP,
            kind="Toy",
            plural="toys",
            versions=[Version(name="v1", subresources=subresources)],
        )
    )
    async with server:
        front = HTTPServer(server, port=0, client_authorities=(proxy.client_ca,))
        await front.start()
        try:
            yield front
        finally:
            await front.stop(0.1)


async def register(client: PathClient, **spec: Any) -> None:
    base = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"namespace": "default", "name": "toy"},
    }
    await client.create(
        SERVICES,
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{GROUP}"},
            "spec": {**base, **spec},
        },
    )


async def condition(client: PathClient) -> tuple[str, str, str]:
    found = await client.get(f"{SERVICES}/v1.{GROUP}")
    for each in (found.get("status") or {}).get("conditions") or ():
        if each["type"] == "Available":
            return each["status"], each["reason"], each["message"]
    return "", "", ""


async def until(client: PathClient, reason: str) -> str:
    """Wait for a reason of the condition; returns its message."""
    async with asyncio.timeout(60):
        while True:
            _, found, message = await condition(client)
            if found == reason:
                return message
            await asyncio.sleep(0.01)
