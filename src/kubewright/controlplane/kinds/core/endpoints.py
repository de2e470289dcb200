"""Endpoints: where a service's traffic goes, in the old form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, NONE, age_of, column, name_of
from kubewright.controlplane.kinds.validation.addresses import ip_warnings, legacy_ip_errors
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    choice,
    dns_label,
    dns_subdomain,
    endpoint_ip,
    port_number,
    qualified_name,
)
from kubewright.schema import field_errors as fe

from .podspec.containers import PROTOCOLS

_SHOWN = 3


class EndpointsStrategy(KindStrategy):
    """The rules of endpoints."""

    allow_create_on_update = True

    def default(self, version: Version, obj: Object) -> None:
        """Ports are for TCP."""
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Addresses and ports."""
        errors: Errors = []
        for position, subset in enumerate(obj.get("subsets") or ()):
            where = f"subsets[{position}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(fe.required(where, "must specify `addresses` or `notReadyAddresses`"))
            for field in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(subset.get(field) or ()):
                    errors += _address_errors(address, f"{where}.{field}[{index}]")
            ports = subset.get("ports") or []
            for index, port in enumerate(ports):
                errors += _port_errors(port, len(ports) > 1, f"{where}.ports[{index}]")
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """What was wrong already may stay."""
        return [] if obj.get("subsets") == old.get("subsets") else self.validate(op, obj)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Addresses that are written in an odd way."""
        for position, subset in enumerate(obj.get("subsets") or ()):
            for field in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(subset.get(field) or ()):
                    where = f"subsets[{position}].{field}[{index}].ip"
                    yield from ip_warnings(address.get("ip") or "", where)


def _address_errors(address: Object, path: str) -> Errors:
    value = address.get("ip") or ""
    errors = legacy_ip_errors(value, f"{path}.ip")
    if address.get("hostname"):
        errors += dns_label(address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        errors += dns_subdomain(address["nodeName"], f"{path}.nodeName")
    return errors + endpoint_ip(value, f"{path}.ip")


def _port_errors(port: Object, named: bool, path: str) -> Errors:
    name = port.get("name") or ""
    errors: Errors = []
    if not name and named:
        errors.append(fe.required(f"{path}.name", ""))
    elif name:
        errors += dns_label(name, f"{path}.name")
    errors += port_number(port.get("port") or 0, f"{path}.port")
    errors += choice(port.get("protocol"), PROTOCOLS, f"{path}.protocol")
    if port.get("appProtocol") is not None:
        errors += qualified_name(port["appProtocol"], f"{path}.appProtocol")
    return errors


def cells(obj: Object) -> list[Any]:
    """The row of endpoints."""
    targets: list[str] = []
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or [{}]:
            for address in subset.get("addresses") or ():
                host = address.get("ip") or ""
                shown = f"[{host}]" if ":" in host and port else host
                targets.append(f"{shown}:{port.get('port') or 0}" if port else host)
    text = ",".join(targets[:_SHOWN])
    if len(targets) > _SHOWN:
        text += f" + {len(targets) - _SHOWN} more..."
    return [name_of(obj), text if obj.get("subsets") else NONE, age_of(obj)]


COLUMNS = (NAME, column("Endpoints", description="Addresses and ports that traffic goes to."), AGE)
