"""The aggregator: group versions that extension API servers serve.

Requests for `/apis/<group>/<version>` of an APIService with a service are forwarded to that service.
Discovery and OpenAPI documents of all servers are merged, so that clients see one API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kubewright.api.gvk import version_priority
from kubewright.apiserver.encoding.negotiation import encode, negotiate, respond
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, page_not_found
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.controllers import Component

from .availability import Availability
from .documents import Documents
from .informers import AggregatedInformers
from .local import GROUP, LocalServices
from .proxy import Proxy
from .remote import Remote, Service

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers
    from kubewright.controlplane.webhooks.resolver import ServiceResolver
    from kubewright.tls.certificates import KeyPair


class Aggregator(Component):
    """APIServices of one server; `client` is the front proxy's client certificate."""

    def __init__(
        self,
        server: APIServer,
        informers: Informers,
        resolver: ServiceResolver,
        client: Callable[[], KeyPair],
    ) -> None:
        self.server = server
        self.remote = Remote(resolver, client)
        self.documents = Documents(self.remote)
        self.local = LocalServices(server, informers)
        self.informers = AggregatedInformers(server, informers)
        self._resolver = resolver
        self._specs: dict[tuple[str, str], Object] = {}
        self._proxies: dict[tuple[str, str], Proxy] = {}
        informers.add_handler(GROUP, "apiservices", self._changed)
        self.availability = Availability(
            server, informers, self.remote, overridden=self._is_overridden, changed=self._became
        )
        self.controllers = (*self.local.controllers, *self.availability.controllers)
        server.discovery.external = self._groups
        server.openapi.external = self._openapi_paths
        server.openapi.external_v2 = self.documents.swagger

    async def stop(self) -> None:
        """Stop the informers and close the connections to extension API servers."""
        await self.informers.stop()
        await self.remote.close()

    def _is_overridden(self, service: Service) -> bool:
        """Return whether the address of the service is configured, so that no Service object is required."""
        name = f"{service.name}.{service.namespace}"
        overrides = self._resolver.overrides
        return name in overrides or f"{name}:{service.port}" in overrides

    def _changed(self, change: ObjectChange) -> None:
        spec = change.entry.object.get("spec") or {}
        key = (spec.get("group") or "", spec.get("version") or "")
        service = Service.of(spec)
        if change.type == "DELETED" or service is None:
            self._withdraw(key)
            return
        self._specs[key] = spec
        proxy = self._proxies.get(key)
        if proxy is None or proxy.service != service:
            proxy = self._proxies[key] = Proxy(self.remote, service)
            for path in _paths(key):
                self.server.add_prefix_handler(path, proxy)
            if key[0]:
                self.server.add_handler(f"/apis/{key[0]}", self._group)
            self._shown_anew()
        conditions = (change.entry.object.get("status") or {}).get("conditions") or ()
        proxy.available = any(
            each.get("type") == "Available" and each.get("status") == "True" for each in conditions
        )
        self._update_informers()

    def _withdraw(self, key: tuple[str, str]) -> None:
        if self._proxies.pop(key, None) is None:
            return
        self._specs.pop(key, None)
        for path in _paths(key):
            self.server.remove_handler(path)
        if not any(group == key[0] for group, _ in self._proxies):
            self.server.remove_handler(f"/apis/{key[0]}")
        self.documents.forget(*key)
        self._shown_anew()

    def _shown_anew(self) -> None:
        self.server.discovery.invalidate()
        self.server.openapi.invalidate()
        self._update_informers()

    def _update_informers(self) -> None:
        found = []
        for group, versions in self._sorted_versions().items():
            for version in versions:
                entry = self.documents.entry(group, version)
                available = self._proxies[group, version].available and entry["freshness"] == "Current"
                found.append((group, entry, available))
        self.informers.update(found)

    async def _became(self, api_service: Object, available: bool) -> None:
        """Update discovery after an availability check."""
        spec = api_service["spec"]
        key = (spec.get("group") or "", spec.get("version") or "")
        proxy = self._proxies.get(key)
        if proxy is None:
            return
        proxy.available = available
        if available:
            if await self.documents.fetch(proxy.service, *key):
                self._shown_anew()
            else:
                self._update_informers()
        else:
            self.documents.stale(*key)
            self._shown_anew()

    # Discovery

    def _groups(self) -> Iterable[Object]:
        """Return groups of extension API servers as aggregated discovery."""
        priorities: dict[str, int] = {}
        for (group, _), spec in self._specs.items():
            priorities[group] = max(priorities.get(group, 0), spec.get("groupPriorityMinimum") or 0)
        for group, versions in self._sorted_versions().items():
            yield {
                "metadata": {"name": group},
                "versions": [self.documents.entry(group, version) for version in versions],
                "_priority": priorities[group],
            }

    def _sorted_versions(self) -> dict[str, list[str]]:
        """Return the versions of each group, in the order of preference."""
        groups: dict[str, list[tuple[int, str]]] = {}
        for (group, version), spec in self._specs.items():
            groups.setdefault(group, []).append((spec.get("versionPriority") or 0, version))
        return {
            group: [
                version
                for _, version in sorted(versions, key=lambda each: (-each[0], version_priority(each[1])))
            ]
            for group, versions in groups.items()
        }

    async def _group(self, request: HTTPRequest) -> HTTPResponse:
        """Return `/apis/<group>` for a group that an extension API server serves at least in part."""
        name = request.path.strip("/").split("/")[1]
        for group in self.server.discovery.group_list():
            if group["name"] == name:
                document = {"kind": "APIGroup", "apiVersion": "v1", **group}
                return respond(request, negotiate(request), encode(document))
        return page_not_found()

    # OpenAPI

    def _openapi_paths(self) -> Mapping[str, str]:
        found = {}
        for group, version in self._proxies:
            digest = self.documents.openapi(group, version)
            if digest:
                path = f"apis/{group}/{version}"
                found[path] = f"/openapi/v3/{path}?hash={digest}"
        return found


def _paths(key: tuple[str, str]) -> tuple[str, str]:
    group, version = key
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return path, f"/openapi/v3{path}"
