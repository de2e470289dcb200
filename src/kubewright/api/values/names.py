"""Validation of names, and generated names.

Each `check_*` function returns a list of error messages with the wording of Kubernetes; the list is empty if
the value is valid. A *DNS label* is one part of a host name, a *DNS subdomain* several labels joined by dots.
With `prefix=True` a trailing dash is allowed, as for `generateName`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD: Final = rf"\*\.{_SUBDOMAIN}"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_ENV_NAME: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_HEADER_NAME: Final = "[-A-Za-z0-9]+"
_PERCENT: Final = "[0-9]+%"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_label_1035 = re.compile(_LABEL_1035).fullmatch
_wildcard = re.compile(_WILDCARD).fullmatch
_key = re.compile(_KEY).fullmatch
_value = re.compile(_VALUE).fullmatch
_config_key = re.compile(_CONFIG_KEY).fullmatch
_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_env_name = re.compile(_ENV_NAME).fullmatch
_header_name = re.compile(_HEADER_NAME).fullmatch
_percent = re.compile(_PERCENT).fullmatch
_port_characters = re.compile("[-a-z0-9]+").fullmatch

_ALNUM_ENDS: Final = "and must start and end with an alphanumeric character"
_KEY_RULE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"

_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated suffixes: no vowels, and none that are easily confused."""
SUFFIX_LENGTH: Final = 5
MAX_GENERATED_BASE: Final = 58
"""Length to which `generateName` is truncated before the suffix is appended."""


def _byte_length(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _rule(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} ({'e.g. ' if examples else ''}{shown}regex used for validation is '{pattern}')"


def _mask_trailing_dash(name: str) -> str:
    """Replace a trailing dash by a letter, so that a prefix can be checked as a name."""
    return name[:-2] + "a" if len(name) > 1 and name[-1] == "-" else name


def check_dns_label(value: str, *, prefix: bool = False) -> list[str]:
    """Check an RFC 1123 label, up to 63 characters: names of namespaces, containers and services."""
    if prefix:
        value = _mask_trailing_dash(value)
    wrong = [_too_long(63)] if _byte_length(value) > 63 else []
    if not _label(value):
        if _subdomain(value):
            wrong.append("must not contain dots")
        else:
            text = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                + _ALNUM_ENDS
            )
            wrong.append(_rule(text, _LABEL, "my-name", "123-abc"))
    return wrong


def check_dns_subdomain(value: str, *, prefix: bool = False, unit: str = "characters") -> list[str]:
    """Check an RFC 1123 subdomain, up to 253 characters (the unit of some kinds is bytes): most names."""
    return _check_subdomain(_mask_trailing_dash(value) if prefix else value, unit)


def _check_subdomain(value: str, unit: str) -> list[str]:
    wrong = [_too_long(253, unit)] if _byte_length(value) > 253 else []
    if not _subdomain(value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            + _ALNUM_ENDS
        )
        wrong.append(_rule(text, _SUBDOMAIN, "example.com"))
    return wrong


def check_dns_1035_label(value: str, *, prefix: bool = False) -> list[str]:
    """Check an RFC 1035 label, up to 63 characters and starting with a letter: CRD versions and resources."""
    if prefix:
        value = _mask_trailing_dash(value)
    wrong = [_too_long(63)] if _byte_length(value) > 63 else []
    if not _label_1035(value):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
            "alphabetic character, and end with an alphanumeric character"
        )
        wrong.append(_rule(text, _LABEL_1035, "my-name", "abc-123"))
    return wrong


def check_wildcard_subdomain(value: str) -> list[str]:
    """Check a wildcard subdomain: `*.` followed by a subdomain."""
    wrong = [_too_long(253)] if _byte_length(value) > 253 else []
    if not _wildcard(value):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
            "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
            "character"
        )
        wrong.append(_rule(text, _WILDCARD, "*.example.com"))
    return wrong


def check_qualified_name(value: str) -> list[str]:
    """Check a label key, annotation key or finalizer: up to 63 bytes after an optional `subdomain/`."""
    wrong: list[str] = []
    parts = value.split("/")
    if len(parts) > 2:
        text = _rule(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {text} {optional}"]
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            wrong.append("prefix part must be non-empty")
        else:
            wrong.extend(f"prefix part {message}" for message in _check_subdomain(parts[0], "bytes"))
    if not name:
        wrong.append("name part must be non-empty")
    elif _byte_length(name) > 63:
        wrong.append(f"name part {_too_long(63, 'bytes')}")
    if not _key(name):
        wrong.append(f"name part {_rule(_KEY_RULE, _KEY, 'MyName', 'my.name', '123-abc')}")
    return wrong


def check_label_value(value: str) -> list[str]:
    """Check a label value: empty, or up to 63 bytes."""
    wrong = [_too_long(63, "bytes")] if _byte_length(value) > 63 else []
    if not _value(value):
        text = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            + _ALNUM_ENDS
        )
        wrong.append(_rule(text, _VALUE, "MyValue", "my_value", "12345"))
    return wrong


def check_path_segment(value: str, *, prefix: bool = False) -> list[str]:
    """Check a name that only has to be a valid URL path segment, such as the name of an RBAC role."""
    if not prefix and value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def check_port_name(value: str) -> list[str]:
    """Check an IANA service name: names of container ports."""
    wrong = [_too_long(15)] if _byte_length(value) > 15 else []
    if not _port_characters(value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        wrong.append("must not begin or end with a hyphen")
    return wrong


def check_port_number(value: int) -> list[str]:
    """Check that a port number is from 1 to 65535."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def check_c_identifier(value: str) -> list[str]:
    """Check a C identifier."""
    if _c_identifier(value):
        return []
    text = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string of "
        "alphanumeric characters or '_'"
    )
    return [_rule(text, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def check_config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or Secret."""
    wrong = [_too_long(253)] if _byte_length(value) > 253 else []
    if not _config_key(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(_rule(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return wrong + _check_parent_directory(value)


def check_env_name(value: str) -> list[str]:
    """Check the name of an environment variable."""
    wrong: list[str] = []
    if not _env_name(value):
        text = (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or "
            "'.', and must not start with a digit"
        )
        wrong.append(_rule(text, _ENV_NAME, "my.env-name", "MY_ENV.NAME", "MyEnvName1"))
    return wrong + _check_parent_directory(value)


def _check_parent_directory(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def check_domain_prefixed_path(value: str) -> list[tuple[str, str]]:
    """Check a path such as `acme.io/foo`, a DNS subdomain and a URL path; return (part, message) pairs."""
    host, _, path = value.partition("/")
    if not host or not path:
        return [(value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    problems = [(host, text) for text in check_dns_subdomain(host)]
    if not re.fullmatch(_HTTP_PATH, path):
        problems.append((path, _rule("Invalid path", _HTTP_PATH)))
    return problems


def check_http_header_name(value: str) -> list[str]:
    """Check the name of an HTTP header."""
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [] if _header_name(value) else [_rule(text, _HEADER_NAME, "X-Header-Name")]


def check_percent(value: str) -> list[str]:
    """Check a percentage such as `25%`."""
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return [] if _percent(value) else [_rule(text, _PERCENT, "1%", "93%")]


def _choose(options: Sequence[str]) -> str:
    import secrets  # takes longer to load than everything else here, and few programs make up names

    return secrets.choice(options)


def random_suffix(length: int = SUFFIX_LENGTH, choose: Callable[[Sequence[str]], str] = _choose) -> str:
    """Return random characters of `SUFFIX_ALPHABET`."""
    return "".join(choose(SUFFIX_ALPHABET) for _ in range(length))


def generate_name(base: str, choose: Callable[[Sequence[str]], str] = _choose) -> str:
    """Return a name from `generateName`: at most 58 characters of the prefix and five random characters."""
    return base[:MAX_GENERATED_BASE] + random_suffix(choose=choose)
