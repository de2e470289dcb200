"""Local APIServices: one for every built-in group version and for every group version of custom resources.

Their priorities determine the order of groups in discovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from kubewright.api.errors import AlreadyExists, Forbidden, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.meta import Preconditions
from kubewright.apiserver.delegation import SIMULATED_ANNOTATION
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.controlplane.bootstrap.objects import write_missing
from kubewright.controlplane.controllers import new_controller
from kubewright.controlplane.controllers.source import resource_source
from kubewright.controlplane.in_process_clients import server_client

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers


GROUP = "apiregistration.k8s.io"
API_SERVICES = GroupResource(GROUP, "apiservices")
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"

SIMULATED_GROUPS = frozenset(("metrics.k8s.io",))
"""Groups that real clusters get from an add-on; one that is installed takes the place of this server."""

PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
    "storagemigration.k8s.io": 15800,
}
"""Priorities of built-in groups; other groups have the lowest one."""
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}


def _version_priority(group: str, version: str) -> int:
    known = _VERSIONS.get((group, version))
    if known is not None:
        return known
    return 1 if "alpha" in version else 9 if "beta" in version else 15


def local_service(group: str, version: str, *, custom: bool) -> Object:
    """Return the APIService of a local group version."""
    priority = 1000 if custom else PRIORITIES.get(group, min(PRIORITIES.values()))
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": current_timestamp(),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    spec: Object = {"version": version} if not group else {"group": group, "version": version}
    return {
        "metadata": {
            "name": f"{version}.{group}",
            "labels": {AUTOMANAGED: "true" if custom else "onstart"},
            **({"annotations": {SIMULATED_ANNOTATION: "true"}} if group in SIMULATED_GROUPS else {}),
        },
        "spec": {
            **spec,
            "groupPriorityMinimum": priority,
            "versionPriority": 100 if custom else _version_priority(group, version),
        },
        "status": {"conditions": [condition]},
    }


class LocalServices:
    """Maintains the local APIServices."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self.client = server_client(server)
        self._informers = informers
        self._resources: dict[str, dict[str, Resource]] = {}
        """Local resources by group and plural name."""
        self._controller = new_controller("local-apiservices", self._reconcile)
        self._controller.watch(resource_source(informers, API_SERVICES, self._api_service_changed))
        self.controllers = (self._controller,)
        informers.add_resource_callback(self._resources_changed)

    def served(self) -> dict[tuple[str, str], bool]:
        """Return all local group versions, and whether each belongs to custom resources."""
        return {
            (group, version): custom
            for group in self._resources
            for version, custom in self._versions(group).items()
        }

    def _versions(self, group: str) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for resource in self._resources.get(group, {}).values():
            for version in resource.versions:
                if version.served:
                    found[version.name] = found.get(version.name, True) and resource.custom
        return found

    def _update(self, resource: GroupResource) -> None:
        """Record a resource that was added, replaced or removed."""
        store = self.server.store(*resource)
        if resource.group == GROUP:
            return
        resources = self._resources.setdefault(resource.group, {})
        if store is not None:
            resources[resource.resource] = store.resource
        else:
            resources.pop(resource.resource, None)
            if not resources:
                del self._resources[resource.group]

    async def write(self) -> None:
        """Store the APIServices of built-in groups, before the server listens."""
        for store in self.server.stores:
            self._update(store.resource.group_resource)
        await write_missing(
            self.server,
            GROUP,
            "apiservices",
            [
                local_service(group, version, custom=False)
                for (group, version), custom in self.served().items()
                if not custom
            ],
        )

    def _resources_changed(self, resources: Set[GroupResource]) -> None:
        queue = self._controller.queue
        for group in {resource.group for resource in resources}:
            before = self._versions(group)
            for resource in resources:
                if resource.group == group:
                    self._update(resource)
            if queue is not None:
                for version in before.keys() ^ self._versions(group).keys():
                    queue.add((group, version))

    def _api_service_changed(self, change: ObjectChange) -> Iterable[tuple[str, str]]:
        spec = change.entry.object.get("spec") or {}
        if change.type == "DELETED" or not spec.get("service"):
            yield spec.get("group") or "", spec.get("version") or ""

    async def _reconcile(self, key: tuple[str, str]) -> None:
        group, version = key
        if group == GROUP:
            return
        custom = self._versions(group).get(version)
        name = f"{version}.{group}"
        current = await self._informers.get(GROUP, "apiservices", name)
        if custom is None:
            if current is None:
                return
            metadata = current["metadata"]
            if (metadata.get("labels") or {}).get(AUTOMANAGED) == "true":
                preconditions = Preconditions(uid=metadata["uid"])
                await self.client.delete(API_SERVICES, name, preconditions=preconditions, missing_ok=True)
            return
        wanted = local_service(group, version, custom=custom)
        types = {"apiVersion": f"{GROUP}/v1", "kind": "APIService"}
        if current is None:
            body = {**types, **wanted}
            body.pop("status")
            try:
                current = await self.client.create(body)
            except (AlreadyExists, Forbidden):
                return
        if current["spec"].get("service"):
            return
        if not (current.get("status") or {}).get("conditions"):
            body = {**types, **current, "status": wanted["status"]}
            try:
                await self.client.update_status(body)
            except NotFound:
                return
