"""ServiceCIDRs: readiness, and protection of ranges with addresses in use (`service-cidr-controller`)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kubewright.api.conditions import get_condition, set_condition
from kubewright.api.finalizers import add_finalizer, has_finalizer, remove_finalizer
from kubewright.api.meta import Condition
from kubewright.api.networking.v1 import IPAddress, ServiceCIDR, ServiceCIDRStatus
from kubewright.client.patches import has_changes
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
MANAGED_BY = "ipaddress.kubernetes.io/managed-by"
FAMILY = "ipaddress.kubernetes.io/ip-family"
ALLOCATOR = "ipallocator.k8s.io"
DELETION_GRACE_SECONDS = 10.0
"""Seconds until allocators of other API servers have seen that a range is being deleted."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def add_service_cidr_controller(manager: ComponentManager) -> None:
    """Add the controller of ServiceCIDRs."""
    reconciler = ServiceCIDRReconciler(manager)

    async def overlapping(changed: ServiceCIDR) -> Iterable[Request]:
        return [
            Request("", each.name)
            for each in await manager.client.list(ServiceCIDR)
            if any(
                one.version == other.version and one.overlaps(other)
                for one in networks(each)
                for other in networks(changed)
            )
        ]

    async def containing(address: IPAddress) -> Iterable[Request]:
        if (address.metadata.labels or {}).get(MANAGED_BY) != ALLOCATOR:
            return []
        found = await manager.client.list(ServiceCIDR)
        return [Request("", each.name) for each in found if contains(each, address.name)]

    (
        ControllerBuilder[Request](manager, "service-cidr-controller")
        .for_(ServiceCIDR)
        .watches(ServiceCIDR, overlapping)
        .watches(IPAddress, containing)
        .complete(reconciler.reconcile)
    )


def networks(cidr: ServiceCIDR) -> list[Network]:
    """Return the ranges of a ServiceCIDR; malformed ones are left out."""
    found: list[Network] = []
    for text in (cidr.spec.cidrs if cidr.spec is not None else None) or ():
        try:
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            continue
    return found


def contains(cidr: ServiceCIDR, address: str) -> bool:
    """Whether a range contains an address."""
    parsed = ipaddress.ip_address(address)
    return any(parsed in network for network in networks(cidr))


class ServiceCIDRReconciler:
    """Reconciles ServiceCIDRs."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client

    async def reconcile(self, cidr: ServiceCIDR) -> Result | None:
        """Set the condition Ready; release a range that is being deleted and no longer in use."""
        deleted_at = cidr.metadata.deletion_timestamp
        if deleted_at is None:
            if add_finalizer(cidr, FINALIZER):
                await self._client.update(cidr)
            await self._set_ready(cidr, "True", "", "Kubernetes Service CIDR is ready")
            return None
        if not await self._can_delete(cidr):
            text = (
                "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
                "ServiceCIDR"
            )
            await self._set_ready(cidr, "False", "Terminating", text)
            return None
        left = DELETION_GRACE_SECONDS - (self._manager.now() - deleted_at).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        if has_finalizer(cidr, FINALIZER):
            remove_finalizer(cidr, FINALIZER)
            await self._client.update(cidr)
        return None

    async def _set_ready(self, cidr: ServiceCIDR, status: str, reason: str, message: str) -> None:
        current = get_condition(cidr.status, "Ready")
        if current is not None and (current.status, current.reason or "", current.message) == (
            status,
            reason,
            message,
        ):
            return
        cidr.status = cidr.status or ServiceCIDRStatus()
        condition = Condition(type="Ready", status=status, reason=reason, message=message)
        set_condition(cidr.status, condition)
        if has_changes(cidr, part="status"):
            await self._client.update_status(cidr)

    async def _can_delete(self, cidr: ServiceCIDR) -> bool:
        """Whether every address in use is also in another range."""
        others = [
            each
            for each in await self._client.list(ServiceCIDR)
            if each.name != cidr.name and each.metadata.deletion_timestamp is None
        ]
        if all(
            any(
                network.version == other.version and _is_subnet(network, other)
                for each in others
                for other in networks(each)
            )
            for network in networks(cidr)
        ):
            return True
        addresses = await self._client.list(IPAddress, labels={MANAGED_BY: ALLOCATOR})
        return not any(
            contains(cidr, address.name) and not any(contains(each, address.name) for each in others)
            for address in addresses
        )


def _is_subnet(network: Network, other: Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return network.subnet_of(other)
    if isinstance(network, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return network.subnet_of(other)
    return False
