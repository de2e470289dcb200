"""IP addresses and CIDR ranges. Zones and IPv4-mapped IPv6 addresses are rejected."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Final

from kubewright.cel.checking.types import opaque_type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.address_problems import address_problem, shown
from kubewright.cel.values import Opaque, no_overload

_MAX_TEXT: Final = 64
_MAX_BITS_TEXT: Final = 18
_BITS: Final = re.compile(r"0|[1-9][0-9]*")


class IP(Opaque):
    """An address."""

    __slots__ = ("address",)
    cel_type = opaque_type("net.IP")

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self.address = address

    @property
    def cost_size(self) -> int:
        """Bytes of the address, for costs."""
        return len(self.address.packed)

    def equals(self, other: object) -> bool:
        """The same address."""
        return isinstance(other, IP) and other.address == self.address


class CIDR(Opaque):
    """An address with a prefix length."""

    __slots__ = ("interface",)
    cel_type = opaque_type("net.CIDR")

    def __init__(self, interface: IPv4Interface | IPv6Interface) -> None:
        self.interface = interface

    @property
    def cost_size(self) -> int:
        """Bytes of the prefix, for costs."""
        return (self.interface.network.prefixlen + 7) // 8

    def equals(self, other: object) -> bool:
        """The same address and prefix length."""
        return isinstance(other, CIDR) and other.interface == self.interface


def _mapped(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _zone(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and bool(address.scope_id)


def parse_ip(text: str) -> IP:
    """`ip(text)`."""
    try:
        if len(text) > _MAX_TEXT:
            raise ValueError("too long")
        address = ip_address(text)
    except ValueError:
        raise CelError(
            f"IP Address {shown(text)} parse error during conversion from string: {address_problem(text)}"
        ) from None
    if _zone(address):
        raise CelError(f"IP address {shown(text)} with zone value is not allowed")
    if _mapped(address):
        raise CelError(f"IPv4-mapped IPv6 address {shown(text)} is not allowed")
    return IP(address)


def parse_cidr(text: str) -> CIDR:
    """`cidr(text)`."""
    prefix = "network address parse error during conversion from string: "
    address, slash, bits = text.rpartition("/")
    try:
        if not slash:
            raise ValueError("no '/'")
        try:
            zone = _zone(ip_address(address[:_MAX_TEXT]))
        except ValueError:
            raise ValueError(address_problem(address)) from None
        if zone:
            raise ValueError("IPv6 zones cannot be present in a prefix")
        if not _BITS.fullmatch(bits) or len(bits) > _MAX_BITS_TEXT:
            raise ValueError(f"bad bits after slash: {shown(bits)}")
        if int(bits) > (128 if ":" in address else 32):
            raise ValueError("prefix length out of range")
        interface = ip_interface(text)
    except ValueError as error:
        raise CelError(f"{prefix}{prefix}netip.ParsePrefix({shown(text)}): {error}") from None
    if _mapped(interface.ip):
        raise CelError(f"{prefix}IPv4-mapped IPv6 address {shown(text)} is not allowed")
    return CIDR(interface)


def is_ip(text: str) -> bool:
    """`isIP(text)`."""
    try:
        parse_ip(text)
    except CelError:
        return False
    return True


def is_cidr(text: str) -> bool:
    """`isCIDR(text)`."""
    try:
        parse_cidr(text)
    except CelError:
        return False
    return True


def ip_text(value: IP) -> str:
    """The canonical form of an address."""
    return str(value.address)


def cidr_text(value: CIDR) -> str:
    """`string(cidr)`."""
    return f"{value.interface.ip}/{value.interface.network.prefixlen}"


def _canonical(text: str) -> bool:
    return ip_text(parse_ip(text)) == text


def _global_unicast(value: IP) -> bool:
    address = value.address
    broadcast = isinstance(address, IPv4Address) and int(address) == 0xFFFFFFFF
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or broadcast
    )


def _local_multicast(value: IP) -> bool:
    packed = value.address.packed
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _contains_ip(value: CIDR, ip: IP) -> bool:
    return ip.address.version == value.interface.version and ip.address in value.interface.network


def _ip_argument(text: str) -> IP:
    """Parse an address argument; an invalid one is an argument of the wrong type."""
    try:
        return parse_ip(text)
    except CelError:
        raise no_overload() from None


def _contains_cidr(value: CIDR, other: CIDR) -> bool:
    mine, theirs = value.interface.network, other.interface.network
    return mine.version == theirs.version and mine.overlaps(theirs) and mine.prefixlen <= theirs.prefixlen


def _masked(value: CIDR) -> CIDR:
    return CIDR(ip_interface(value.interface.network.with_prefixlen))


OVERLOADS: Final[list[Overload]] = [
    overload("ip", "string_to_ip", "(string) -> net.IP", parse_ip),
    overload("family", "ip_family", "net.IP.() -> int", lambda ip: ip.address.version),
    overload("ip.isCanonical", "ip_is_canonical", "(string) -> bool", _canonical),
    overload("isUnspecified", "ip_is_unspecified", "net.IP.() -> bool", lambda ip: ip.address.is_unspecified),
    overload("isLoopback", "ip_is_loopback", "net.IP.() -> bool", lambda ip: ip.address.is_loopback),
    overload("isLinkLocalMulticast", "ip_is_link_local_multicast", "net.IP.() -> bool", _local_multicast),
    overload(
        "isLinkLocalUnicast",
        "ip_is_link_local_unicast",
        "net.IP.() -> bool",
        lambda ip: ip.address.is_link_local,
    ),
    overload("isGlobalUnicast", "ip_is_global_unicast", "net.IP.() -> bool", _global_unicast),
    overload("isIP", "is_ip", "(string) -> bool", is_ip),
    overload("string", "ip_to_string", "(net.IP) -> string", ip_text),
    overload("cidr", "string_to_cidr", "(string) -> net.CIDR", parse_cidr),
    overload(
        "containsIP",
        "cidr_contains_ip_string",
        "net.CIDR.(string) -> bool",
        lambda cidr, text: _contains_ip(cidr, _ip_argument(text)),
    ),
    overload("containsIP", "cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool", _contains_ip),
    overload(
        "containsCIDR",
        "cidr_contains_cidr_string",
        "net.CIDR.(string) -> bool",
        lambda cidr, text: _contains_cidr(cidr, parse_cidr(text)),
    ),
    overload("containsCIDR", "cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool", _contains_cidr),
    overload("ip", "cidr_ip", "net.CIDR.() -> net.IP", lambda cidr: IP(cidr.interface.ip)),
    overload(
        "prefixLength",
        "cidr_prefix_length",
        "net.CIDR.() -> int",
        lambda cidr: cidr.interface.network.prefixlen,
    ),
    overload("masked", "cidr_masked", "net.CIDR.() -> net.CIDR", _masked),
    overload("isCIDR", "is_cidr", "(string) -> bool", is_cidr),
    overload("string", "cidr_to_string", "(net.CIDR) -> string", cidr_text),
]
