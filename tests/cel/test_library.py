"""The functions Kubernetes adds: strings, lists, sets, patterns, URLs, networks, quantities, versions."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.cel import (
    AUTHORIZER,
    JSON_PATCH,
    AccessCheck,
    AccessDecision,
    Authorizer,
    CelCheckError,
    CelError,
    Env,
)

ENV = Env()


def run(text: str) -> Any:
    return ENV.compile(text)({})


VALUES: list[tuple[str, Any]] = [
    ("'tacocat'.charAt(3)", "o"),
    ("'tacocat'.charAt(7)", ""),
    ("'hello mellow'.indexOf('ello')", 1),
    ("'hello mellow'.indexOf('ello', 2)", 7),
    ("'hello mellow'.indexOf('')", 0),
    ("'hello mellow'.indexOf('', 50)", 12),
    ("'hello mellow'.indexOf('jello')", -1),
    ("'hello mellow'.lastIndexOf('ello')", 7),
    ("'hello mellow'.lastIndexOf('ello', 6)", 1),
    ("'hello mellow'.lastIndexOf('')", 12),
    ("['hello', 'mellow'].join()", "hellomellow"),
    ("['hello', 'mellow'].join(' ')", "hello mellow"),
    ("'TacoCÆt'.lowerAscii()", "tacocÆt"),
    ("'TacoCÆt Xii'.upperAscii()", "TACOCÆT XII"),
    ("'hello hello'.replace('he', 'we')", "wello wello"),
    ("'hello hello'.replace('he', 'we', 1)", "wello hello"),
    ("'hello'.replace('', '_')", "_h_e_l_l_o_"),
    ("'hello'.replace('l', 'x', -1)", "hexxo"),
    ("'hello hello hello'.split(' ')", ["hello", "hello", "hello"]),
    ("'hello hello hello'.split(' ', 2)", ["hello", "hello hello"]),
    ("'hello'.split(' ', 0)", []),
    ("'abc'.split('')", ["a", "b", "c"]),
    ("'abc'.split('', 2)", ["a", "bc"]),
    ("'tacocat'.substring(4)", "cat"),
    ("'tacocat'.substring(0, 4)", "taco"),
    ("' \\ttrim\\n '.trim()", "trim"),
    ("strings.quote('a \"b\"\\n')", '"a \\"b\\"\\n"'),
    ("'%s %s %s'.format([true, null, [1, 'a']])", 'true null [1, "a"]'),
    ("'%s'.format([{'b': 2, 'a': 1.5}])", '{"a":1.500000, "b":2}'),
    ("'%d%%'.format([50])", "50%"),
    ("'%.2f'.format([1234.567])", "1,234.57"),
    ("'%x %X %o %b'.format([255, 255, 8, 5])", "ff FF 10 101"),
    ("'%x'.format(['hi'])", "6869"),
    ("'abc'.contains('b')", True),
    ("'abc'.startsWith('a') && 'abc'.endsWith('c')", True),
    ("'abc'.matches('b')", True),
    ("matches('abc', '^b')", False),
    ("'a1b22'.find('[0-9]+')", "1"),
    ("'abc'.find('[0-9]+')", ""),
    ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
    ("'a1b22c3'.findAll('[0-9]+', 2)", ["1", "22"]),
    ("'a1'.findAll('[0-9]+', 0)", []),
    ("[1, 2, 2].isSorted()", True),
    ("['b', 'a'].isSorted()", False),
    ("[].isSorted()", True),
    ("[1, 2, 3].sum()", 6),
    ("[1.5, 2.5].sum()", 4.0),
    ("[].sum() == 0", True),
    ("[3, 1, 2].min()", 1),
    ("['a', 'c'].max()", "c"),
    ("[1, 2, 2].indexOf(2)", 1),
    ("[1, 2, 2].lastIndexOf(2)", 2),
    ("['a'].indexOf('z')", -1),
    ("[1, 2, 3, 4].slice(1, 3)", [2, 3]),
    ("[[1], [2, 3]].flatten()", [1, 2, 3]),
    ("[[[1]], [[2]]].flatten(2)", [1, 2]),
    ("lists.range(3)", [0, 1, 2]),
    ("[1, 2].reverse()", [2, 1]),
    ("[1, 2, 1, 3, 2].distinct()", [1, 2, 3]),
    ("['c', 'a', 'b'].sort()", ["a", "b", "c"]),
    ("[{'n': 2}, {'n': 1}].sortBy(e, e.n)", [{"n": 1}, {"n": 2}]),
    ("[1, 2].first().value() + [1, 2].last().value()", 3),
    ("[].first().hasValue()", False),
    ("sets.contains([1, 2, 3], [1, 3])", True),
    ("sets.contains([1], [1, 2])", False),
    ("sets.equivalent([1, 2, 2], [2, 1])", True),
    ("sets.intersects([1, 2], [2, 3])", True),
    ("sets.intersects([[1]], [[1], [2]])", True),
    ("isURL('https://example.com:80/path?q=1#f')", True),
    ("isURL('/absolute/path')", True),
    ("isURL('relative/path')", False),
    ("isURL('https://a:b/')", False),
    ("isURL('')", False),
    ("url('https://user@example.com:8080/p%20q?a=1&a=2&b=x+y').getScheme()", "https"),
    ("url('https://user@example.com:8080/p').getHost()", "example.com:8080"),
    ("url('https://example.com:8080/p').getHostname()", "example.com"),
    ("url('https://[::1]:80/p').getHostname()", "::1"),
    ("url('https://[::1]:80/p').getPort()", "80"),
    ("url('https://example.com/p').getPort()", ""),
    ("url('https://example.com/p#f?a=1').getEscapedPath()", "/p"),
    ("url('//host/p').getHost()", "host"),
    ("url('https://example.com/with space/').getEscapedPath()", "/with%20space/"),
    ("url('https://example.com/?a=1&a=2&b=x+y').getQuery()", {"a": ["1", "2"], "b": ["x y"]}),
    ("url('/p') == url('/p')", True),
    ("isIP('10.0.0.1') && isIP('::1')", True),
    ("isIP('010.0.0.1') || isIP('1.2.3') || isIP('fe80::1%eth0') || isIP('::ffff:1.2.3.4')", False),
    ("ip('10.0.0.1').family() + ip('::1').family()", 10),
    ("ip('127.0.0.1').isLoopback()", True),
    ("ip('0.0.0.0').isUnspecified()", True),
    ("ip('224.0.0.1').isLinkLocalMulticast()", True),
    ("ip('ff02::1').isLinkLocalMulticast()", True),
    ("ip('169.254.1.1').isLinkLocalUnicast()", True),
    ("ip('192.168.0.1').isGlobalUnicast()", True),
    ("ip('255.255.255.255').isGlobalUnicast()", False),
    ("ip.isCanonical('2001:db8::abcd')", True),
    ("ip.isCanonical('2001:DB8::ABCD')", False),
    ("string(ip('2001:DB8::ABCD'))", "2001:db8::abcd"),
    ("ip('10.0.0.1') == ip('10.0.0.1')", True),
    ("isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')", True),
    ("cidr('192.168.0.0/24').containsIP('192.168.0.7')", True),
    ("cidr('192.168.0.0/24').containsIP(ip('192.168.1.7'))", False),
    ("cidr('192.168.0.0/24').containsIP('::1')", False),
    ("cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')", True),
    ("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/8'))", False),
    ("string(cidr('192.168.1.5/24').masked())", "192.168.1.0/24"),
    ("string(cidr('192.168.1.5/24').ip())", "192.168.1.5"),
    ("cidr('::1/128').prefixLength()", 128),
    ("isQuantity('1.3Gi') && !isQuantity('1.3GiB')", True),
    ("quantity('50k').asInteger()", 50000),
    ("quantity('1.5').isInteger()", False),
    ("quantity('1000m').isInteger() || quantity('1.0').isInteger() || quantity('1.5Gi').isInteger()", False),
    ("quantity('1.5k').isInteger() && quantity('1Gi').isInteger()", True),
    ("quantity('1Gi').isGreaterThan(quantity('1G'))", True),
    ("quantity('1M').compareTo(quantity('1000k'))", 0),
    ("quantity('100m').asApproximateFloat()", 0.1),
    ("quantity('50k').add(quantity('20k')) == quantity('70k')", True),
    ("quantity('50k').sub(20000) == quantity('30k')", True),
    ("sign(quantity('-1'))", -1),
    ("isSemver('1.2.3-rc.1+build') && !isSemver('v1.2.3') && !isSemver('1.2') && !isSemver('01.2.3')", True),
    ("isSemver('v1.2', true)", True),
    ("semver('1.2.3').major() * 100 + semver('1.2.3').minor() * 10 + semver('1.2.3').patch()", 123),
    ("semver('1.0.0-alpha').isLessThan(semver('1.0.0'))", True),
    ("semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))", True),
    ("semver('v01.2', true) == semver('1.2.0')", True),
    ("semver('2.0.0').compareTo(semver('1.9.9'))", 1),
    ("format.dns1123Label().validate('good-name').hasValue()", False),
    ("format.dns1123Label().validate('Bad').value().size()", 1),
    ("format.named('uuid').value().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()", False),
    ("format.named('nope').hasValue()", False),
    ("format.byte().validate('a$').value()", ["invalid base64"]),
    ("format.date().validate('2021-13-01').value()", ["invalid date"]),
    ("format.datetime().validate('2021-01-01T00:00:00Z').hasValue()", False),
    ("format.uri().validate('nope').value()", ['parse "nope": invalid URI for request']),
    ("format.labelValue().validate('x_y').hasValue()", False),
    ("format.qualifiedName().validate('a.b/c').hasValue()", False),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[case[0] for case in VALUES])
def test_value(text: str, value: Any) -> None:
    assert run(text) == value


ERRORS = [
    ("'abc'.charAt(9)", "index out of range: 9"),
    ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
    ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
    ("[].min() == 1", "min called on empty list"),
    ("lists.range(-1)", "lists.range: size must be non-negative, got -1"),
    (
        "'%d'.format([dyn('a')])",
        "error during formatting: decimal clause can only be used on integers, was given string",
    ),
    ("'%s %s'.format([['a']][0])", "index 1 out of range"),
    ("ip('::ffff:1.2.3.4').family()", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
    ("quantity('99999999999999999999G').asInteger()", "cannot convert value to integer"),
    ("semver('1.2').major()", "No Major.Minor.Patch elements found"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[case[0] for case in ERRORS])
def test_error(text: str, message: str) -> None:
    with pytest.raises(CelError) as caught:
        run(text)
    assert str(caught.value) == message


def test_authorizer_checks() -> None:
    asked: list[AccessCheck] = []

    def decide(question: AccessCheck) -> AccessDecision:
        asked.append(question)
        return AccessDecision(question.verb == "get", reason="because")

    env = Env({"authorizer": AUTHORIZER})
    program = env.compile(
        "authorizer.serviceAccount('ns', 'sa').group('apps').resource('deployments').subresource('scale')"
        ".namespace('default').name('web').check('get').allowed()"
    )
    assert program({"authorizer": Authorizer(decide)}) is True
    assert (
        env.compile("authorizer.path('/healthz').check('post').reason()")({"authorizer": Authorizer(decide)})
        == "because"
    )
    assert asked[0] == AccessCheck(
        verb="get",
        group="apps",
        resource="deployments",
        subresource="scale",
        namespace="default",
        name="web",
        service_account=("ns", "sa"),
    )
    assert asked[1].path == "/healthz"


def test_the_cost_limit_allows_two_access_checks() -> None:
    env = Env({"authorizer": AUTHORIZER})
    check = "authorizer.path('/a').check('get').allowed()"
    variables = {"authorizer": Authorizer(lambda check: AccessDecision(True))}
    assert env.compile(f"{check} && {check}")(variables)
    with pytest.raises(Exception, match="cost limit exceeded"):
        env.compile(f"{check} && {check} && {check}")(variables)


def test_constant_formats_are_checked_before_they_run() -> None:
    for text, message in (
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s %s'.format(['a'])", "1:15: index 1 out of range"),
        ("'%q'.format(['a'])", '1:12: could not parse formatting clause: unrecognized formatting clause "q"'),
    ):
        with pytest.raises(CelCheckError) as caught:
            ENV.check(text)
        assert str(caught.value).startswith(f"ERROR: <input>:{message}")


def test_json_patch_functions() -> None:
    with pytest.raises(CelCheckError):
        ENV.check("jsonpatch.escapeKey('a')")
    program = Env(types=[JSON_PATCH]).compile("jsonpatch.escapeKey('k8s.io/my~label')")
    assert program({}) == "k8s.io~1my~0label"
