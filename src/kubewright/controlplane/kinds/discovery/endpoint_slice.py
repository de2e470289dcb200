"""Endpoint slices: `discovery.k8s.io`. The type of the addresses never changes."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.names import check_dns_label, check_dns_subdomain, check_label_value
from kubewright.apiserver.objects import Object
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, listed, shown
from kubewright.controlplane.kinds.validation.addresses import ip_warnings, legacy_ip_errors, strict_ip_errors
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    dns_label,
    endpoint_ip,
    immutable,
    named,
    parse_ip,
    qualified_name,
)
from kubewright.schema import field_errors as fe

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
PROTOCOLS = ("SCTP", "TCP", "UDP")
_OWN_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


def _default(slice_: Object) -> None:
    for port in slice_.get("ports") or ():
        if port.get("name") is None:
            port["name"] = ""
        if port.get("protocol") is None:
            port["protocol"] = "TCP"


def _errors(slice_: Object) -> Errors:
    kind = slice_.get("addressType") or ""
    errors: Errors = []
    if not kind:
        errors.append(fe.required("addressType", ""))
    elif kind not in ADDRESS_TYPES:
        errors.append(fe.not_supported("addressType", kind, ADDRESS_TYPES))
    return errors + _port_errors(slice_.get("ports") or []) + _endpoint_list_errors(slice_)


def _update_errors(new: Object, old: Object) -> Errors:
    errors = _errors(new)
    if errors and new.get("endpoints") == old.get("endpoints"):
        errors = [error for error in errors if not error.field.startswith("endpoints")]
    return errors + immutable(new.get("addressType"), old.get("addressType"), "addressType")


def _port_errors(ports: list[Object]) -> Errors:
    if len(ports) > 20_000:
        return [fe.too_many("ports", len(ports), 20_000)]
    errors: Errors = []
    seen: set[str] = set()
    for position, port in enumerate(ports):
        path, name = f"ports[{position}]", port.get("name") or ""
        if name:
            errors += dns_label(name, f"{path}.name")
        if name in seen:
            errors.append(fe.duplicate(f"{path}.name", name))
        seen.add(name)
        protocol = port.get("protocol") or ""
        if protocol not in PROTOCOLS:
            errors.append(fe.not_supported(f"{path}.protocol", protocol, PROTOCOLS))
        if port.get("appProtocol") is not None:
            errors += qualified_name(port["appProtocol"], f"{path}.appProtocol")
    return errors


def _endpoint_list_errors(slice_: Object) -> Errors:
    endpoints, kind = slice_.get("endpoints") or [], slice_.get("addressType") or ""
    if len(endpoints) > 1000:
        return [fe.too_many("endpoints", len(endpoints), 1000)]
    errors: Errors = []
    for position, endpoint in enumerate(endpoints):
        errors += _endpoint_errors(endpoint, kind, f"endpoints[{position}]")
    return errors


def _endpoint_errors(endpoint: Object, kind: str, path: str) -> Errors:
    errors: Errors = []
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.append(fe.required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > 100:
        errors.append(fe.too_many(f"{path}.addresses", len(addresses), 100))
    for position, address in enumerate(addresses):
        errors += _address_errors(address, kind, f"{path}.addresses", position)
    if endpoint.get("nodeName") is not None:
        errors += named(check_dns_subdomain, endpoint["nodeName"], f"{path}.nodeName")
    if endpoint.get("hostname") is not None:
        errors += named(check_dns_label, endpoint["hostname"], f"{path}.hostname")
    return errors + _hint_errors(endpoint.get("hints") or {}, f"{path}.hints")


def _address_errors(address: str, kind: str, path: str, position: int) -> Errors:
    where = f"{path}[{position}]"
    if kind == "FQDN":
        return _domain_errors(address, where)
    if kind not in ("IPv4", "IPv6"):
        return []
    errors = legacy_ip_errors(address, where) if kind == "IPv4" else strict_ip_errors(address, where)
    if errors:
        return errors
    parsed = parse_ip(address)
    if parsed is not None and f"IPv{parsed.version}" != kind:
        errors.append(fe.invalid(path, address, f"must be an {kind} address"))
    return errors + endpoint_ip(address, where)


def _domain_errors(name: str, path: str) -> Errors:
    if not name:
        return [fe.required(path, "")]
    name = name.removesuffix(".")
    wrong = check_dns_subdomain(name)
    if wrong:
        return [fe.invalid(path, name, ",".join(wrong))]
    if "." not in name:
        text = "should be a domain with at least two segments separated by dots"
        return [fe.invalid(path, name, text)]
    for label in name.split("."):
        wrong = check_dns_label(label)
        if wrong:
            return [fe.invalid(path, label, ",".join(wrong))]
    return []


def _hint_errors(hints: Object, path: str) -> Errors:
    errors: Errors = []
    for name, rule in (("forZones", check_label_value), ("forNodes", check_dns_subdomain)):
        wanted = hints.get(name) or []
        if len(wanted) > 8:
            return [*errors, fe.too_many(f"{path}.{name}", len(wanted), 8)]
        seen: set[str] = set()
        for position, hint in enumerate(wanted):
            where, value = f"{path}.{name}[{position}].name", hint.get("name") or ""
            if value in seen:
                errors.append(fe.duplicate(where, value))
            seen.add(value)
            errors += named(rule, value, where)
    return errors


def _warnings(slice_: Object, old: Object | None) -> Iterable[str]:
    if old is None and slice_.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    manager = (slice_["metadata"].get("labels") or {}).get("endpointslice.kubernetes.io/managed-by")
    if manager in _OWN_CONTROLLERS:
        return
    for position, endpoint in enumerate(slice_.get("endpoints") or ()):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from ip_warnings(address, f"endpoints[{position}].addresses[{index}]")


class _SliceStrategy(KindStrategy):
    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        _drop_topology(obj, None)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        if obj.get("endpoints") != old.get("endpoints"):
            _drop_topology(obj, old)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Whatever is not metadata counts, and so do labels."""
        names = (obj.keys() | old.keys()) - {"metadata", "apiVersion", "kind"}
        labels = [each["metadata"].get("labels") or {} for each in (obj, old)]
        return labels[0] != labels[1] or any(obj.get(name) != old.get(name) for name in names)


def _drop_topology(new: Object, old: Object | None) -> None:
    """Topology is gone from v1; the node that an earlier version named there is kept."""
    known = {
        (each.get("deprecatedTopology") or {}).get("kubernetes.io/hostname")
        for each in (old or {}).get("endpoints") or ()
    }
    for endpoint in new.get("endpoints") or ():
        topology = endpoint.pop("deprecatedTopology", None) or {}
        node = topology.get("kubernetes.io/hostname")
        if node is not None and endpoint.get("nodeName") is None and node in known:
            endpoint["nodeName"] = node


def _ports_text(slice_: Object) -> str:
    def text(port: Object) -> str:
        number, name = port.get("port"), port.get("name")
        return str(number) if number is not None else "*" if name is None else name

    return listed(map(text, slice_.get("ports") or ()), 3)


def _addresses_text(slice_: Object) -> str:
    every = (one for each in slice_.get("endpoints") or () for one in each.get("addresses") or ())
    return listed(every, 3)


KINDS = {
    "endpointslices": Kind(
        strategy=_SliceStrategy,
        default=_default,
        validate=_errors,
        validate_update=_update_errors,
        warnings=_warnings,
        generation_fields=(),
        columns=(
            column("AddressType", shown("addressType"), description="What kind of addresses these are."),
            column("Ports", _ports_text, description="The first ports of every endpoint."),
            column("Endpoints", _addresses_text, description="The first addresses."),
            AGE,
        ),
    ),
}
