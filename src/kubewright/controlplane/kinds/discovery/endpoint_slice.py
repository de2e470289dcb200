"""EndpointSlice."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.values.names import check_dns_label, check_dns_subdomain
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, listed, shown
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    LABEL_VALUE,
    Check,
    Entry,
    Enum,
    Errors,
    Format,
    Immutable,
    MaxItems,
    Required,
    Rules,
    Table,
    Unique,
    UpdateRules,
    When,
)
from kubewright.controlplane.kinds.validation.addresses import (
    ip_warnings,
    legacy_ip_errors,
    strict_ip_errors,
)
from kubewright.controlplane.kinds.validation.formats import (
    dns_label,
    dns_subdomain,
    endpoint_ip,
    parse_ip,
    qualified_name,
)
from kubewright.schema import field_errors as fe

_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_MAX_HINTS = 8


def _address_errors(address: str, path: str, address_type: str) -> Errors:
    if address_type == "FQDN":
        return _domain_errors(address, path)
    if address_type not in ("IPv4", "IPv6"):
        return []
    errors = legacy_ip_errors(address, path) if address_type == "IPv4" else strict_ip_errors(address, path)
    if errors:
        return errors
    parsed = parse_ip(address)
    if parsed is not None and f"IPv{parsed.version}" != address_type:
        # kube-apiserver reports this error at the list, not at the item.
        errors.append(fe.invalid(path.rpartition("[")[0], address, f"must be an {address_type} address"))
    return errors + endpoint_ip(address, path)


def _domain_errors(name: str, path: str) -> Errors:
    if not name:
        return [fe.required(path, "")]
    name = name.removesuffix(".")
    messages = check_dns_subdomain(name)
    if messages:
        return [fe.invalid(path, name, ",".join(messages))]
    if "." not in name:
        return [fe.invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in name.split("."):
        messages = check_dns_label(label)
        if messages:
            return [fe.invalid(path, label, ",".join(messages))]
    return []


def _hints(name: Format) -> Entry:
    return [MaxItems(_MAX_HINTS, stop=True), {"[*]": [Unique("name"), {"name": name}]}]


_HINTS: Table = {
    "forZones": _hints(LABEL_VALUE),
    "": When(
        lambda hints: len(hints.get("forZones") or ()) <= _MAX_HINTS,
        {"forNodes": _hints(Format(check_dns_subdomain, absent=""))},
    ),
}
RULES = Rules(
    {
        "addressType": [Required(), Enum("FQDN", "IPv4", "IPv6")],
        "ports": MaxItems(20_000, stop=True),
        "ports[*]": [
            {"name": DNS_LABEL},
            Unique("name"),
            {"protocol": Enum("SCTP", "TCP", "UDP", absent=""), "appProtocol": qualified_name},
        ],
        "endpoints": MaxItems(1000, stop=True),
        "endpoints[*]": {
            "addresses": [Required("must contain at least 1 address"), MaxItems(100)],
            "addresses[*]": Check(_address_errors, context=True),
            "nodeName": dns_subdomain,
            "hostname": dns_label,
            "hints": _HINTS,
        },
    },
    context=lambda obj: obj.get("addressType") or "",
)


def _update_errors(new: Object, old: Object) -> Errors:
    errors = RULES(new)
    if errors and new.get("endpoints") == old.get("endpoints"):
        return [error for error in errors if not error.field.startswith("endpoints")]
    return errors


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    if old is None and obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    if (obj["metadata"].get("labels") or {}).get("endpointslice.kubernetes.io/managed-by") in _CONTROLLERS:
        return
    for position, endpoint in enumerate(obj.get("endpoints") or ()):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from ip_warnings(address, f"endpoints[{position}].addresses[{index}]")


class EndpointSliceStrategy(KindStrategy):
    """Drops deprecated topology; the generation also counts changes of labels."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Drop topology."""
        _drop_topology(obj, {})

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Drop topology if the endpoints have changed."""
        if obj.get("endpoints") != old.get("endpoints"):
            _drop_topology(obj, old)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Compare everything except metadata, and the labels."""
        names = (obj.keys() | old.keys()) - {"metadata", "apiVersion", "kind"}
        labels = [each["metadata"].get("labels") or {} for each in (obj, old)]
        return labels[0] != labels[1] or any(obj.get(name) != old.get(name) for name in names)


def _drop_topology(new: Object, old: Object) -> None:
    """Remove `deprecatedTopology`; keep a node name that the old object has there."""
    known = {
        (endpoint.get("deprecatedTopology") or {}).get("kubernetes.io/hostname")
        for endpoint in old.get("endpoints") or ()
    }
    for endpoint in new.get("endpoints") or ():
        node = (endpoint.pop("deprecatedTopology", None) or {}).get("kubernetes.io/hostname")
        if node is not None and endpoint.get("nodeName") is None and node in known:
            endpoint["nodeName"] = node


def _ports_text(obj: Object) -> str:
    def text(port: Object) -> str:
        number, name = port.get("port"), port.get("name")
        return str(number) if number is not None else "*" if name is None else name

    return listed(map(text, obj.get("ports") or ()), 3)


def _addresses_text(obj: Object) -> str:
    return listed((one for each in obj.get("endpoints") or () for one in each.get("addresses") or ()), 3)


KINDS = {
    "endpointslices": Kind(
        strategy=EndpointSliceStrategy,
        default=Defaults({"ports[*].name": "", "ports[*].protocol": "TCP"}),
        validate=RULES,
        validate_update=UpdateRules(_update_errors, {"addressType": Immutable()}),
        warnings=_warnings,
        generation_fields=(),
        columns=(
            column("AddressType", shown("addressType"), description="Type of the addresses."),
            column("Ports", _ports_text, description="First ports of the endpoints."),
            column("Endpoints", _addresses_text, description="First addresses of the endpoints."),
            AGE,
        ),
    ),
}
