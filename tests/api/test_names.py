"""Validation of names, and generated names."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.values import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_dns_label() -> None:
    assert names.check_dns_label("a-1") == []
    assert names.check_dns_label("Bad") == [LABEL]
    assert names.check_dns_label("") == [LABEL]
    assert names.check_dns_label("a\n") == [LABEL]
    assert names.check_dns_label("a.b") == ["must not contain dots"]
    assert names.check_dns_label("a" * 64) == ["must be no more than 63 characters"]
    assert names.check_dns_label("web-") == [LABEL]
    assert names.check_dns_label("web-", prefix=True) == []


def test_dns_subdomain() -> None:
    assert names.check_dns_subdomain("a.b-c.d1") == []
    assert names.check_dns_subdomain("web-", prefix=True) == []
    assert names.check_dns_subdomain("a" * 254) == ["must be no more than 253 characters"]
    (message,) = names.check_dns_subdomain("a..b")
    assert message.startswith("a lowercase RFC 1123 subdomain must consist of")
    assert message.endswith(
        r"(e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_dns_1035_label() -> None:
    assert names.check_dns_1035_label("v1") == []
    assert names.check_dns_1035_label("1v")[0].startswith("a DNS-1035 label must consist of")
    assert names.check_dns_1035_label("v-", prefix=True) == []


def test_wildcard_subdomain() -> None:
    assert names.check_wildcard_subdomain("*.example.com") == []
    assert names.check_wildcard_subdomain("example.com")[0].startswith("a wildcard DNS-1123 subdomain must")


def test_qualified_name() -> None:
    assert names.check_qualified_name("example.com/My_name.1") == []
    assert names.check_qualified_name("") == ["name part must be non-empty", KEY]
    assert names.check_qualified_name("/a") == ["prefix part must be non-empty"]
    assert names.check_qualified_name("a" * 64) == ["name part must be no more than 63 bytes"]
    assert names.check_qualified_name("-a") == [KEY]
    assert names.check_qualified_name("Bad/a")[0].startswith("prefix part a lowercase RFC 1123 subdomain")
    (message,) = names.check_qualified_name("a/b/c")
    assert message.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


def test_label_value() -> None:
    assert names.check_label_value("") == []
    assert names.check_label_value("a_b.C-1") == []
    assert names.check_label_value("a" * 64) == ["must be no more than 63 bytes"]
    assert names.check_label_value("a b")[0].startswith("a valid label must be an empty string or consist of")


def test_path_segment() -> None:
    assert names.check_path_segment("system:controller:x") == []
    assert names.check_path_segment("..") == ["may not be '..'"]
    assert names.check_path_segment(".", prefix=True) == []
    assert names.check_path_segment("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_ports() -> None:
    assert names.check_port_name("http-2") == []
    assert names.check_port_name("-a--b" + "c" * 12) == [
        "must be no more than 15 characters",
        "must not contain consecutive hyphens",
        "must not begin or end with a hyphen",
    ]
    assert names.check_port_name("1_2") == [
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        "must contain at least one letter (a-z)",
    ]
    assert names.check_port_number(80) == []
    assert names.check_port_number(0) == ["must be between 1 and 65535, inclusive"]


def test_other_names() -> None:
    assert names.check_c_identifier("a_1") == []
    assert names.check_c_identifier("1a")[0].startswith("a valid C identifier must start")
    assert names.check_config_key("a.b") == []
    assert names.check_config_key("..a") == ["must not start with '..'"]
    assert names.check_config_key("..") == ["must not be '..'"]
    assert names.check_config_key("a b")[0].startswith("a valid config key must consist")
    assert names.check_env_name("A_B") == []
    assert names.check_env_name("1")[0].startswith("a valid environment variable name must")
    assert names.check_http_header_name("X-A") == []
    assert names.check_http_header_name("X A")[0].startswith("a valid HTTP header must")
    assert names.check_percent("10%") == []
    assert names.check_percent("10")[0].startswith("a valid percent string must")


@pytest.mark.parametrize("base", ["web-", "a" * 58, "a" * 100])
def test_generated_names(base: str) -> None:
    name = names.generate_name(base, random.Random(1).choice)
    assert len(name) <= 63
    assert name[:-5] == base[:58]
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert names.generate_name(base) != names.generate_name(base)


@given(st.text(alphabet="ab1-.A_/é\n", max_size=70))
def test_rules_are_consistent(text: str) -> None:
    if not names.check_dns_1035_label(text):
        assert not names.check_dns_label(text)
    if not names.check_dns_label(text):
        assert not names.check_dns_subdomain(text)
        assert not names.check_label_value(text)
        assert not names.check_qualified_name(text)
    if not names.check_dns_subdomain(text):
        assert not names.check_path_segment(text)
        assert "\n" not in text
