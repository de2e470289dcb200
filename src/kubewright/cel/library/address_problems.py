"""Error messages for invalid IP addresses and prefixes, with the wording of Go's net/netip.

Valid addresses are parsed by the standard library; these functions explain what it rejected.
"""

from __future__ import annotations

import json
import re
from typing import Final

_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_FIELDS: Final = 8


def shown(text: str) -> str:
    """Return a text in quotes."""
    return json.dumps(text, ensure_ascii=False)


def address_problem(text: str) -> str:
    """Return why a text is not an address."""
    problem, rest = _problem(text)
    return f"ParseAddr({shown(text)}): {problem}" + (f" (at {shown(rest)})" if rest else "")


def _problem(text: str) -> tuple[str, str]:
    kind = next((char for char in text if char in ".:%"), "")
    if kind == ".":
        return _four(text)
    if kind == ":":
        return _six(text)
    return ("missing IPv6 address" if kind else "unable to parse IP"), ""


def _four(text: str) -> tuple[str, str]:
    dots = 0
    octet = ""
    for position, char in enumerate(text):
        if "0" <= char <= "9":
            if octet == "0":
                return "IPv4 field has octet with leading zero", ""
            octet += char
            if int(octet) > 255:
                return "IPv4 field has value >255", ""
        elif char == ".":
            if not octet or position == len(text) - 1:
                return "IPv4 field must have at least one digit", text[position:]
            if dots == 3:
                return "IPv4 address too long", ""
            dots += 1
            octet = ""
        else:
            return "unexpected character", text[position:]
    return "IPv4 address too short", ""


def _six(text: str) -> tuple[str, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string", ""
    shortened = rest.startswith("::")
    if shortened:
        rest = rest[2:]
    fields = 0
    while fields < _FIELDS:
        match = _HEX.match(rest)
        digits = match.group() if match else ""
        if len(digits) > 4:
            return "each group must have 4 or less digits", rest
        if not digits:
            return "each colon-separated field must have at least one digit", rest
        after = rest[len(digits) :]
        if after.startswith("."):
            if not shortened and fields != _FIELDS - 2:
                return "embedded IPv4 address must replace the final 2 fields of the address", rest
            if fields > _FIELDS - 2:
                return "too many hex fields to fit an embedded IPv4 at the end of the address", rest
            return _four(rest) if _wrong_four(rest) else _too_full()
        fields += 1
        rest = after
        if not rest:
            break
        if not rest.startswith(":"):
            return "unexpected character, want colon", rest
        if len(rest) == 1:
            return "colon must be followed by more characters", rest
        rest = rest[1:]
        if rest.startswith(":"):
            if shortened:
                return "multiple :: in address", rest
            shortened = True
            rest = rest[1:]
            if not rest:
                break
    if rest:
        return "trailing garbage after address", rest
    return ("address string too short", "") if fields < _FIELDS else _too_full()


def _too_full() -> tuple[str, str]:
    return "the :: must expand to at least one field of zeros", ""


def _wrong_four(text: str) -> bool:
    octets = text.split(".")
    return len(octets) != 4 or not all(re.fullmatch(r"0|[1-9][0-9]{0,2}", o) and int(o) < 256 for o in octets)
