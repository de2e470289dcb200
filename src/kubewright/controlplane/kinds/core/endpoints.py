"""Endpoints."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    Check,
    Entry,
    Enum,
    Errors,
    Range,
    Required,
    Rules,
)
from kubewright.controlplane.kinds.validation.addresses import ip_warnings, legacy_ip_errors
from kubewright.controlplane.kinds.validation.formats import (
    dns_label,
    dns_subdomain,
    endpoint_ip,
    qualified_name,
)
from kubewright.schema import field_errors as fe

from .podspec.containers import PROTOCOLS

_SHOWN_TARGETS = 3


def _check_addresses(subset: Object, path: str) -> Errors:
    if subset.get("addresses") or subset.get("notReadyAddresses"):
        return []
    return [fe.required(path, "must specify `addresses` or `notReadyAddresses`")]


def _requires_port_names(subset: Object) -> bool:
    return len(subset.get("ports") or ()) > 1


def _check_port_name(name: str, path: str, required: bool) -> Errors:
    if not name:
        return [fe.required(path, "")] if required else []
    return dns_label(name, path)


_ADDRESS: Entry = {
    "ip": Check(legacy_ip_errors, absent=""),
    "hostname": DNS_LABEL,
    "nodeName": dns_subdomain,
    "": {"ip": Check(endpoint_ip, absent="")},
}
_SUBSET = Rules(
    [
        _check_addresses,
        {"addresses[*]": _ADDRESS, "notReadyAddresses[*]": _ADDRESS},
        {
            "ports[*]": {
                "name": Check(_check_port_name, absent="", context=True),
                "port": Range(1, 65535, absent=0),
                "protocol": [Required(), Enum(*PROTOCOLS)],
                "appProtocol": qualified_name,
            }
        },
    ],
    context=_requires_port_names,
)
RULES = Rules({"subsets[*]": _SUBSET})


def _validate_update(obj: Object, old: Object) -> Errors:
    """Validate subsets that have changed; existing ones may be invalid."""
    return [] if obj.get("subsets") == old.get("subsets") else RULES(obj)


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    for index, subset in enumerate(obj.get("subsets") or ()):
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(field) or ()):
                path = f"subsets[{index}].{field}[{position}].ip"
                yield from ip_warnings(address.get("ip") or "", path)


def _targets_text(obj: Object) -> str:
    targets: list[str] = []
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or [{}]:
            for address in subset.get("addresses") or ():
                host = address.get("ip") or ""
                shown = f"[{host}]" if ":" in host and port else host
                targets.append(f"{shown}:{port.get('port') or 0}" if port else host)
    text = ",".join(targets[:_SHOWN_TARGETS])
    if len(targets) > _SHOWN_TARGETS:
        text += f" + {len(targets) - _SHOWN_TARGETS} more..."
    return text if obj.get("subsets") else NONE


KINDS = {
    "endpoints": Kind(
        default=Defaults({"subsets[*].ports[*].protocol": "TCP"}),
        validate=RULES,
        validate_update=_validate_update,
        warnings=_warnings,
        allow_create_on_update=True,
        columns=(
            column("Endpoints", _targets_text, description="Addresses and ports of the endpoints."),
            AGE,
        ),
        checks_whole_on_update=True,
        display_prefix="services/endpoints",
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    )
}
