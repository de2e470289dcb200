"""EndpointSlices of services with a selector (`endpointslice-controller`).

A service has slices per IP family and per set of port numbers, which differ between pods when a target port
is a name. A service without pods has one empty slice per IP family. Slices are owned by the service and have
its labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubewright.api.core.v1 import Node, Pod, Service
from kubewright.api.discovery.v1 import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
)
from kubewright.api.errors import APIError, Forbidden, NotFound
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.api.owners import owner_reference
from kubewright.api.values.names import check_dns_subdomain
from kubewright.cache import ObjectChange
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
from .slice_packing import EndpointKey, PortsKey, SliceChanges, endpoint_key, pack_endpoints, ports_key
from .trigger_times import TriggerTimes, set_trigger_time

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
CONTROLLER_NAME = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"
RESERVED_LABELS = (MANAGED_BY, SERVICE_NAME, HEADLESS)
MAX_ENDPOINTS_PER_SLICE = 100
WRITE_INTERVAL = 0.5
"""Minimum seconds between writes for a service whose pods change continuously."""
_CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")


def add_endpointslice_controller(
    manager: ComponentManager, *, max_endpoints_per_slice: int = MAX_ENDPOINTS_PER_SLICE
) -> None:
    """Add the controller of the EndpointSlices of services."""
    reconciler = SliceReconciler(manager, max_endpoints_per_slice)
    selectors = ServiceSelectors()
    (
        ControllerBuilder[Request](manager, "endpointslice-controller")
        .watches(Service, handler=selectors.update)
        .for_(Service)
        .watches(Pod, handler=selectors.services_of_pod)
        .watches(Node, handler=reconciler.node_changed)
        .watches(EndpointSlice, _service_of_slice)
        .with_options(workers=5)
        .complete(reconciler)
    )


def _service_of_slice(slice_: EndpointSlice) -> Iterable[Request]:
    labels = slice_.metadata.labels or {}
    if labels.get(MANAGED_BY) == CONTROLLER_NAME and labels.get(SERVICE_NAME):
        yield Request(slice_.namespace, labels[SERVICE_NAME])


class SliceReconciler:
    """Reconciles the EndpointSlices of one service."""

    def __init__(self, manager: ComponentManager, maximum: int) -> None:
        self._manager = manager
        self._client = manager.client
        self._maximum = maximum
        self._triggers = TriggerTimes()
        self._intervals = WriteIntervals(WRITE_INTERVAL)
        self._zones: dict[str, str | None] = {}
        """Zones of the existing nodes."""
        self._waiting: dict[str, set[Request]] = {}
        """Services with pods on a node that does not exist, by node."""

    def node_changed(self, change: ObjectChange) -> Iterable[Request]:
        """Event handler for nodes: record the zone, enqueue services that waited for the node."""
        name = change.key.name
        if change.new is None:
            self._zones.pop(name, None)
            return ()
        self._zones[name] = (change.new.header().metadata.labels or {}).get(ZONE)
        return self._waiting.pop(name, ())

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the slices of a service into their desired state."""
        service = await self._client.get_or_none(Service, request.name, namespace=request.namespace)
        if service is None:
            self._triggers.forget(request)
            return None
        if not has_endpoints(service):
            return None
        wait = self._intervals.remaining(request)
        if wait > 0:
            return Result(requeue_after=wait)
        assert service.spec is not None
        pods = await self._client.list(Pod, namespace=request.namespace, labels=service.spec.selector or {})
        labels = {SERVICE_NAME: request.name, MANAGED_BY: CONTROLLER_NAME}
        found = await self._client.list(EndpointSlice, namespace=request.namespace, labels=labels)
        existing = [each for each in found if each.metadata.deletion_timestamp is None]
        families = _families(service)
        trigger = self._triggers.observe(service, pods)
        changes = SliceChanges(delete=[each for each in existing if each.address_type not in families])
        for family in families:
            slices = [each for each in existing if each.address_type == family]
            changes.add(self._changes_of_family(service, pods, slices, family))
        if changes:
            self._intervals.record(request)
            await self._write(service, changes, trigger)
        return None

    def _changes_of_family(
        self, service: Service, pods: Iterable[Pod], existing: list[EndpointSlice], family: str
    ) -> SliceChanges:
        changes = SliceChanges(delete=[each for each in existing if not _is_owned(each, service)])
        by_ports: dict[PortsKey, list[EndpointSlice]] = {}
        for slice_ in existing:
            if _is_owned(slice_, service):
                by_ports.setdefault(ports_key(slice_.ports), []).append(slice_)
        desired = self._desired(service, pods, family)
        for key, (ports, endpoints) in desired.items():

            def new_slice(ports: list[EndpointPort] = ports) -> EndpointSlice:
                return _new_slice(service, ports, family)

            changes.add(
                pack_endpoints(
                    by_ports.pop(key, ()),
                    endpoints,
                    new_slice=new_slice,
                    set_labels=lambda slice_: _set_labels(slice_, service),
                    maximum=self._maximum,
                )
            )
        obsolete = [slice_ for slices in by_ports.values() for slice_ in slices]
        changes.delete += obsolete
        if len(changes.delete) == len(existing) and not changes.create:
            placeholder = _new_slice(service, [], family)
            if len(obsolete) == 1 and _is_placeholder(obsolete[0], placeholder):
                changes.delete.remove(obsolete[0])
            else:
                changes.create.append(placeholder)
        self._set_hints(service, existing, changes)
        return changes

    def _desired(
        self, service: Service, pods: Iterable[Pod], family: str
    ) -> dict[PortsKey, tuple[list[EndpointPort], dict[EndpointKey, Endpoint]]]:
        """Return the endpoints of the pods in an IP family, by their ports."""
        assert service.spec is not None
        publish = bool(service.spec.publish_not_ready_addresses)
        desired: dict[PortsKey, tuple[list[EndpointPort], dict[EndpointKey, Endpoint]]] = {}
        for pod in pods:
            if not is_in_endpoints(pod, include_terminating=True):
                continue
            ports = _endpoint_ports(service, pod)
            _, endpoints = desired.setdefault(ports_key(ports), (ports, {}))
            node = (pod.spec.node_name if pod.spec is not None else None) or ""
            if node not in self._zones and not publish:
                # The pod garbage collector deletes pods of missing nodes.
                self._waiting.setdefault(node, set()).add(Request.of(service))
                continue
            endpoint = _endpoint(service, pod, family, self._zones.get(node))
            if endpoint.addresses:
                endpoints[endpoint_key(endpoint)] = endpoint
        return desired

    def _set_hints(self, service: Service, existing: list[EndpointSlice], changes: SliceChanges) -> None:
        assert service.spec is not None
        policy = service.spec.traffic_distribution
        for slice_ in changes.create:
            _set_slice_hints(slice_, policy)
        changed = {id(each) for each in (*changes.update, *changes.delete)}
        for slice_ in existing:
            if _set_slice_hints(slice_, policy) and id(slice_) not in changed:
                changes.update.append(slice_)

    async def _write(self, service: Service, changes: SliceChanges, trigger: datetime | None) -> None:
        changes.recycle(lambda slice_: _is_owned(slice_, service))
        try:
            if service.metadata.deletion_timestamp is None:
                for slice_ in changes.create:
                    set_trigger_time(slice_.metadata, trigger)
                    await self._client.create(slice_)
            for slice_ in changes.update:
                set_trigger_time(slice_.metadata, trigger)
                await self._client.update(slice_)
            for slice_ in changes.delete:
                await self._client.delete(slice_, missing_ok=True)
        except (NotFound, Forbidden) as error:
            if not is_namespace_terminating(error):
                self._report(service, error)
                raise
        except APIError as error:
            self._report(service, error)
            raise

    def _report(self, service: Service, error: APIError) -> None:
        self._manager.recorder.event(
            service,
            "Warning",
            "FailedToUpdateEndpointSlices",
            f"Error updating Endpoint Slices for Service {service.namespace}/{service.name}: {error}",
        )


def _families(service: Service) -> list[str]:
    spec = service.spec
    assert spec is not None
    if spec.ip_families:
        return list(spec.ip_families)
    if not is_headless(service):
        return ["IPv6" if ":" in (spec.cluster_ip or "") else "IPv4"]
    return ["IPv4", "IPv6"]


def _endpoint_ports(service: Service, pod: Pod) -> list[EndpointPort]:
    found = []
    for port in (service.spec.ports if service.spec is not None else None) or ():
        number = find_port(pod, port)
        if number is not None:
            found.append(
                EndpointPort(
                    name=port.name or "",
                    port=number,
                    protocol=port.protocol or "TCP",
                    app_protocol=port.app_protocol,
                )
            )
    return found


def _endpoint(service: Service, pod: Pod, family: str, zone: str | None) -> Endpoint:
    assert service.spec is not None
    serving = is_pod_ready(pod)
    terminating = pod.metadata.deletion_timestamp is not None
    ready = bool(service.spec.publish_not_ready_addresses) or (serving and not terminating)
    return Endpoint(
        addresses=pod_addresses(pod, family),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=pod_hostname(pod, service),
        node_name=(pod.spec.node_name if pod.spec is not None else None) or None,
        target_ref=ObjectReference(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid),
        zone=zone or None,
    )


def _new_slice(service: Service, ports: list[EndpointPort], family: str) -> EndpointSlice:
    prefix = f"{service.name}-"
    slice_ = EndpointSlice(
        metadata=ObjectMeta(
            generate_name=service.name if check_dns_subdomain(prefix, prefix=True) else prefix,
            namespace=service.namespace,
            owner_references=[owner_reference(service, controller=True, block_owner_deletion=True)],
        ),
        address_type=family,
        endpoints=[],
        ports=ports,
    )
    _set_labels(slice_, service)
    return slice_


def _set_labels(slice_: EndpointSlice, service: Service) -> bool:
    """Copy the labels of the service; return whether they differed, without the reserved ones."""
    wanted = {k: v for k, v in (service.metadata.labels or {}).items() if k not in RESERVED_LABELS}
    current = {k: v for k, v in (slice_.metadata.labels or {}).items() if k not in RESERVED_LABELS}
    changed = wanted != current
    if is_headless(service):
        wanted[HEADLESS] = ""
    wanted[SERVICE_NAME] = service.name
    wanted[MANAGED_BY] = CONTROLLER_NAME
    slice_.metadata.labels = wanted
    return changed


def _is_owned(slice_: EndpointSlice, service: Service) -> bool:
    return any(owner.uid == service.metadata.uid for owner in slice_.metadata.owner_references or ())


def _is_placeholder(slice_: EndpointSlice, placeholder: EndpointSlice) -> bool:
    return not slice_.endpoints and not slice_.ports and slice_.metadata.labels == placeholder.metadata.labels


def _set_slice_hints(slice_: EndpointSlice, policy: str | None) -> bool:
    """Set the hints of the ready endpoints; return whether any changed."""
    changed = False
    for endpoint in slice_.endpoints or ():
        if policy in _CLOSE and not (endpoint.conditions is not None and endpoint.conditions.ready):
            continue
        hints = None
        if policy in _CLOSE:
            zones = [ForZone(name=endpoint.zone)] if endpoint.zone else None
            nodes = (
                [ForNode(name=endpoint.node_name)]
                if policy == "PreferSameNode" and endpoint.node_name
                else None
            )
            hints = EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None
        if endpoint.hints != hints:
            endpoint.hints = hints
            changed = True
    return changed
