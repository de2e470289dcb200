"""Routing of request paths: resources, other paths, prefixes.

Paths are looked up in this order: prefix handlers (the aggregator claims whole group versions), resources,
handlers of exact paths, discovery documents, prefix handlers added with `last`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .http.messages import HTTPRequest, HTTPResponse, page_not_found
from .http.request_info import RequestInfo
from .rest.endpoint import ResourceEndpoint
from .rest.store import ResourceStore
from .routing_errors import NoSuchMethod, NoSuchResource

if TYPE_CHECKING:
    from .resources.resource import Resource
    from .server import APIServer

HTTPHandler = Callable[[HTTPRequest], Awaitable[HTTPResponse]]
_GET_ONLY = re.compile("/version|/api(/.*)?|/apis/[^/]+/.*")
"""Documents that respond 405 to other methods; the others are served for any method."""


class Router:
    """The endpoints and handlers of one server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self.handlers: dict[str, HTTPHandler] = {}
        self._endpoints: dict[tuple[str, str, str], ResourceEndpoint] = {}
        self._builtin_groups: set[str] = set()
        self._builtin_versions: set[tuple[str, str]] = set()
        self._prefixes: list[tuple[str, HTTPHandler]] = []
        self._fallbacks: list[tuple[str, HTTPHandler]] = []
        self.catch_up: Callable[[str], Awaitable[None]] | None = None
        """Called with the group of a request that is not served, before the 404: another server may have
        stored a definition of it."""

    def add_resource(self, store: ResourceStore) -> None:
        """Route the served versions of a resource; built-in group versions hide custom resources."""
        resource = store.resource
        for version in resource.versions:
            shadowed = resource.custom and (resource.group, version.name) in self._builtin_versions
            if version.served and not shadowed:
                endpoint = ResourceEndpoint(self._server, store, version)
                self._endpoints[resource.group, version.name, resource.plural] = endpoint

    def remove_resource(self, resource: Resource) -> None:
        """Remove the routes of a resource."""
        for version in resource.versions:
            self._endpoints.pop((resource.group, version.name, resource.plural), None)

    def update_builtin_groups(self) -> None:
        """Update which groups have built-in resources, after resources were added or removed."""
        self._builtin_versions = {
            (endpoint.resource.group, endpoint.version.name)
            for endpoint in self._endpoints.values()
            if not endpoint.resource.custom
        }
        self._builtin_groups = {group for group, _ in self._builtin_versions}

    def endpoint(self, info: RequestInfo) -> ResourceEndpoint | None:
        """Return the endpoint of a resource request."""
        return self._endpoints.get((info.group, info.version, info.resource))

    def add_handler(self, path: str, handler: HTTPHandler) -> None:
        """Serve one exact path."""
        self.handlers[path] = handler

    def add_prefix_handler(self, prefix: str, handler: HTTPHandler, *, last: bool = False) -> None:
        """Serve all paths at or below a prefix, before resources (or after everything else, with `last`)."""
        entries = self._fallbacks if last else self._prefixes
        entries[:] = [entry for entry in entries if entry[0] != prefix]
        entries.append((prefix.rstrip("/"), handler))
        entries.sort(key=lambda entry: -len(entry[0]))

    def remove_handler(self, path: str) -> None:
        """Remove the handlers of a path and of a prefix."""
        self.handlers.pop(path, None)
        for entries in (self._prefixes, self._fallbacks):
            entries[:] = [entry for entry in entries if entry[0] != path.rstrip("/")]

    async def dispatch(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Call the handler of a request."""
        path = request.path
        if path.startswith("//"):
            return page_not_found()
        for prefix, handler in self._prefixes:
            if path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/"):
                return await handler(request)
        if info.resource:
            key = (info.group, info.version, info.resource)
            endpoint = self._endpoints.get(key)
            if endpoint is None and self.catch_up is not None:
                await self.catch_up(info.group)
                endpoint = self._endpoints.get(key)
            if endpoint is not None:
                return await endpoint.handle(request, info)
            return self._not_found(path)
        plain = path.rstrip("/") or "/"
        found = self._non_resource_handler(path, plain)
        if found is None:
            return self._not_found(plain)
        if request.method != "GET" and _GET_ONLY.fullmatch(plain):
            raise NoSuchMethod
        return await found(request)

    def _non_resource_handler(self, path: str, plain: str) -> HTTPHandler | None:
        found = self.handlers.get(plain)
        if found is None and plain.startswith(("/apis/", "/api/")):
            found = self._server.discovery.handler(plain)
        if found is None:
            for prefix, handler in self._fallbacks:
                if path.startswith(prefix + "/"):
                    return handler
        return found

    def _not_found(self, path: str) -> HTTPResponse:
        """Respond 404: with a Status below groups that have built-in resources, otherwise with plain text."""
        match path.split("/"):
            case ["", "api", _, *_]:
                is_builtin = "" in self._builtin_groups
            case ["", "apis", group, _, *_]:
                is_builtin = group in self._builtin_groups
            case _:
                is_builtin = False
        if is_builtin:
            raise NoSuchResource
        return page_not_found()

    def is_served(self, info: RequestInfo) -> bool:
        """Whether the path of a request is served; metrics have no labels for other paths."""
        if not info.resource:
            return info.path in self.handlers
        endpoint = self.endpoint(info)
        if endpoint is None:
            return False
        return (
            info.subresource in ("", "status", "scale") or info.subresource in endpoint.version.subresources
        )

    def is_long_running(self, info: RequestInfo) -> bool:
        """Whether a request has no timeout: watches, exec, proxies."""
        if info.verb == "watch":
            return True
        if not info.subresource:
            return False
        endpoint = self.endpoint(info)
        subresource = endpoint.version.subresources.get(info.subresource) if endpoint is not None else None
        return subresource is not None and subresource.connects
