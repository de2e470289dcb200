"""The resource quota controller: what a namespace really uses.

Admission charges quotas before an object is stored. This counts what is there, when a quota changes and when
something that it counts comes or goes, and corrects the books.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.quantity import Quantity
from kubewright.controlplane.admission import usage

from .changes import Changes, ObjectChange
from .loop import Loop
from .requests import Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.admission.quotas import ResourceQuotas

Object = dict[str, Any]

_decode = msgspec.json.Decoder().decode
SECOND_LOOK = 2.0
"""Seconds after a charge in which the write that it was for has come or failed."""


class QuotaController:
    """Keeps `status` of resource quotas."""

    def __init__(self, server: APIServer, changes: Changes, plugin: ResourceQuotas | None = None) -> None:
        self.server = server
        self.requests = Requests(server, controller_user("resourcequota-controller"))
        self.loop: Loop[str] = Loop("resource quota controller", self._reconcile)
        self.loops = (self.loop,)
        self._plugin = plugin
        self._quotas: dict[str, set[str]] = {}
        changes.follow("", "resourcequotas", self._quota_changed)
        changes.follow_all(self._content_changed)

    def _quota_changed(self, change: ObjectChange) -> None:
        names = self._quotas.setdefault(change.namespace, set())
        if change.type == "DELETED":
            names.discard(change.name)
            if not names:
                self._quotas.pop(change.namespace, None)
            return
        names.add(change.name)
        if change.old is not None and _decode(change.old).get("spec") == change.object.get("spec"):
            self.loop.add_after(change.namespace, SECOND_LOOK)
        else:
            self.loop.add(change.namespace)

    def _content_changed(self, change: ObjectChange) -> None:
        if change.namespace in self._quotas and change.type != "ADDED":
            self.loop.add(change.namespace)

    async def _reconcile(self, namespace: str) -> None:
        if self._plugin is not None:
            async with self._plugin.locks[namespace]:
                await self._count(namespace)
        else:
            await self._count(namespace)

    async def _count(self, namespace: str) -> None:
        store = self.server.store("", "resourcequotas")
        if store is None:
            return
        listed = await self.requests.get(resource_path(store.resource, namespace))
        contents: dict[str, list[Object]] = {}
        for quota in listed["items"]:
            hard = (quota.get("spec") or {}).get("hard") or {}
            used: usage.Amounts = {name: Quantity(0) for name in hard}
            for counted in self._stores_for(hard):
                resource = counted.resource.group_resource
                names = [name for name in hard if usage.concerns(resource, name)]
                for obj in await self._content(counted, namespace, contents):
                    if usage.in_scope(quota, resource, obj):
                        amounts = usage.usage(resource, obj)
                        usage.add(used, {name: amounts[name] for name in names if name in amounts})
            await self._record(store, quota, hard, used)

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
            page = await store.storage.list(store.range(namespace))
            found = known[store.prefix] = [_decode(item.value) for item in page.items]
        return found

    async def _record(self, store: ResourceStore, quota: Object, hard: Object, used: usage.Amounts) -> None:
        status = quota.get("status") or {}
        same = status.get("hard") == hard and usage.quantities(status.get("used")) == used
        if same:
            return
        quota["status"] = {"hard": hard, "used": {name: str(amount) for name, amount in used.items()}}
        metadata = quota["metadata"]
        path = resource_path(store.resource, metadata["namespace"], metadata["name"], "status")
        quota.setdefault("apiVersion", "v1")
        quota.setdefault("kind", "ResourceQuota")
        try:
            await self.requests.update(path, quota)
        except NotFound:
            return
