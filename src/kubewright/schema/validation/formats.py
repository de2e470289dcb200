"""String formats: what `format` means in a schema.

Kubernetes enforces a closed list of formats, ignoring dashes (`date-time` is `datetime`); other names are
accepted and ignored. `checker` returns the predicate for a format, `known` whether it is enforced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from ipaddress import IPv6Address
from typing import Final
from unicodedata import category

from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.times import worded_nanoseconds

FormatCheck = Callable[[str], bool]


def _matches(pattern: str, flags: int = 0) -> FormatCheck:
    """Return a predicate for a pattern that is compiled on first use."""
    match: Callable[[str], re.Match[str] | None] | None = None

    def matches(text: str) -> bool:
        nonlocal match
        if match is None:
            match = re.compile(pattern, flags | re.ASCII).fullmatch
        return match(text) is not None

    return matches


def _is_bson_object_id(text: str) -> bool:
    return len(text) == 24 and _hex(text)


_hex = _matches("[0-9a-fA-F]+")
_SCHEME: Final = re.compile("([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_BAD_HOST: Final = re.compile(r'[ <>"\\^`{|}]')
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")


def _is_request_uri(text: str) -> bool:
    if not text or any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return False
    if text == "*":
        return True
    scheme = _SCHEME.fullmatch(text)
    if text[0] == ":" or (scheme is None and text[0] != "/"):
        return False
    rest = (scheme[2] if scheme else text).partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host = authority.rpartition("@")[2]
        if not _HOST.fullmatch(host) or _BAD_HOST.search(host) or _BAD_ESCAPE.search(host):
            return False
        rest = slash + path
    return _BAD_ESCAPE.search(rest) is None


_ATEXT: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x80-\U0010ffff]"
_ATOM: Final = rf"{_ATEXT}++(?:\.{_ATEXT}++)*+"
_QUOTED: Final = r'"(?:[^"\\\r\n]|\\.)*+"'
_SPEC: Final = rf"(?:{_ATOM}|{_QUOTED})@(?:{_ATOM}|\[[^\[\]\\]*\])"
_NAMED: Final = rf"(?:{_QUOTED}|[^<>@,;:\\\"\[\]()]*+)\s*+<{_SPEC}>"
# Possessive quantifiers avoid backtracking: the text is user input.
_is_address = _matches(rf"\s*+(?:{_SPEC}|{_NAMED})\s*+", re.DOTALL)


def _is_host_character(char: str) -> bool:
    """Return whether a character is a letter or symbol of any script, or a digit."""
    return char in "0123456789" or category(char)[0] in "LS"


def _is_hostname(text: str) -> bool:
    """Return whether text is a host name as Go's strfmt defines it."""
    labels = text.split(".")
    if len(text.encode()) > 255 or any(not label or len(label.encode()) > 63 for label in labels):
        return False
    if len(labels) == 1:
        return all(map(_is_host_character, text[0] + text[1:].removeprefix("-")))
    top = labels.pop()
    if len(top) < 2 or any(category(char)[0] != "L" for char in top):
        return False
    return all(
        _is_host_character(label[0])
        and _is_host_character(label[-1])
        and all(char == "-" or _is_host_character(char) for char in label)
        for label in labels
    )


def _is_dotted_quad(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(
        part.isascii() and part.isdigit() and int(part[-9:]) <= 255 for part in parts
    )


def _is_ipv6(text: str) -> bool:
    if ":" not in text or "%" in text:
        return False
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_ipv4(text: str) -> bool:
    return "." in text and (_is_dotted_quad(text) or _is_ipv6(text))


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 9:
        return False
    return (_is_dotted_quad(address) and int(bits) <= 32) or (_is_ipv6(address) and int(bits) <= 128)


_mac_octets = _matches(
    r"[0-9a-fA-F]{2}(?:(:)[0-9a-fA-F]{2}(?:\1[0-9a-fA-F]{2})*|(-)[0-9a-fA-F]{2}(?:\2[0-9a-fA-F]{2})*)"
)
_mac_words = _matches(r"[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4})+")


def _is_mac(text: str) -> bool:
    return (len(text) in (17, 23, 59) and _mac_octets(text)) or (
        len(text) in (14, 19, 49) and _mac_words(text)
    )


_ISBN_NOISE: Final = re.compile(r"[\s-]+", re.ASCII)
_isbn10 = _matches("[0-9]{9}[0-9X]")
_isbn13 = _matches("[0-9]{13}")


def _is_isbn10(text: str) -> bool:
    digits = _ISBN_NOISE.sub("", text)
    return (
        _isbn10(digits)
        and sum(weight * (10 if digit == "X" else int(digit)) for weight, digit in enumerate(digits, 1)) % 11
        == 0
    )


def _is_isbn13(text: str) -> bool:
    digits = _ISBN_NOISE.sub("", text)
    return (
        _isbn13(digits)
        and sum(int(digit) * (3 if odd % 2 else 1) for odd, digit in enumerate(digits)) % 10 == 0
    )


_card = _matches(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)


def _is_credit_card(text: str) -> bool:
    digits = "".join(char for char in text if char in "0123456789")
    if not _card(digits):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


_ssn = _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_CHANNEL: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_full_date = _matches(r"\d{4}-\d{2}-\d{2}")
_clock = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)


def _is_date(text: str) -> bool:
    if not _full_date(text):
        return False
    try:
        date(int(text[:4]) or 2000, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, t, rest = text.lower().partition("t")
    clock = _clock.fullmatch(rest.partition("t")[0])
    return (
        bool(t)
        and _is_date(day)
        and clock is not None
        and clock[1] <= "23"
        and clock[2] <= "59"
        and clock[3] <= "59"
    )


def _is_duration(text: str) -> bool:
    try:
        worded_nanoseconds(text)
    except ValueError:
        return False
    return True


_UUID: Final = "[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_ANY4: Final = "[0-9a-f]{4}"
_VARIANT: Final = "[89ab][0-9a-f]{3}"
_short_name = _matches("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_long_name = _matches(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_CHECKS: Final[dict[str, FormatCheck]] = {
    "bsonobjectid": _is_bson_object_id,
    "uri": _is_request_uri,
    "email": _is_address,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _matches(_UUID % (_ANY4, _ANY4), re.IGNORECASE),
    "uuid3": _matches(_UUID % ("3[0-9a-f]{3}", _ANY4), re.IGNORECASE),
    "uuid4": _matches(_UUID % ("4[0-9a-f]{3}", _VARIANT), re.IGNORECASE),
    "uuid5": _matches(_UUID % ("5[0-9a-f]{3}", _VARIANT), re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == 11 and _ssn(text),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)"),
    "byte": _matches("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _short_name(text),
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
}


_FORMATS_OF_1_34: Final = frozenset(("k8sshortname", "k8slongname"))


def checker(name: str) -> FormatCheck | None:
    """Return the predicate for a string format, or `None` if it is not enforced."""
    return _CHECKS.get(name.replace("-", ""))


def known(type_name: str, name: str) -> bool:
    """Return whether Kubernetes enforces this format for values of this type.

    1.35 and earlier enforce formats of strings only. Formats of a release are enforced from the next one on.
    """
    version = serving_version()
    if type_name in ("", "string"):
        plain = name.replace("-", "")
        return plain in _CHECKS and (plain not in _FORMATS_OF_1_34 or version.includes("1.35-"))
    if version.includes("-1.35"):
        return False
    if type_name == "integer":
        return name in ("int32", "int64")
    return type_name == "number" and name in ("float", "double")


def is_reported(type_name: str) -> bool:
    """Whether Kubernetes warns of unknown formats of values of this type."""
    version = serving_version()
    return version.includes("1.36-") or (type_name == "string" and version.includes("1.34-"))
