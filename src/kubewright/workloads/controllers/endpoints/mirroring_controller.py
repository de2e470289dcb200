"""EndpointSlices for Endpoints that users manage (`endpointslice-mirroring-controller`).

Endpoints of services without a selector are copied to one slice per subset and IP family, unless they have
the label `endpointslice.kubernetes.io/skip-mirror=true` or belong to leader election.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kubewright.api.core.v1 import EndpointAddress, Endpoints, EndpointSubset, Service
from kubewright.api.discovery.v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubewright.api.errors import APIError
from kubewright.api.meta import ObjectMeta
from kubewright.api.owners import owner_reference
from kubewright.api.values.names import check_dns_subdomain
from kubewright.cache import ObjectChange
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pod_control import is_namespace_terminating

from .endpoints_controller import LEADER, repack_subsets
from .service_pods import selector_of_entry
from .slice_controller import MANAGED_BY, SERVICE_NAME
from .slice_packing import (
    EndpointKey,
    PortsKey,
    SliceChanges,
    endpoint_key,
    equals_except_hints,
    ports_key,
)
from .trigger_times import LAST_CHANGE

CONTROLLER_NAME = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ADDRESSES_PER_SUBSET = 1000

_Key = tuple[str, PortsKey]


def add_endpointslice_mirroring_controller(manager: ComponentManager) -> None:
    """Add the controller that copies Endpoints to EndpointSlices."""
    (
        ControllerBuilder[Request](manager, "endpointslice-mirroring-controller")
        .for_(Endpoints)
        .watches(Service, handler=_services_without_selector)
        .watches(EndpointSlice, _endpoints_of_slice)
        .with_options(workers=5)
        .complete(MirroringReconciler(manager))
    )


def _services_without_selector(change: ObjectChange) -> Iterable[Request]:
    entries = [entry for entry in (change.old, change.new) if entry is not None]
    if any(selector_of_entry(entry) is None for entry in entries):
        yield Request(*change.key)


def _endpoints_of_slice(slice_: EndpointSlice) -> Iterable[Request]:
    labels = slice_.metadata.labels or {}
    if labels.get(MANAGED_BY) == CONTROLLER_NAME and labels.get(SERVICE_NAME):
        yield Request(slice_.namespace, labels[SERVICE_NAME])


class MirroringReconciler:
    """Reconciles the slices of one Endpoints object."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client

    async def reconcile(self, request: Request) -> None:
        """Bring the mirrored slices of an Endpoints object into their desired state."""
        namespace, name = request.namespace, request.name
        labels = {SERVICE_NAME: name, MANAGED_BY: CONTROLLER_NAME}
        existing = list(await self._client.list(EndpointSlice, namespace=namespace, labels=labels))
        endpoints = await self._client.get_or_none(Endpoints, name, namespace=namespace)
        service = await self._client.get_or_none(Service, name, namespace=namespace)
        if (
            endpoints is None
            or not _is_mirrored(endpoints)
            or service is None
            or (service.spec is not None and service.spec.selector is not None)
        ):
            for slice_ in existing:
                await self._client.delete(slice_, missing_ok=True)
            return
        await self._write(endpoints, self._changes(endpoints, existing))

    def _changes(self, endpoints: Endpoints, existing: list[EndpointSlice]) -> SliceChanges:
        desired = self._desired(endpoints)
        by_key: dict[_Key, list[EndpointSlice]] = {}
        for slice_ in existing:
            by_key.setdefault((slice_.address_type or "", ports_key(slice_.ports)), []).append(slice_)
        changes = SliceChanges()
        for key, (ports, wanted) in desired.items():
            current = by_key.pop(key, [])
            if not wanted:
                changes.delete += current
                continue
            changes.delete += current[1:]
            new = _new_slice(endpoints, ports, key[0], list(wanted.values()))
            if not current:
                changes.create.append(new)
            elif not _is_current(current[0], new, wanted):
                slice_ = current[0]
                slice_.endpoints = new.endpoints
                slice_.metadata.labels = new.metadata.labels
                slice_.metadata.annotations = new.metadata.annotations
                slice_.metadata.owner_references = new.metadata.owner_references
                changes.update.append(slice_)
        changes.delete += [slice_ for slices in by_key.values() for slice_ in slices]
        changes.recycle(lambda slice_: True)
        return changes

    def _desired(
        self, endpoints: Endpoints
    ) -> dict[_Key, tuple[list[EndpointPort], dict[EndpointKey, Endpoint]]]:
        desired: dict[_Key, tuple[list[EndpointPort], dict[EndpointKey, Endpoint]]] = {}
        invalid = skipped = 0
        for subset in repack_subsets(endpoints.subsets or ()):
            ports = [
                EndpointPort(
                    name=port.name or "",
                    port=port.port,
                    protocol=port.protocol or "TCP",
                    app_protocol=port.app_protocol,
                )
                for port in subset.ports or ()
            ]
            added = 0
            for address, ready in _addresses(subset):
                endpoint, family = _endpoint(address, ready)
                if not family:
                    invalid += 1
                elif added < MAX_ADDRESSES_PER_SUBSET:
                    added += 1
                    group = desired.setdefault((family, ports_key(ports)), (ports, {}))
                    group[1][endpoint_key(endpoint)] = endpoint
                else:
                    skipped += 1
        event = self._manager.recorder.event
        if invalid:
            text = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
            event(endpoints, "Warning", "InvalidIPAddress", text)
        if skipped:
            text = (
                f"A max of {MAX_ADDRESSES_PER_SUBSET} addresses can be mirrored to EndpointSlices per "
                f"Endpoints subset. {skipped + invalid} addresses were skipped"
            )
            event(endpoints, "Warning", "TooManyAddressesToMirror", text)
        return desired

    async def _write(self, endpoints: Endpoints, changes: SliceChanges) -> None:
        try:
            if endpoints.metadata.deletion_timestamp is None:
                for slice_ in changes.create:
                    await self._client.create(slice_)
            for slice_ in changes.update:
                await self._client.update(slice_)
            for slice_ in changes.delete:
                await self._client.delete(slice_, missing_ok=True)
        except APIError as error:
            if not is_namespace_terminating(error):
                raise


def _is_mirrored(endpoints: Endpoints) -> bool:
    metadata = endpoints.metadata
    return (metadata.labels or {}).get(SKIP_MIRROR) != "true" and LEADER not in (metadata.annotations or {})


def _addresses(subset: EndpointSubset) -> Iterable[tuple[EndpointAddress, bool]]:
    for address in subset.addresses or ():
        yield address, True
    for address in subset.not_ready_addresses or ():
        yield address, False


def _endpoint(address: EndpointAddress, ready: bool) -> tuple[Endpoint, str]:
    """Return the endpoint of an address and its IP family, which is empty if the address is invalid."""
    try:
        parsed = ipaddress.ip_address(address.ip or "")
    except ValueError:
        return Endpoint(), ""
    endpoint = Endpoint(
        addresses=[str(parsed)],
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        node_name=address.node_name,
        target_ref=address.target_ref,
    )
    return endpoint, f"IPv{parsed.version}"


def _new_slice(
    endpoints: Endpoints, ports: list[EndpointPort], family: str, listed: list[Endpoint]
) -> EndpointSlice:
    prefix = f"{endpoints.name}-"
    annotations = {
        key: value
        for key, value in (endpoints.metadata.annotations or {}).items()
        if key not in (LAST_CHANGE, LAST_APPLIED)
    }
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=endpoints.name if check_dns_subdomain(prefix, prefix=True) else prefix,
            namespace=endpoints.namespace,
            labels={
                **(endpoints.metadata.labels or {}),
                SERVICE_NAME: endpoints.name,
                MANAGED_BY: CONTROLLER_NAME,
            },
            annotations=annotations or None,
            owner_references=[owner_reference(endpoints, controller=True, block_owner_deletion=True)],
        ),
        address_type=family,
        endpoints=listed,
        ports=ports,
    )


def _is_current(slice_: EndpointSlice, new: EndpointSlice, wanted: dict[EndpointKey, Endpoint]) -> bool:
    found = {endpoint_key(each): each for each in slice_.endpoints or ()}
    return (
        found.keys() == wanted.keys()
        and all(equals_except_hints(found[key], wanted[key]) for key in wanted)
        and slice_.metadata.labels == new.metadata.labels
        and (slice_.metadata.annotations or None) == new.metadata.annotations
        and [owner.uid for owner in slice_.metadata.owner_references or ()]
        == [owner.uid for owner in new.metadata.owner_references or ()]
    )
