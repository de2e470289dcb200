"""Availability of extension API servers: the condition `Available` of APIServices.

Checked when an APIService, its service or its endpoints change, and every 30 seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.authentication.user import MASTERS, User
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.controller.request import Result
from kubewright.controlplane.controllers import new_controller
from kubewright.controlplane.controllers.source import resource_source
from kubewright.controlplane.in_process_clients import server_client
from kubewright.controlplane.webhooks.client import ServiceNotResolved

from .local import API_SERVICES, GROUP
from .remote import Remote, Service

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers

Verdict = tuple[str, str, str]
"""Status, reason and message of the condition."""

AGGREGATOR = User("system:kube-aggregator", (MASTERS,))
ATTEMPTS = 5
INTERVAL = 30.0
RETRY = 1.0
_decode = msgspec.json.Decoder().decode


class Availability:
    """Maintains the condition of remote APIServices; calls `changed` when availability changes."""

    def __init__(
        self,
        server: APIServer,
        informers: Informers,
        remote: Remote,
        *,
        overridden: Callable[[Service], bool],
        changed: Callable[[Object, bool], Awaitable[None]],
    ) -> None:
        self.server = server
        self.remote = remote
        self.client = server_client(server)
        self._informers = informers
        self._overridden = overridden
        self._notify = changed
        self._services: dict[str, Service] = {}
        self._failures: dict[str, int] = {}
        controller = new_controller("apiservice-availability", self._reconcile, workers=4)
        controller.watch(resource_source(informers, API_SERVICES, self._api_service_changed))
        for resource in (GroupResource("", "services"), GroupResource("", "endpoints")):
            controller.watch(resource_source(informers, resource, self._service_changed, needs="metadata"))
        slices = GroupResource("discovery.k8s.io", "endpointslices")
        controller.watch(resource_source(informers, slices, self._slice_changed, needs="events"))
        self.controllers = (controller,)

    def _api_service_changed(self, change: ObjectChange) -> Iterable[str]:
        service = Service.of(change.entry.object.get("spec") or {})
        if change.type == "DELETED" or service is None:
            self._services.pop(change.name, None)
            return
        self._services[change.name] = service
        old = change.old_object
        if old is None or old.get("spec") != change.entry.object.get("spec"):
            yield change.name

    def _service_changed(self, change: ObjectChange) -> Iterable[str]:
        return self._api_services_of(change.namespace, change.name)

    def _slice_changed(self, change: ObjectChange) -> Iterable[str]:
        if not self._services:
            return ()
        if not change.entry.raw:
            return tuple(self._services)
        labels = change.entry.object["metadata"].get("labels") or {}
        return self._api_services_of(change.namespace, labels.get("kubernetes.io/service-name", ""))

    def _api_services_of(self, namespace: str, name: str) -> Iterable[str]:
        for api_service, service in self._services.items():
            if (service.namespace, service.name) == (namespace, name):
                yield api_service

    async def _reconcile(self, name: str) -> Result | None:
        found = await self._informers.get(GROUP, "apiservices", name)
        service = Service.of(found["spec"]) if found is not None else None
        if found is None or service is None:
            return None
        live = {"apiVersion": f"{GROUP}/v1", "kind": "APIService", **found}
        status, reason, message = await self._check(live["spec"], service)
        await self._record(live, status, reason, message)
        available = status == "True"
        self._failures[name] = 0 if available else self._failures.get(name, 0) + 1
        delay = INTERVAL if available else min(RETRY * 2 ** (self._failures[name] - 1), INTERVAL)
        await self._notify(live, available)
        return Result(requeue_after=delay)

    async def _record(self, live: Object, status: str, reason: str, message: str) -> None:
        conditions = [dict(each) for each in (live.get("status") or {}).get("conditions") or ()]
        old = next((each for each in conditions if each.get("type") == "Available"), None)
        if old is None:
            old = {"type": "Available"}
            conditions.append(old)
        if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
            return
        if old.get("status") != status:
            old["lastTransitionTime"] = current_timestamp()
        old.update(status=status, reason=reason, message=message)
        live["status"] = {**(live.get("status") or {}), "conditions": conditions}
        try:
            await self.client.update_status(live)
        except NotFound:
            return

    async def _check(self, spec: Object, service: Service) -> Verdict:
        if not self._overridden(service):
            problem = await self._service_problem(service)
            if problem is not None:
                return problem
        group, version = spec.get("group") or "", spec.get("version") or ""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        # Several concurrent checks: with several endpoints, one successful response is enough.
        attempts = [asyncio.create_task(self._ask(service, path)) for _ in range(ATTEMPTS)]
        error = ""
        try:
            for done in asyncio.as_completed(attempts):
                error = await done
                if not error:
                    return "True", "Passed", "all checks passed"
        finally:
            for task in attempts:
                task.cancel()
        return "False", "FailedDiscoveryCheck", error

    async def _ask(self, service: Service, path: str) -> str:
        try:
            code, _, _ = await self.remote.get(service, path, AGGREGATOR, accept="")
        except (OSError, ServiceNotResolved) as error:
            return str(error)
        if 200 <= code < 300:
            return ""
        address = f"https://{await self.remote.address(service)}{path}"
        return f"failing or missing response from {address}: bad status from {address}: {code}"

    async def _service_problem(self, service: Service) -> Verdict | None:
        where = f'service/{service.name} in "{service.namespace}"'
        found = await self._get("", "services", service.namespace, service.name)
        if found is None:
            return "False", "ServiceNotFound", f"{where} is not present"
        spec = found.get("spec") or {}
        if (spec.get("type") or "ClusterIP") != "ClusterIP":
            return None
        port = next((each for each in spec.get("ports") or () if each.get("port") == service.port), None)
        if port is None:
            return "False", "ServicePortError", f"{where} is not listening on port {service.port}"
        slices = await self._slices(service)
        if not slices and await self._get("", "endpoints", service.namespace, service.name) is None:
            return "False", "EndpointsNotFound", f"cannot find endpointslices for {where}"
        name = port.get("name") or ""
        if slices and not any(_has_address(each, name) for each in slices):
            return (
                "False",
                "MissingEndpoints",
                f'endpointslices for {where} have no addresses with port name "{name}"',
            )
        return None

    async def _get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        store = self.server.store(group, plural)
        item = await store.storage.get(store.key(namespace, name)) if store is not None else None
        return _decode(item.value) if item is not None else None

    async def _slices(self, service: Service) -> list[Object]:
        store = self.server.store("discovery.k8s.io", "endpointslices")
        if store is None:
            return []
        page = await store.storage.list(store.range(service.namespace))
        slices = [_decode(item.value) for item in page.items]
        return [
            each
            for each in slices
            if (each["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == service.name
        ]


def _has_address(part: Object, port_name: str) -> bool:
    ready = any(
        endpoint.get("addresses") and (endpoint.get("conditions") or {}).get("ready") is not False
        for endpoint in part.get("endpoints") or ()
    )
    return ready and any((each.get("name") or "") == port_name for each in part.get("ports") or ())
