"""Routing of requests to the verb handlers of one resource version.

The order of the checks, and what they respond with, is that of kube-apiserver; it differs between built-in
and custom resources.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kubewright.api.errors import (
    APIError,
    BadRequest,
    method_not_allowed,
    not_found,
)
from kubewright.api.gvk import version_priority
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, page_not_found
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.resources.resource import Resource, Version
from kubewright.apiserver.resources.subresource import ScaleSubresource, StatusSubresource, Subresource
from kubewright.apiserver.routing_errors import NoSuchMethod, NoSuchResource, Unrouted

from .scope import EndpointScope
from .verbs.create import CreateHandler
from .verbs.delete import DeleteCollectionHandler, DeleteHandler
from .verbs.functions import FunctionSubresourceHandler, FunctionVerbHandler
from .verbs.get import GetHandler
from .verbs.list import ListHandler
from .verbs.patch import PatchHandler
from .verbs.scale import ScaleHandler
from .verbs.update import UpdateHandler
from .verbs.watch import WatchHandler

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

    from .store import ResourceStore

VerbHandler = Callable[[HTTPRequest, RequestInfo], Awaitable[HTTPResponse]]
_WRITE_VERBS = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_COLLECTION_VERBS = ("list", "watch", "create", "deletecollection")


class ResourceEndpoint:
    """One version of a resource."""

    def __init__(self, server: APIServer, store: ResourceStore, version: Version) -> None:
        self.resource = store.resource
        self.version = version
        self._scope = scope = EndpointScope(server, store, version)
        lister = ListHandler(scope)
        self._storage_verbs: dict[str, VerbHandler] = {
            "get": GetHandler(scope).handle,
            "list": lister.handle,
            "watch": WatchHandler(scope).handle,
            "create": CreateHandler(scope).handle,
            "update": UpdateHandler(scope).handle,
            "patch": PatchHandler(scope).handle,
            "delete": DeleteHandler(scope).handle,
            "deletecollection": DeleteCollectionHandler(scope, lister).handle,
        }
        self._subresources: dict[str, tuple[Subresource, dict[str, VerbHandler]]] = {}

    # Declarations of built-in resources are imported by the first request: __init__ must not read them.

    @cached_property
    def _deprecation(self) -> str:
        return deprecation_warning(self.resource, self.version) if self.version.deprecated else ""

    @cached_property
    def _verbs(self) -> dict[str, VerbHandler]:
        functions = self.resource.handlers
        return {
            verb: FunctionVerbHandler(self._scope, verb).handle
            if verb in functions
            else self._storage_verbs[verb]
            for verb in self.resource.verbs
        }

    async def handle(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Serve a request for this resource."""
        resource, verb = self.resource, info.verb
        if request.method == "HEAD" and not resource.custom and not self._is_proxy(info):
            raise NoSuchMethod()
        if verb == "proxy":
            raise NoSuchResource()
        if verb == "watch" and request.method != "GET":
            raise NoSuchMethod()
        if self._deprecation:
            return await self._handle_deprecated(request, info)
        return await self._route(request, info)

    async def _handle_deprecated(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        """Serve a request with a deprecation warning, unless no handler accepts it."""
        request.warn(self._deprecation)
        self._scope.server.metrics.requests.count_deprecated(info, self._deprecation)
        if request.audit is not None:
            request.audit.annotations["k8s.io/deprecated"] = "true"
        try:
            return await self._route(request, info)
        except Unrouted:
            if not self.resource.custom:
                request.warnings.discard(self._deprecation)
            raise

    async def _route(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        resource, verb, parts = self.resource, info.verb, info.parts
        if len(parts) > 2:
            return await self._handle_subresource(request, info)
        named = len(parts) == 2
        if (info.namespace != "") != resource.namespaced and not self._namespace_optional(info, named):
            return self._wrong_scope()
        if not named and verb not in _COLLECTION_VERBS:
            if resource.custom and verb:
                raise BadRequest("name must be provided")
            raise NoSuchMethod()
        handler = self._verbs.get(verb)
        if handler is None:
            raise self._unsupported_verb(verb, named)
        if named:
            if verb == "create":
                if not resource.custom and verb not in resource.handlers:
                    raise NoSuchMethod()
            else:
                _check_path_segment(parts[1])
        response = await handler(request, info)
        if verb in _WRITE_VERBS:
            await self._scope.store.deliver()
        return response

    def _is_proxy(self, info: RequestInfo) -> bool:
        """Whether a request is forwarded with any method."""
        declared = self.version.subresources.get(info.parts[2]) if len(info.parts) > 2 else None
        return declared is not None and declared.connects and "update" in declared.verbs

    async def _handle_subresource(self, request: HTTPRequest, info: RequestInfo) -> HTTPResponse:
        resource, verb, name = self.resource, info.verb, info.parts[2]
        declared = self.version.subresources.get(name)
        if declared is None or (len(info.parts) > 3 and not declared.connects):
            if resource.custom:
                raise not_found(resource.group_resource, info.parts[1])
            raise NoSuchResource()
        if (info.namespace != "") != resource.namespaced and not self._namespace_optional(info, True):
            return self._wrong_scope()
        if request.method == "OPTIONS" and self._is_proxy(info):
            verb = "get"  # a method without a verb, which proxies forward like all others
        if verb not in declared.verbs:
            if resource.custom and verb:
                raise method_not_allowed(resource.group_resource, verb)
            raise NoSuchMethod()
        response = await self._subresource_handler(name, declared, verb)(request, info)
        if verb in _WRITE_VERBS and response.status < 300:
            await self._scope.store.deliver()
        return response

    def _subresource_handler(self, name: str, declared: Subresource, verb: str) -> VerbHandler:
        known = self._subresources.get(name)
        if known is None or known[0] is not declared:
            known = self._subresources[name] = (declared, self._subresource_verbs(declared))
        return known[1][verb]

    def _subresource_verbs(self, declared: Subresource) -> dict[str, VerbHandler]:
        if isinstance(declared, StatusSubresource) or (
            declared.handler is None and not isinstance(declared, ScaleSubresource)
        ):
            verbs = {verb: verb if verb in ("get", "update") else "patch" for verb in declared.verbs}
            return {verb: self._storage_verbs[served_by] for verb, served_by in verbs.items()}
        handler: VerbHandler
        if isinstance(declared, ScaleSubresource):
            handler = ScaleHandler(self._scope, declared).handle
        else:
            handler = FunctionSubresourceHandler(self._scope, declared).handle
        return dict.fromkeys(declared.verbs, handler)

    def _namespace_optional(self, info: RequestInfo, named: bool) -> bool:
        """Whether the request needs no namespace (lists of all namespaces) or names itself (namespaces)."""
        if self.resource.namespaced:
            return not named and info.verb in ("list", "watch")
        return info.resource == "namespaces" and info.parts[0] == "namespaces"

    def _wrong_scope(self) -> HTTPResponse:
        """Respond to a namespaced resource without a namespace, or a cluster-scoped one with a namespace."""
        if self.resource.custom:
            return page_not_found()
        raise NoSuchMethod() if self.resource.namespaced else NoSuchResource()

    def _unsupported_verb(self, verb: str, named: bool) -> APIError:
        if self.resource.custom and verb:
            return method_not_allowed(self.resource.group_resource, verb)
        return NoSuchResource() if named and self._verbs.keys() == {"create"} else NoSuchMethod()


def _check_path_segment(name: str) -> None:
    if name in (".", ".."):
        raise BadRequest(f"Name parameter invalid: \"{name}\": may not be '{name}'")
    if "%" in name:
        raise BadRequest(f"Name parameter invalid: \"{name}\": may not contain '%'")


def deprecation_warning(resource: Resource, version: Version) -> str:
    """Return the warning for requests to a deprecated version."""
    if version.deprecation_warning:
        return version.deprecation_warning
    text = f"{resource.group}/{version.name} {resource.kind} is deprecated"
    better = [
        each.name
        for each in resource.versions
        if each.served
        and not each.deprecated
        and version_priority(each.name) < version_priority(version.name)
    ]
    if better:
        text += f"; use {resource.group}/{min(better, key=version_priority)} {resource.kind}"
    return text
