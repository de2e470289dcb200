"""Strategy of services: defaults, families, allocation of addresses and ports.

Addresses and node ports are allocated during validation, when the service is known to be valid, and released
after an update that does not use them or after deletion. A change of the type drops the fields that the new
type does not have.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.field_errors import FieldError
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.store import ResourceStore
from kubewright.controlplane.configuration.plane_options import DEFAULT_NODE_PORTS
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.validation import Errors
from kubewright.schema import field_errors as fe

from .allocation import ServiceAllocator, allocations
from .families import set_families
from .validation import is_headless, needs_node_ports, service_errors, service_update_errors


class ServiceStrategy(KindStrategy):
    """Strategy of services: allocates addresses and node ports during validation."""

    returns_deleted_object = True
    allow_create_on_update = True
    status_defaults_need_spec = True

    def __init__(self, kind: Kind, ports: range = DEFAULT_NODE_PORTS) -> None:
        """Initialize for one server."""
        super().__init__(kind)
        self.ports = ports
        self._allocator: ServiceAllocator | None = None

    def set_node_ports(self, ports: range) -> None:
        """Allocate node ports in another range."""
        self.ports = self.allocator.ports = ports

    def on_attach(self, store: ResourceStore) -> None:
        """Create the allocator."""
        self._allocator = ServiceAllocator(store, self.ports)

    @property
    def allocator(self) -> ServiceAllocator:
        """The allocator of addresses and ports."""
        assert self._allocator is not None, "services are not served yet"
        return self._allocator

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Names of services are host names: labels, which start with a letter in 1.35 and earlier."""
        if not serving_version().enables("RelaxedServiceNameValidation"):
            return names.check_dns_1035_label(name, prefix=prefix)
        return names.check_dns_label(name, prefix=prefix)

    def default(self, version: Version, obj: Object) -> None:
        """Apply the defaults of a service."""
        spec: Object = obj.setdefault("spec", {})
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.get("sessionAffinityConfig") or {}
            if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        external = spec["type"] in ("NodePort", "LoadBalancer") or (
            spec["type"] == "ClusterIP" and spec.get("externalIPs")
        )
        if external and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        balancer: Object = obj.setdefault("status", {}).setdefault("loadBalancer", {})
        if spec["type"] == "LoadBalancer":
            for point in balancer.get("ingress") or ():
                if point.get("ip"):
                    point.setdefault("ipMode", "VIP")

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Sync `clusterIP` and `clusterIPs`."""
        obj["status"] = {"loadBalancer": {}}
        _normalize_addresses(obj["spec"], None)
        if obj["spec"].get("type") == "ExternalName":
            obj["spec"].pop("internalTrafficPolicy", None)
        _drop_fields_of_old_type(obj["spec"], None)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Keep allocated values, and drop those of another type."""
        if op.subresource == "status":
            return
        _keep_allocated(obj["spec"], old["spec"])
        _normalize_addresses(obj["spec"], old["spec"])
        _drop_fields_of_old_type(obj["spec"], old["spec"])
        if obj["spec"].get("type") != "LoadBalancer":
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}

    async def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Validate a new service; allocate addresses and ports if it is valid."""
        await self.allocator.load()
        errors = set_families(obj["spec"], {}, self.allocator.families) or service_errors(obj, None)
        return errors or await self._allocate(op, obj, None)

    async def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Validate an update of a service or of its status."""
        if op.subresource == "status":
            from .validation import load_balancer_errors

            return load_balancer_errors(obj)
        await self.allocator.load()
        errors = set_families(obj["spec"], old["spec"], self.allocator.families)
        errors = errors or service_update_errors(obj, old) + service_errors(obj, old)
        return errors or await self._allocate(op, obj, old)

    async def _allocate(self, op: Operation, obj: Object, old: Object | None) -> Errors:
        spec, before = obj["spec"], (old or {}).get("spec") or {}
        owner = f"{op.namespace}/{obj['metadata'].get('name') or ''}"
        errors: Errors = []
        if spec.get("type") != "ExternalName" and not is_headless(spec):
            errors = await self._allocate_addresses(op, spec, before.get("clusterIPs") or [], owner)
        return errors or await self._allocate_ports(op, spec, before, owner)

    async def _allocate_addresses(self, op: Operation, spec: Object, held: list[str], owner: str) -> Errors:
        """Allocate one address for each family, that of the spec or any."""
        allocator = self.allocator
        addresses = list(spec.get("clusterIPs") or ())
        for position, family in enumerate(spec.get("ipFamilies") or ()):
            wanted = addresses[position] if position < len(addresses) else ""
            if wanted and wanted in held:
                continue
            if wanted:
                problem = ""
                if not allocator.contains(wanted):
                    problem = "the provided network does not match the current range"
                elif not await allocator.allocate_address(wanted, owner, op):
                    problem = "provided IP is already allocated"
                if problem:
                    text = f"failed to allocate IP {wanted}: {problem}"
                    return [fe.invalid("spec.clusterIPs", addresses, text)]
                continue
            address = await allocator.allocate_any_address(family, owner, op)
            if address is None:
                ranges = ", ".join(map(str, allocator.ranges(family)))
                text = f"failed to allocate a serviceIP: range is full ({ranges})"
                return [fe.internal("spec.clusterIPs", text)]
            addresses.append(address)
        if addresses:
            spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
        return []

    async def _allocate_ports(self, op: Operation, spec: Object, before: Object, owner: str) -> Errors:
        allocator = self.allocator
        held = {port.get("nodePort") for port in before.get("ports") or ()}
        given: dict[int, set[str]] = {}
        if _has_node_ports(spec):
            for position, port in enumerate(spec.get("ports") or ()):
                number, protocol = port.get("nodePort") or 0, port.get("protocol") or "TCP"
                if not number and not needs_node_ports(spec):
                    continue
                if number:
                    path = f"spec.ports[{position}].nodePort"
                    if number not in self.ports and not op.dry_run:
                        text = (
                            "provided port is not in the valid range. The range of valid ports is "
                            f"{self.ports.start}-{self.ports.stop - 1}"
                        )
                        return [fe.invalid(path, number, text)]
                    if protocol in given.get(number, ()):
                        return [fe.invalid(path, number, "provided port is already allocated")]
                    own = number in given or number in held
                    if not own and not await allocator.allocate_port(number, owner, op):
                        return [fe.invalid(path, number, "provided port is already allocated")]
                else:
                    found = await allocator.allocate_any_port(owner, op)
                    if found is None:
                        return [
                            fe.internal(
                                f"spec.ports[{position}].nodePort",
                                "failed to allocate a nodePort: range is full",
                            )
                        ]
                    number = port["nodePort"] = found
                given.setdefault(number, set()).add(protocol)
        if _needs_health_check(spec):
            number = spec.get("healthCheckNodePort") or 0
            if number and number != before.get("healthCheckNodePort"):
                if not await allocator.allocate_port(number, owner, op):
                    text = f"failed to allocate requested HealthCheck NodePort {number}"
                    why = f"{text}: provided port is already allocated"
                    return [fe.internal("spec.healthCheckNodePort", why)]
            elif not number:
                found = await allocator.allocate_any_port(owner, op)
                if found is None:
                    return [
                        fe.internal("spec.healthCheckNodePort", "failed to allocate a HealthCheck NodePort")
                    ]
                spec["healthCheckNodePort"] = found
        return []

    async def after_store(self, op: Operation, obj: Object, old: Object | None) -> None:
        """Release what the new version does not use."""
        if old is not None and old is not obj:
            addresses, ports = allocations(old)
            kept_addresses, kept_ports = allocations(obj)
            gone = [one for one in addresses if one not in kept_addresses]
            await self._release(op, obj, gone, [one for one in ports if one not in kept_ports])

    async def after_delete(self, op: Operation, obj: Object) -> None:
        """Release all addresses and ports."""
        await self._release(op, obj, *allocations(obj))

    async def _release(self, op: Operation, obj: Object, addresses: list[str], ports: list[int]) -> None:
        if addresses or ports:
            await self.allocator.release(addresses, ports, f"{op.namespace}/{obj['metadata']['name']}")

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Return the warnings about a service."""
        from .validation import service_warnings

        return () if op.subresource else service_warnings(obj)


def _normalize_addresses(spec: Object, before: Object | None) -> None:
    """Sync `clusterIP` and `clusterIPs[0]`: the changed field takes precedence."""
    single, many = spec.get("clusterIP") or "", list(spec.get("clusterIPs") or ())
    if before is None:
        if single and not many:
            spec["clusterIPs"] = [single]
        return
    old_single, old_many = before.get("clusterIP") or "", list(before.get("clusterIPs") or ())
    if single != old_single and many == old_many:
        if not single:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [single]
    elif single == old_single and old_many and not many:
        spec["clusterIPs"] = old_many


def _keep_allocated(spec: Object, before: Object) -> None:
    """Keep allocated values that an update does not set."""
    cluster = ("ClusterIP", "NodePort", "LoadBalancer")
    if spec.get("type") in cluster and before.get("type") in cluster:
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and field in before:
                spec[field] = before[field]
    if needs_node_ports(spec) and needs_node_ports(before):
        known = {port.get("name") or "": port.get("nodePort") for port in before.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = known.get(port.get("name") or "")
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    checked = _needs_health_check(spec) and _needs_health_check(before)
    if checked and not spec.get("healthCheckNodePort") and before.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _has_node_ports(spec: Object) -> bool:
    """Whether ports of this type can have node ports, even if none are allocated for it."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _needs_health_check(spec: Object) -> bool:
    return (spec.get("type"), spec.get("externalTrafficPolicy")) == ("LoadBalancer", "Local")


def _drop_fields_of_old_type(spec: Object, before: Object | None) -> None:
    """Drop unchanged fields that the new type does not have."""
    if before is None:
        return

    def same(field: str) -> bool:
        return spec.get(field) is not None and spec.get(field) == before.get(field)

    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if same(field):
                spec.pop(field)
    if _has_node_ports(before) and not _has_node_ports(spec):
        old = {port.get("nodePort") for port in before.get("ports") or ()}
        if {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")} <= old:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if _needs_health_check(before) and not _needs_health_check(spec) and same("healthCheckNodePort"):
        spec.pop("healthCheckNodePort")
    if spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if same(field):
                spec.pop(field)
    if spec.get("type") == "ExternalName" and same("internalTrafficPolicy"):
        spec.pop("internalTrafficPolicy")
    external = spec.get("type") in ("NodePort", "LoadBalancer") or spec.get("externalIPs")
    if not external and same("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy")
