"""The resource quota controller: the usage of each quota, counted from stored objects.

Admission charges quotas before an object is stored. This controller counts again when a quota changes and
when objects that it counts are changed or deleted, and corrects `status.used`. While a charged write may
not be stored yet, usage is not lowered: this process knows its own writes; after a charge by another server
the controller waits `RECOUNT_DELAY`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.quotas import usage
from kubewright.controlplane.in_process_clients import controller_client

from . import Component, new_controller
from .source import all_resources_source, resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.admission.quotas.quotas import ResourceQuotas
    from kubewright.controlplane.informers import Informers


_decode = msgspec.json.Decoder().decode
RESOURCE_QUOTAS = GroupResource("", "resourcequotas")
RECOUNT_DELAY = 2.0
"""Seconds after a charge by which the charged write has succeeded or failed."""


_IN_FLIGHT_DELAY = 0.05


class QuotaController(Component):
    """Writes the status of resource quotas; a request is a namespace."""

    def __init__(self, server: APIServer, informers: Informers, plugin: ResourceQuotas | None = None) -> None:
        self.server = server
        self.client = controller_client(server, "resourcequota-controller")
        self._plugin = plugin
        self._quotas: dict[str, set[str]] = {}
        self._foreign: dict[tuple[str, str], tuple[Object, float]] = {}
        """Usage that another server has written, and when it was first seen, by quota."""
        self._controller = new_controller("resourcequota-controller", self._reconcile)
        self._controller.watch(resource_source(informers, RESOURCE_QUOTAS, self._quota_changed))
        self._controller.watch(all_resources_source(informers, self._content_changed))
        self.controllers = (self._controller,)

    def _quota_changed(self, change: ObjectChange) -> Iterable[str]:
        names = self._quotas.setdefault(change.namespace, set())
        if change.type == "DELETED":
            names.discard(change.name)
            if not names:
                self._quotas.pop(change.namespace, None)
            return
        names.add(change.name)
        old = change.old_object
        if old is not None and old.get("spec") == change.entry.object.get("spec"):
            assert self._controller.queue is not None
            self._controller.queue.add(change.namespace, after=RECOUNT_DELAY)
        else:
            yield change.namespace

    def _content_changed(self, resource: Resource, change: ObjectChange) -> Iterable[str]:
        if change.namespace not in self._quotas or change.type == "ADDED":
            return
        # A charge changes the quota itself; counting then would read the whole namespace for each create.
        if change.type == "DELETED" or resource.group_resource != RESOURCE_QUOTAS:
            yield change.namespace

    async def _reconcile(self, namespace: str) -> None:
        if self._plugin is not None:
            async with self._plugin.locks[namespace]:
                await self._count(namespace)
        else:
            await self._count(namespace)

    async def _count(self, namespace: str) -> None:
        contents: dict[str, list[Object]] = {}
        for listed in await self.client.list(RESOURCE_QUOTAS, namespace=namespace):
            quota = listed.raw
            hard = (quota.get("spec") or {}).get("hard") or {}
            used: usage.Amounts = {name: Quantity(0) for name in hard}
            for counted in self._stores_for(hard):
                resource = counted.resource.group_resource
                names = [name for name in hard if usage.concerns(resource, name)]
                for obj in await self._content(counted, namespace, contents):
                    if usage.in_scope(quota, resource, obj):
                        amounts = usage.usage(resource, obj)
                        usage.add(used, {name: amounts[name] for name in names if name in amounts})
            await self._write_status(quota, hard, used)

    def _stores_for(self, hard: Object) -> list[ResourceStore]:
        return [
            store
            for store in self.server.stores
            if store.resource.namespaced
            and "list" in store.resource.verbs
            and any(
                usage.concerns(GroupResource(store.resource.group, store.resource.plural), name)
                for name in hard
            )
        ]

    async def _content(
        self, store: ResourceStore, namespace: str, known: dict[str, list[Object]]
    ) -> list[Object]:
        found = known.get(store.prefix)
        if found is None:
            # Fails if an object cannot be decoded: the usage of the last computation stays then.
            page = await store.storage.list(store.range(namespace))
            found = known[store.prefix] = [_decode(item.value) for item in page.items]
        return found

    async def _write_status(self, quota: Object, hard: Object, used: usage.Amounts) -> None:
        status = quota.get("status") or {}
        charged = usage.quantities(status.get("used"))
        if status.get("hard") == hard and charged == used:
            return
        lowers = any(name in used and amount > used[name] for name, amount in charged.items())
        delay = self._pending_charges(quota, status.get("used") or {}) if lowers else 0.0
        if delay:
            assert self._controller.queue is not None
            self._controller.queue.add(quota["metadata"]["namespace"], after=delay)
            return
        quota["status"] = {"hard": hard, "used": {name: str(amount) for name, amount in used.items()}}
        try:
            await self.client.update_status(quota)
        except NotFound:
            return
        if self._plugin is not None:
            metadata = quota["metadata"]
            self._plugin.written[metadata["namespace"], metadata["name"]] = quota["status"]["used"]

    def _pending_charges(self, quota: Object, used: Object) -> float:
        """Return the seconds after which all writes that are charged to a quota are stored or have failed."""
        if self._plugin is None:
            return 0.0
        key = (quota["metadata"]["namespace"], quota["metadata"]["name"])
        if self._plugin.in_flight[key[0]]:
            return _IN_FLIGHT_DELAY
        if self._plugin.written.get(key) == used:
            self._foreign.pop(key, None)
            return 0.0
        now = self.server.clock()
        seen = self._foreign.get(key)
        if seen is None or seen[0] != used:
            seen = self._foreign[key] = (used, now)
        return max(0.0, seen[1] + RECOUNT_DELAY - now)
