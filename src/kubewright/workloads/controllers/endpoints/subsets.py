"""The canonical form of the subsets of Endpoints: ports with the same addresses are in one subset."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kubewright.api.core.v1 import EndpointAddress, EndpointPort, EndpointSubset

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
