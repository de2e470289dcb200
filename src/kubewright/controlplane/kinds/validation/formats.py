"""Checks of single values: numbers, names, paths, ports, addresses, percentages.

Each function returns the errors of the value at `path`, so it can be used as a hook in a table of rules.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.values import names
from kubewright.schema import field_errors as fe

from .rules import QUALIFIED_NAME, Enum, Errors, MaxLength, Minimum, Required, Unique
from .table import Rules

NON_NEGATIVE = "must be greater than or equal to 0"
MAX_INT32 = (1 << 31) - 1

_UNDERSCORED = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")


def non_negative(value: int | None, path: str) -> Errors:
    """Check that a number is not negative."""
    return [fe.invalid(path, value, NON_NEGATIVE)] if (value or 0) < 0 else []


def positive(value: int | None, path: str) -> Errors:
    """Check that a number is positive."""
    return [fe.invalid(path, value or 0, "must be greater than zero")] if (value or 0) <= 0 else []


def in_range(value: int, low: int, high: int, path: str) -> Errors:
    """Check that a number is in a range, inclusive."""
    if low <= value <= high:
        return []
    return [fe.invalid(path, value, f"must be between {low} and {high}, inclusive")]


def named(check: Callable[[str], list[str]], value: str, path: str) -> Errors:
    """Check a value with a function of `kubewright.api.values.names`."""
    return [fe.invalid(path, value, text) for text in check(value)]


def dns_label(value: str, path: str) -> Errors:
    """Check a DNS label."""
    return named(names.check_dns_label, value, path)


def dns_subdomain(value: str, path: str) -> Errors:
    """Check a DNS subdomain."""
    return named(names.check_dns_subdomain, value, path)


def dns_subdomain_with_underscores(value: str, path: str) -> Errors:
    """Check a DNS search path, whose labels may contain underscores."""
    if len(value) <= 253 and _UNDERSCORED.fullmatch(value):
        return []
    text = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
        f"validation is '{_UNDERSCORED.pattern}')"
    )
    return [fe.invalid(path, value, text)]


def qualified_name(value: str, path: str) -> Errors:
    """Check a qualified name: a name with an optional domain, such as a label key."""
    return named(names.check_qualified_name, value, path)


def choice(value: Any, allowed: Iterable[str], path: str, *, required: bool = True) -> Errors:
    """Check that a value is one of `allowed`; an empty value is reported as missing."""
    if not value:
        return [fe.required(path, "")] if required else []
    allowed = list(allowed)
    return [] if value in allowed else [fe.not_supported(path, value, allowed)]


def immutable(new: Any, old: Any, path: str) -> Errors:
    """Check that a value has not changed."""
    return [] if new == old else [fe.invalid(path, new, "field is immutable")]


def port_number(value: int, path: str) -> Errors:
    """Check a port number."""
    return [fe.invalid(path, value, text) for text in names.check_port_number(value)]


def port(value: int | str | None, path: str) -> Errors:
    """Check a port number or name."""
    if isinstance(value, str):
        return [fe.invalid(path, value, text) for text in names.check_port_name(value)]
    return port_number(value or 0, path)


def no_backsteps(value: str, path: str) -> Errors:
    """Check that a path does not contain `..`."""
    return [fe.invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def descending_path(value: str, path: str) -> Errors:
    """Check a relative path without `..`."""
    relative = [fe.invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return relative + no_backsteps(value, path)


def plain_path(value: str, path: str) -> Errors:
    """Check a relative path that does not start with `..`."""
    errors = descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(fe.invalid(path, value, "must not start with '..'"))
    return errors


def parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address, which may have leading zeros; `None` if it is invalid."""
    text = value
    if "." in value and ":" not in value:
        parts = value.split(".")
        if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
            return None
        text = ".".join(str(int(part)) for part in parts)
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def endpoint_ip(value: str, path: str) -> Errors:
    """Check an address of an endpoint: not unspecified, loopback or link-local."""
    address = parse_ip(value)
    if address is None:
        return [fe.invalid(path, value, "must be a valid IP address")]
    errors: Errors = []
    if address.is_unspecified:
        errors.append(fe.invalid(path, value, f"may not be unspecified ({value})"))
    if address.is_loopback:
        errors.append(fe.invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(
            fe.invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        )
    link_multicast = ipaddress.ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16")
    if address in link_multicast:
        errors.append(
            fe.invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        )
    return errors


def int_or_percent(value: int | str | None, path: str) -> Errors:
    """Check a number or a percentage."""
    if isinstance(value, str):
        return [fe.invalid(path, value, text) for text in names.check_percent(value)]
    return non_negative(value, path)


def amount(value: int | str | None) -> int:
    """Return the number of a count or percentage; 0 if it is absent."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits) if digits.isascii() and digits.isdigit() else 0
    return value or 0


def at_most_100_percent(value: int | str | None, path: str) -> Errors:
    """Check that a percentage is at most 100%."""
    if isinstance(value, str) and not names.check_percent(value) and amount(value) > 100:
        return [fe.invalid(path, value, "must not be greater than 100%")]
    return []


STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or"
    " 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is"
    " '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def _reason_errors(reason: str, path: str) -> Errors:
    return [] if _REASON.fullmatch(reason) else [fe.invalid(path, reason, _REASON_RULE)]


CONDITIONS = Rules(
    {
        "[*]": [
            Unique("type", at=""),
            {
                "type": QUALIFIED_NAME,
                "status": Enum(*STATUSES, absent=""),
                "observedGeneration": Minimum(0, "must be greater than or equal to zero"),
                "lastTransitionTime": Required(),
                "reason": [Required(), _reason_errors, MaxLength(1024)],
                "message": MaxLength(32 * 1024),
            },
        ]
    }
)
"""A list of conditions."""
