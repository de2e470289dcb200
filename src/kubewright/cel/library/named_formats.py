"""Named formats: `format.dns1123Label().validate(text)` returns the errors of a text, if any."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from kubewright.api.values import names
from kubewright.cel.checking.types import opaque_type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library import url
from kubewright.cel.library.time import read_timestamp
from kubewright.cel.values import NONE, Opaque, Optional

_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Format(Opaque):
    """A format: its name, its check, and the size of its pattern for costs."""

    __slots__ = ("check", "name", "regex_size")
    cel_type = opaque_type("kubernetes.NamedFormat")

    def __init__(self, name: str, check: Callable[[str], list[str]], regex_size: int) -> None:
        self.name = name
        self.check = check
        self.regex_size = regex_size

    def equals(self, other: object) -> bool:
        """Equality by name."""
        return isinstance(other, Format) and other.name == self.name


def _uri(text: str) -> list[str]:
    problem = url.problem(text)
    return [problem] if problem else []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text.encode("ascii", "strict"), validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    if _DATE.fullmatch(text):
        try:
            read_timestamp(text)
        except CelError:
            return ["invalid date"]
        return []
    return ["invalid date"]


def _datetime(text: str) -> list[str]:
    if len(text) < 19:
        return ["invalid datetime"]
    try:
        read_timestamp(text)
    except CelError:
        return ["invalid datetime"]
    return []


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", names.check_dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", names.check_dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", names.check_dns_1035_label, 30),
    "qualifiedName": Format("QualifiedName", names.check_qualified_name, 60),
    "dns1123LabelPrefix": Format(
        "DNS1123LabelPrefix", lambda text: names.check_dns_label(text, prefix=True), 30
    ),
    "dns1123SubdomainPrefix": Format(
        "DNS1123SubdomainPrefix", lambda text: names.check_dns_subdomain(text, prefix=True), 60
    ),
    "dns1035LabelPrefix": Format(
        "DNS1035LabelPrefix", lambda text: names.check_dns_1035_label(text, prefix=True), 30
    ),
    "labelValue": Format("LabelValue", names.check_label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _uuid, 70),
    "byte": Format("byte", _byte, 84),
    "date": Format("date", _date, 71),
    "datetime": Format("datetime", _datetime, 71),
}


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(value: Format, text: str) -> Optional:
    problems = value.check(text)
    return Optional(problems) if problems else NONE


def _constant(value: Format) -> Callable[[], Format]:
    return lambda: value


_F: Final = "kubernetes.NamedFormat"
OVERLOADS: Final[list[Overload]] = [
    overload("format.named", "format-named", f"(string) -> optional({_F})", _named),
    overload("validate", "format-validate", f"{_F}.(string) -> optional(list(string))", _validate),
    *(
        overload(f"format.{name}", f"format.{name}", f"() -> {_F}", _constant(value))
        for name, value in FORMATS.items()
    ),
]
