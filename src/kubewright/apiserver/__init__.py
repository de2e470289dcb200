"""A library for writing Kubernetes API servers.

Declare resources, hand them to an `APIServer` over a store, and put it on a port with `serve`:

    server = APIServer(MemoryStorage())
    server.add(resource_of(Guestbook))
    async with serve(server, port=6443) as front:
        front.write_kubeconfig("kubeconfig")

`Request` and `Response` are the server's own, so that it can also be called in process.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "APIServer": "server",
    "AdmissionChain": "admission",
    "AdmissionPlugin": "admission",
    "AdmissionRequest": "admission",
    "AlwaysAllow": "authorization",
    "Attributes": "authorization",
    "AuthenticatorChain": "authentication",
    "AuthorizerUnion": "authorization",
    "Column": "resource",
    "Decision": "authorization",
    "Delegation": "delegation",
    "Front": "http",
    "HubConverter": "resource",
    "Operation": "resource",
    "PrivilegedGroups": "authorization",
    "Request": "request",
    "Resource": "resource",
    "Response": "request",
    "SYSTEM": "user",
    "ScaleSubresource": "resource",
    "StatusSubresource": "resource",
    "Store": "store",
    "Strategy": "resource",
    "Subresource": "resource",
    "SubresourceRequest": "resource",
    "Tunnel": "request",
    "User": "user",
    "Version": "resource",
    "VersionInfo": "version",
    "WebSocket": "request",
    "api_services": "delegation",
    "resource_of": "typed",
    "serve": "http",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


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
