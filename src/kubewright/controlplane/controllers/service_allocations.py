"""Repair of service allocations: cluster IPs and node ports have a record each, which belongs to one service.

A request that times out, or a server that is killed, can leave a record without a service. Every three
minutes, at start and when an IPAddress is deleted, the records are compared with the stored services and
corrected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupResource
from kubewright.controller.request import Result

from . import Component, new_controller
from .source import resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers

IP_ADDRESSES = GroupResource("networking.k8s.io", "ipaddresses")

REPAIR_INTERVAL = 180.0
"""Seconds between repairs, as in kube-apiserver."""


class ServiceAllocationRepair(Component):
    """Compares the records of addresses and node ports with the services; there is one request for all."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        controller = new_controller("service-allocation-repair", self.repair)
        controller.watch(resource_source(informers, IP_ADDRESSES, self._address_changed, needs="metadata"))
        self.controllers = (controller,)

    def _address_changed(self, change: ObjectChange) -> Iterable[str]:
        if change.type == "DELETED" or change.initial:
            yield ""

    async def repair(self, request: str = "") -> Result:
        """Correct the records of all services."""
        services = self.server.store("", "services")
        addresses = self.server.store(IP_ADDRESSES.group, IP_ADDRESSES.resource)
        assert services is not None
        assert addresses is not None
        stored = [(await each.storage.list(each.prefix, limit=2)).items for each in (services, addresses)]
        # With the service `kubernetes` alone, the kind Service is not imported.
        if any(len(items) > 1 for items in stored):
            from kubewright.controlplane.kinds.core.service.strategy import ServiceStrategy

            strategy = services.resource.strategy
            assert isinstance(strategy, ServiceStrategy)
            await strategy.allocator.repair()
        return Result(requeue_after=REPAIR_INTERVAL)
