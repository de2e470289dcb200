"""Error messages of library functions for invalid values."""

# ruff: noqa: E501 - tables of cases read better in one line

from __future__ import annotations

from typing import Any

import pytest

from kubewright.cel import STRING, CelError, Env

ENV = Env({"text": STRING})


def run(expression: str, text: str) -> Any:
    return ENV.compile(expression)({"text": text})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unable to parse IP"),
        ("bad", "unable to parse IP"),
        ("%", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.02.3.4", "IPv4 field has octet with leading zero"),
        ("1..3.4", 'IPv4 field must have at least one digit (at ".3.4")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("::%", "zone must be a non-empty string"),
        ("1:2:3", "address string too short"),
        ("1:", 'colon must be followed by more characters (at ":")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2x::", 'unexpected character, want colon (at "x::")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        (
            "1:2:3.4.5.6",
            'embedded IPv4 address must replace the final 2 fields of the address (at "3.4.5.6")',
        ),
        ("::1.2.3.400", "IPv4 field has value >255"),
    ],
)
def test_invalid_address_errors(text: str, problem: str) -> None:
    with pytest.raises(CelError) as failure:
        run("string(ip(text))", text)
    assert str(failure.value) == (
        f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): {problem}'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0", "no '/'"),
        ("10.0.0/8", 'ParseAddr("10.0.0"): IPv4 address too short'),
        ("10.0.0.0/33", "prefix length out of range"),
        ("::/129", "prefix length out of range"),
        ("10.0.0.0/08", 'bad bits after slash: "08"'),
        ("10.0.0.0/", 'bad bits after slash: ""'),
        ("fe80::1%eth0/64", "IPv6 zones cannot be present in a prefix"),
    ],
)
def test_invalid_prefix_errors(text: str, problem: str) -> None:
    twice = 2 * "network address parse error during conversion from string: "
    with pytest.raises(CelError) as failure:
        run("string(cidr(text))", text)
    assert str(failure.value) == f'{twice}netip.ParsePrefix("{text}"): {problem}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty url"),
        ("https://\ntest", "net/url: invalid control character in URL"),
        ("path", "invalid URI for request"),
        ("https://example.com:80#f", 'invalid port ":80#f" after host'),
        ("https://example.com#f", 'invalid character "#" in host name'),
        ("https://a:b:1/", 'invalid port ":b:1" after host'),
        ("https://a b/", 'invalid character " " in host name'),
        ("https://%41/", 'invalid URL escape "%41"'),
        ("https://a/%zz", 'invalid URL escape "%zz"'),
        ("https://a[b/", "invalid IP-literal"),
        ("https://[1.2.3.4]/", "invalid IP-literal"),
        ("https://[::1", "missing ']' in host"),
        ("https://[::1]x", 'invalid port "x" after host'),
        ("https://[zz]/", 'invalid host: ParseAddr("zz"): unable to parse IP'),
        ("https://a b@c/", "net/url: invalid userinfo"),
    ],
)
def test_invalid_url_errors(text: str, problem: str) -> None:
    with pytest.raises(CelError) as failure:
        run("url(text)", text)
    shown = text.replace("\n", "\\n")
    assert str(failure.value) == f'URL parse error during conversion from string: parse "{shown}": {problem}'
    assert run("isURL(text)", text) is False


def test_contains_ip_with_an_invalid_address_matches_no_overload() -> None:
    assert run("cidr('10.0.0.0/8').containsIP(text)", "10.1.1.1") is True
    with pytest.raises(CelError, match=r"^no such overload$"):
        run("cidr('10.0.0.0/8').containsIP(text)", "bad")


@pytest.mark.parametrize(
    ("text", "whole", "number"),
    [
        ("1", True, 1.0),
        ("1k", True, 1000.0),
        ("1000m", False, 1.0),
        ("1.0", False, 1.0),
        ("1.5Gi", False, 1610612736.0),
        ("1Ti", True, 1099511627776.0),
        ("1Ei", False, 1152921504606846976.0),
        ("999999999999999999", True, 999999999999999999.0),
        ("9999999999999999999", False, 1e19),
    ],
)
def test_which_quantities_are_integers(text: str, whole: bool, number: float) -> None:
    assert run("quantity(text).isInteger()", text) is whole
    assert run("quantity(text).asApproximateFloat()", text) == number


def test_sums_of_quantities_stay_integers_as_long_as_they_fit() -> None:
    assert run("quantity(text).add(quantity('1Mi')).asInteger()", "1k") == 1000 + 2**20
    assert run("quantity(text).sub(3).asInteger()", "1k") == 997
    assert run("quantity(text).sub(quantity('500m')).isInteger()", "1") is False
    assert run("quantity(text).add(quantity('1Ei')).isInteger()", "1") is False
    assert run("quantity(text).add(quantity('0')).asInteger()", "7") == 7


@pytest.mark.parametrize(
    ("expression", "text", "message"),
    [
        ("quantity(text)", "10z", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("quantity(text)", "1Ki5", "unable to parse quantity's suffix"),
        ("semver(text, true)", "V1.2.3", 'Invalid character(s) found in major number "0V1"'),
        ("semver(text, true)", "1.2-rc1", "short version cannot contain PreRelease/Build meta data"),
        ("timestamp(text)", "0000-01-01T00:00:00Z", "timestamp overflow"),
        ("timestamp(text)", "0000-13-01T00:00:00Z", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("'a'.matches(text)", "\\", "error parsing regexp: trailing backslash at end of expression: ``"),
        ("text.format([1])", "%d%", "index 1 out of range"),
        ("text.format([1])", "%", "unexpected end of string"),
        ("text.format(['a'])", "%.9999f", "error during formatting: fixed-point clause can only be used on doubles, was given string"),
        (
            "text.format([1.0])",
            "%.f",
            "could not parse formatting clause: error while parsing precision: error while converting precision to integer: "
            'strconv.Atoi: parsing "": invalid syntax',
        ),
    ],
)  # fmt: skip
def test_error_messages(expression: str, text: str, message: str) -> None:
    with pytest.raises(CelError) as failure:
        run(expression, text)
    assert str(failure.value) == message


def test_number_and_time_zone_literals() -> None:
    assert run("double(text)", "0x1p4") == 16.0
    assert run("timestamp('2020-06-15T12:30:00Z').getHours(text)", "25:00") == 13


@pytest.mark.parametrize(
    ("expression", "call"),
    [
        ("dyn(1).getFullYear('UTC')", ": getFullYear(int, string)"),
        ("dyn(1).charAt(1)", ": charAt(int, int)"),
        ("dyn(text).isGreaterThan(quantity('1'))", ": isGreaterThan(string, kubernetes.Quantity)"),
        ("int(dyn([text]))", ": int(list)"),
        ("sets.contains(dyn(1), [1])", ": sets.contains(int, list)"),
        ("size(dyn(1))", ": size"),
        ("dyn(1).startsWith(text)", ""),
        ("dyn(1).matches(text)", ""),
    ],
)
def test_no_matching_overload_names_the_function(expression: str, call: str) -> None:
    with pytest.raises(CelError) as failure:
        run(expression, "x")
    assert str(failure.value) == f"no such overload{call}"
