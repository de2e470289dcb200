"""A library for writing Kubernetes API servers.

Declare resources, hand them to an `APIServer` over a store, and put it on a port with `serve`:

    server = APIServer(MemoryStorage())
    server.add(resource_of(Guestbook))
    async with serve(server, port=6443) as front:
        front.write_kubeconfig("kubeconfig")

`Request` and `Response` are the server's own, so that it can also be called in process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from .admission import AdmissionChain, AdmissionPlugin, AdmissionRequest
    from .authentication import AuthenticatorChain
    from .authorization import AlwaysAllow, Attributes, AuthorizerUnion, Decision, PrivilegedGroups
    from .delegation import Delegation, api_services
    from .http import Front, serve
    from .request import Request, Response, Tunnel, WebSocket
    from .resource import (
        Column,
        HubConverter,
        Operation,
        Resource,
        ScaleSubresource,
        StatusSubresource,
        Strategy,
        Subresource,
        SubresourceRequest,
        Version,
    )
    from .server import APIServer
    from .store import Store
    from .typed import resource_of
    from .user import SYSTEM, User
    from .version import VersionInfo

__getattr__, __dir__ = lazy(
    __name__,
    {
        "admission": "AdmissionChain AdmissionPlugin AdmissionRequest",
        "authentication": "AuthenticatorChain",
        "authorization": "AlwaysAllow Attributes AuthorizerUnion Decision PrivilegedGroups",
        "delegation": "Delegation api_services",
        "http": "Front serve",
        "request": "Request Response Tunnel WebSocket",
        "resource": (
            "Column HubConverter Operation Resource ScaleSubresource StatusSubresource Strategy "
            "Subresource SubresourceRequest Version"
        ),
        "server": "APIServer",
        "store": "Store",
        "typed": "resource_of",
        "user": "SYSTEM User",
        "version": "VersionInfo",
    },
)

__all__ = [
    "SYSTEM",
    "APIServer",
    "AdmissionChain",
    "AdmissionPlugin",
    "AdmissionRequest",
    "AlwaysAllow",
    "Attributes",
    "AuthenticatorChain",
    "AuthorizerUnion",
    "Column",
    "Decision",
    "Delegation",
    "Front",
    "HubConverter",
    "Operation",
    "PrivilegedGroups",
    "Request",
    "Resource",
    "Response",
    "ScaleSubresource",
    "StatusSubresource",
    "Store",
    "Strategy",
    "Subresource",
    "SubresourceRequest",
    "Tunnel",
    "User",
    "Version",
    "VersionInfo",
    "WebSocket",
    "api_services",
    "resource_of",
    "serve",
]
