"""Endpoints of services with a selector (`endpoints-controller`).

Endpoints have the name and the labels of their service. They list at most 1,000 addresses; an annotation
reports that some were left out.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable

from kubewright.api.core.v1 import (
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Pod,
    Service,
)
from kubewright.api.encoding.codec import decoder
from kubewright.api.errors import APIError
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.api.objects import Struct
from kubewright.api.presence import copy_value
from kubewright.cache.stores.store import ObjectChange
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pod_control import is_namespace_terminating
from kubewright.workloads.write_intervals import WriteIntervals

from .service_pods import (
    ServiceSelectors,
    find_port,
    has_endpoints,
    is_headless,
    is_in_endpoints,
    is_pod_ready,
    pod_addresses,
    pod_hostname,
)
from .slice_controller import HEADLESS
from .trigger_times import TriggerTimes, set_trigger_time

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
CONTROLLER_NAME = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
LEADER = "control-plane.alpha.kubernetes.io/leader"
MAX_ADDRESSES = 1000
WRITE_INTERVAL = 1.0
"""Minimum seconds between writes for a service whose pods change continuously."""


class _Metadata(Struct):
    labels: dict[str, str] | None = None


class _Labels(Struct):
    metadata: _Metadata


_decode_labels = decoder(_Labels).decode


def add_endpoints_controller(manager: ComponentManager) -> None:
    """Add the controller of the Endpoints of services."""
    selectors = ServiceSelectors()
    (
        ControllerBuilder[Request](manager, "endpoints-controller")
        .watches(Service, handler=selectors.update)
        .for_(Service)
        .watches(Pod, handler=selectors.services_of_pod)
        .watches(Endpoints, handler=_managed_endpoints)
        .with_options(workers=5)
        .complete(EndpointsReconciler(manager))
    )


def _managed_endpoints(change: ObjectChange) -> Iterable[Request]:
    """Event handler for Endpoints: enqueue deleted ones and those of this controller.

    Endpoints that users create may have no service, and are not deleted.
    """
    if change.new is not None:
        labels = _decode_labels(change.new.raw).metadata.labels or {}
        if labels.get(MANAGED_BY) != CONTROLLER_NAME:
            return ()
    return (Request(*change.key),)


class EndpointsReconciler:
    """Reconciles the Endpoints of one service."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client
        self._triggers = TriggerTimes()
        self._intervals = WriteIntervals(WRITE_INTERVAL)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the Endpoints of a service into their desired state."""
        namespace, name = request.namespace, request.name
        service = await self._client.get_or_none(Service, name, namespace=namespace)
        current = await self._client.get_or_none(Endpoints, name, namespace=namespace)
        if service is None:
            self._triggers.forget(request)
            if current is not None and LEADER not in (current.metadata.annotations or {}):
                await self._client.delete(current, missing_ok=True)
            return None
        if not has_endpoints(service):
            return None
        wait = self._intervals.remaining(request)
        if wait > 0:
            return Result(requeue_after=wait)
        assert service.spec is not None
        pods = await self._client.list(Pod, namespace=namespace, labels=service.spec.selector or {})
        trigger = self._triggers.observe(service, pods)
        desired = (
            Endpoints(metadata=ObjectMeta(name=name, namespace=namespace)) if current is None else current
        )
        before = copy_value(
            (desired.subsets or [], desired.metadata.labels or {}, desired.metadata.annotations)
        )
        desired.subsets = repack_subsets(_subsets(service, pods)) or None
        annotations = dict(desired.metadata.annotations or {})
        annotations.pop(OVER_CAPACITY, None)
        if _truncate(desired.subsets or []):
            annotations[OVER_CAPACITY] = "truncated"
        labels = dict(service.metadata.labels or {})
        labels.pop(HEADLESS, None)
        if is_headless(service):
            labels[HEADLESS] = ""
        labels[MANAGED_BY] = CONTROLLER_NAME
        desired.metadata.labels = labels
        desired.metadata.annotations = annotations or None
        if current is not None and before == (desired.subsets or [], labels, desired.metadata.annotations):
            return None
        set_trigger_time(desired.metadata, trigger)
        self._intervals.record(request)
        await self._write(service, desired, create=current is None)
        return None

    async def _write(self, service: Service, endpoints: Endpoints, *, create: bool) -> None:
        place = f"{service.namespace}/{service.name}"
        try:
            await (self._client.create(endpoints) if create else self._client.update(endpoints))
        except APIError as error:
            if create and is_namespace_terminating(error):
                return
            reason, text = (
                ("FailedToCreateEndpoint", f"Failed to create endpoint for service {place}: {error}")
                if create
                else ("FailedToUpdateEndpoint", f"Failed to update endpoint {place}: {error}")
            )
            self._manager.recorder.event(endpoints, "Warning", reason, text)
            raise


def _subsets(service: Service, pods: Iterable[Pod]) -> Iterable[EndpointSubset]:
    spec = service.spec
    assert spec is not None
    publish = bool(spec.publish_not_ready_addresses)
    families = spec.ip_families or (["IPv6"] if ":" in (spec.cluster_ip or "") else ["IPv4"])
    for pod in pods:
        addresses = pod_addresses(pod, families[0])
        if not addresses or not is_in_endpoints(pod, include_terminating=publish):
            continue
        address = EndpointAddress(
            ip=addresses[0],
            hostname=pod_hostname(pod, service),
            node_name=(pod.spec.node_name if pod.spec is not None else None) or None,
            target_ref=ObjectReference(
                kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid
            ),
        )
        ports: list[EndpointPort | None] = []
        for port in spec.ports or ():
            number = find_port(pod, port)
            if number is not None:
                ports.append(
                    EndpointPort(
                        name=port.name,
                        port=number,
                        protocol=port.protocol or "TCP",
                        app_protocol=port.app_protocol,
                    )
                )
        if not spec.ports and spec.cluster_ip == "None":
            ports.append(None)
        ready = publish or is_pod_ready(pod)
        for endpoint_port in ports:
            yield EndpointSubset(
                addresses=[address] if ready else None,
                not_ready_addresses=None if ready else [address],
                ports=None if endpoint_port is None else [endpoint_port],
            )


def _truncate(subsets: list[EndpointSubset]) -> bool:
    """Limit the number of addresses, ready ones first; return whether any was removed.

    The addresses that remain are distributed over the subsets in proportion to their sizes.
    """
    ready = sum(len(each.addresses or ()) for each in subsets)
    not_ready = sum(len(each.not_ready_addresses or ()) for each in subsets)
    if ready + not_ready <= MAX_ADDRESSES:
        return False
    too_many_ready = ready > MAX_ADDRESSES
    allowed = MAX_ADDRESSES if too_many_ready else MAX_ADDRESSES - ready
    total, left = (ready if too_many_ready else not_ready), allowed
    for subset in subsets:
        listed = (subset.addresses if too_many_ready else subset.not_ready_addresses) or []
        kept = listed[: min(left, math.ceil(len(listed) / total * allowed))]
        left -= len(kept)
        if too_many_ready:
            subset.addresses, subset.not_ready_addresses = kept or None, None
        else:
            subset.not_ready_addresses = kept or None
    return True


_PortKey = tuple[str, int, str, str]
_AddressKey = tuple[str, str, bool]


def repack_subsets(subsets: Iterable[EndpointSubset]) -> list[EndpointSubset]:
    """Return the canonical form: one subset per set of addresses, sorted."""
    ports: dict[_PortKey | None, EndpointPort | None] = {}
    addresses: dict[_PortKey | None, dict[_AddressKey, EndpointAddress]] = {}
    for subset in subsets:
        for port in subset.ports or (None,):
            key = None if port is None else _port_key(port)
            ports.setdefault(key, port)
            found = addresses.setdefault(key, {})
            for ready, listed in ((True, subset.addresses), (False, subset.not_ready_addresses)):
                for address in listed or ():
                    uid = (address.target_ref.uid if address.target_ref is not None else None) or ""
                    found[(address.ip or "", uid, ready)] = address
    groups: dict[frozenset[_AddressKey], list[_PortKey | None]] = {}
    for key, found in addresses.items():
        # An address that is ready in one subset is not listed as not ready as well.
        for ip, uid, ready in list(found):
            if not ready and (ip, uid, True) in found:
                del found[(ip, uid, False)]
        groups.setdefault(frozenset(found), []).append(key)
    packed = []
    for keys in groups.values():
        found = addresses[keys[0]]
        listed_ports = [port for key in sorted(keys, key=repr) if (port := ports[key]) is not None]
        packed.append(
            EndpointSubset(
                addresses=_sorted([found[each] for each in found if each[2]]),
                not_ready_addresses=_sorted([found[each] for each in found if not each[2]]),
                ports=listed_ports or None,
            )
        )
    return sorted(packed, key=lambda each: [_port_key(port) for port in each.ports or ()])


def _port_key(port: EndpointPort) -> _PortKey:
    return port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol or ""


def _sorted(addresses: list[EndpointAddress]) -> list[EndpointAddress] | None:
    def order(address: EndpointAddress) -> tuple[bytes, str]:
        try:
            packed = ipaddress.ip_address(address.ip or "").packed
        except ValueError:
            packed = (address.ip or "").encode()
        return packed, (address.target_ref.uid if address.target_ref is not None else None) or ""

    return sorted(addresses, key=order) or None
