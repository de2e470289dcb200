"""IP addresses and CIDR ranges.

Legacy fields accept values that are not canonical (leading zeros, IPv4-mapped IPv6) if they are already
stored; new values must not have these forms (StrictIPCIDRValidation, enabled since 1.36). Other fields
require canonical values.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.go_format import quote
from kubewright.schema import field_errors as fe

from .formats import parse_ip
from .rules import Errors

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NOT_A_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def plain(address: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; others unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _has_leading_zeros(value: str) -> bool:
    return any(len(part) > 1 and part[0] == "0" for part in value.split(".")) and ":" not in value


def parse_range(value: str) -> tuple[Address, Network] | None:
    """Parse a CIDR value into its address and network; `None` if it is invalid."""
    text, slash, length = value.partition("/")
    address = parse_ip(text)
    if address is None or not slash or not (length.isascii() and length.isdigit()):
        return None
    if int(length) > address.max_prefixlen:
        return None
    size = int(length)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None and size >= 96:
        address, size = mapped, size - 96
    return address, ipaddress.ip_network((address, size), strict=False)


def _is_strict() -> bool:
    """Whether new values of legacy fields must have a usual form."""
    return serving_version().enables("StrictIPCIDRValidation")


def legacy_ip_errors(value: str, path: str, known: Collection[str] = ()) -> Errors:
    """Check an address in a legacy field; values in `known`, which are already stored, are accepted."""
    if value in known:
        return []
    if parse_ip(value) is None:
        return [fe.invalid(path, value, NOT_AN_ADDRESS)]
    return _unusual_ip_errors(value, path) if _is_strict() else []


def _unusual_ip_errors(value: str, path: str) -> Errors:
    address = parse_ip(value)
    if address is None:
        return [fe.invalid(path, value, NOT_AN_ADDRESS)]
    if _has_leading_zeros(value):
        return [fe.invalid(path, value, "must not have leading 0s")]
    if _is_mapped(address):
        return [fe.invalid(path, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def strict_ip_errors(value: str, path: str) -> Errors:
    """Check that an address is in canonical form."""
    errors = _unusual_ip_errors(value, path)
    if not errors and value != str(parse_ip(value)):
        errors.append(fe.invalid(path, value, f"must be in canonical form ({quote(str(parse_ip(value)))})"))
    return errors


def legacy_range_errors(value: str, path: str, known: Collection[str] = ()) -> Errors:
    """Check a CIDR range in a legacy field; values in `known`, which are already stored, are accepted."""
    if value in known:
        return []
    if parse_range(value) is None:
        return [fe.invalid(path, value, NOT_A_RANGE)]
    return _unusual_range_errors(value, path) if _is_strict() else []


def _unusual_range_errors(value: str, path: str) -> Errors:
    parsed = parse_range(value)
    if parsed is None:
        return [fe.invalid(path, value, NOT_A_RANGE)]
    text, _, length = value.partition("/")
    raw = parse_ip(text)
    assert raw is not None
    if _has_leading_zeros(text) or (len(length) > 1 and length[0] == "0"):
        return [fe.invalid(path, value, "must not have leading 0s in IP or prefix length")]
    if _is_mapped(raw):
        return [fe.invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    if parsed[0] != parsed[1].network_address:
        return [fe.invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def strict_range_errors(value: str, path: str) -> Errors:
    """Check that a CIDR range is in canonical form."""
    errors = _unusual_range_errors(value, path)
    parsed = parse_range(value)
    if not errors and parsed is not None and value != str(parsed[1]):
        errors.append(fe.invalid(path, value, f"must be in canonical form ({quote(str(parsed[1]))})"))
    return errors


def _verdict() -> str:
    """Return what warnings say about unusual forms."""
    if serving_version().includes("-1.35"):
        return "will be considered invalid in a future Kubernetes release"
    return "is invalid"


def ip_warnings(value: str, path: str) -> list[str]:
    """Return warnings about a valid address in an unusual form."""
    address = parse_ip(value)
    if address is None:
        return []
    if _has_leading_zeros(value) or _is_mapped(address):
        return [
            f"{path}: non-standard IP address {quote(value)} {_verdict()}: use {quote(str(plain(address)))}"
        ]
    if address.version == 6 and str(address) != value:
        canonical = quote(str(address))
        return [f"{path}: IPv6 address {quote(value)} should be in RFC 5952 canonical format ({canonical})"]
    return []


def range_warnings(value: str, path: str) -> list[str]:
    """Return warnings about a valid CIDR range in an unusual form."""
    parsed = parse_range(value)
    if parsed is None:
        return []
    address, network = parsed
    found = []
    if address != network.network_address:
        single = quote(f"{address}/{address.max_prefixlen}")
        found.append(
            f"{path}: CIDR value {quote(value)} is ambiguous in this context "
            f"(should be {quote(str(network))} or {single}?)"
        )
    text, _, length = value.partition("/")
    raw = parse_ip(text)
    if _has_leading_zeros(text) or (len(length) > 1 and length[0] == "0") or (raw and _is_mapped(raw)):
        found.append(
            f"{path}: non-standard CIDR value {quote(value)} {_verdict()}: use {quote(str(network))}"
        )
    if not found and network.version == 6 and str(network) != value:
        canonical = quote(str(network))
        found.append(
            f"{path}: IPv6 CIDR value {quote(value)} should be in RFC 5952 canonical format ({canonical})"
        )
    return found
