"""The language itself: literals, operators, macros, conversions, errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kubewright.cel import (
    DYN,
    INT,
    STRING,
    CelCheckError,
    CelError,
    CelSyntaxError,
    Env,
    UInt,
    list_type,
    map_type,
)

ENV = Env({"x": INT, "s": STRING, "d": DYN, "l": list_type(INT), "m": map_type(STRING, INT)})
DATA: dict[str, Any] = {
    "x": 5,
    "s": "text",
    "d": {"a": [1, {"b": None}]},
    "l": [1, 2, 3],
    "m": {"a": 1, "b": 2},
}


def run(text: str) -> Any:
    return ENV.compile(text)(DATA)


VALUES: list[tuple[str, Any]] = [
    # literals
    ("42", 42),
    ("-42", -42),
    ("0x1F", 31),
    ("-0x1F", -31),
    ("42u", UInt(42)),
    ("0xFFu", UInt(255)),
    ("1.5", 1.5),
    (".5", 0.5),
    ("1e3", 1000.0),
    ("-1.5e-2", -0.015),
    ("true", True),
    ("null", None),
    ("'single'", "single"),
    ('"double"', "double"),
    ("'''tri'ple'''", "tri'ple"),
    ('"""a\nb"""', "a\nb"),
    (r"r'\d+'", r"\d+"),
    (r"R'''raw\n'''", r"raw\n"),
    (r"'\a\b\f\n\r\t\v\\\'\"\?\`'", "\a\b\f\n\r\t\v\\'\"?`"),
    (r"'\x41\u00e9\U0001f451\101'", "A\u00e9\U0001f451A"),
    (r"b'abc'", b"abc"),
    (r"b'\xff\000é'", b"\xff\x00\xc3\xa9"),
    (r"br'\n'", rb"\n"),
    ("[1, 2, 3]", [1, 2, 3]),
    ("[1, 2,]", [1, 2]),
    ("[]", []),
    ("{'a': 1, 'b': 2}", {"a": 1, "b": 2}),
    ("{1: 'x', 2: 'y'}[2]", "y"),
    ("{true: 1}[true]", 1),
    ("{}", {}),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    # operators and precedence
    ("1 + 2 * 3 - 4 / 2", 5),
    ("(1 + 2) * 3", 9),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 % 3", 1),
    ("-7 % 3", -1),
    ("7u / 2u", UInt(3)),
    ("7.0 / 2.0", 3.5),
    ("1.0 / 0.0", math.inf),
    ("-1.0 / 0.0", -math.inf),
    ("-(3)", -3),
    ("--3", 3),
    ("!true", False),
    ("!!true", True),
    ("'a' + 'b'", "ab"),
    ("b'a' + b'b'", b"ab"),
    ("[1] + [2]", [1, 2]),
    ("1 < 2", True),
    ("'a' < 'b'", True),
    ("b'a' < b'b'", True),
    ("false < true", True),
    ("1 < 1.5", True),
    ("1u < 2", True),
    ("2u > 1.5", True),
    ("-1 < 1u", True),
    ("1 == 1", True),
    ("dyn(1) == 1.0", True),
    ("dyn(1u) == 1", True),
    ("dyn(1) == true", False),
    ("dyn(true) == 1", False),
    ("dyn('1') == 1", False),
    ("[1, 2] == [1, 2]", True),
    ("[1, 2] == [2, 1]", False),
    ("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", True),
    ("dyn([1]) == [1.0]", True),
    ("null == null", True),
    ("d.a[1].b == null", True),
    ("1 != 2", True),
    ("2 in [1, 2]", True),
    ("dyn(2.0) in [1, 2]", True),
    ("'a' in {'a': 1}", True),
    ("'z' in m", False),
    ("x in l", False),
    ("true ? 1 : 2", 1),
    ("false ? 1 : true ? 2 : 3", 2),
    ("true || false && false", True),
    ("1 < 2 == true", True),
    # errors are absorbed by && and ||
    ("1 / 0 > 0 || true", True),
    ("true || 1 / 0 > 0", True),
    ("1 / 0 > 0 && false", False),
    ("false && 1 / 0 > 0", False),
    ("[1, 0].exists(i, 1 / i > 0)", True),
    ("[0, 1].exists(i, 1 / i > 0)", True),
    ("[0, 2].all(i, 4 / i > 4)", False),
    # selection and macros
    ("d.a[0]", 1),
    ("m.a", 1),
    ("m['b']", 2),
    ("has(d.a)", True),
    ("has(d.z)", False),
    ("has(m.z)", False),
    ("has({'a': 1}.a)", True),
    ("l[0]", 1),
    ("l.all(i, i > 0)", True),
    ("l.exists(i, i > 2)", True),
    ("l.exists_one(i, i > 2)", True),
    ("l.map(i, i * 2)", [2, 4, 6]),
    ("l.map(i, i > 1, i * 2)", [4, 6]),
    ("l.filter(i, i % 2 == 1)", [1, 3]),
    ("m.all(k, k < 'c')", True),
    ("m.map(k, m[k])", [1, 2]),
    ("m.exists(k, v, v == 2)", True),
    ("l.all(i, v, v == i + 1)", True),
    ("l.existsOne(i, v, i == v)", False),
    ("l.transformList(i, v, i * v)", [0, 2, 6]),
    ("l.transformList(i, v, i > 0, i * v)", [2, 6]),
    ("m.transformMap(k, v, v + 1)", {"a": 2, "b": 3}),
    ("m.transformMap(k, v, v > 1, v + 1)", {"b": 3}),
    ("m.transformMapEntry(k, v, {v: k})", {1: "a", 2: "b"}),
    ("l.transformMapEntry(i, v, v > 2, {string(i): v})", {"2": 3}),
    ("l.map(x, x).map(x, x + 1)", [2, 3, 4]),
    ("l.map(i, l.map(j, i * j))", [[1, 2, 3], [2, 4, 6], [3, 6, 9]]),
    ("[[1], [2]].map(x, x[0])", [1, 2]),
    ("d.?a[?0].orValue(9)", 1),
    ("d.?z.a.orValue('none')", "none"),
    ("d.a[?5].hasValue()", False),
    ("m[?'a'].value()", 1),
    ("m.?zz.hasValue()", False),
    ("optional.of(1).optMap(v, v + 1).value()", 2),
    ("optional.none().optMap(v, v).hasValue()", False),
    ("m.?a.optFlatMap(v, m[?'b']).value()", 2),
    ("optional.none().or(optional.of(3)).value()", 3),
    ("optional.of(1) == optional.of(1)", True),
    ("optional.ofNonZeroValue('').hasValue()", False),
    ("optional.ofNonZeroValue('x').hasValue()", True),
    ("[?m.?a, ?m.?z]", [1]),
    ("{?'a': m.?a, ?'z': m.?z}", {"a": 1}),
    ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
    ("has(d.?a.b) || true", True),
    # conversions
    ("int('42')", 42),
    ("int(42.9)", 42),
    ("int(-42.9)", -42),
    ("int(7u)", 7),
    ("uint(7)", UInt(7)),
    ("double('1.5')", 1.5),
    ("double(3)", 3.0),
    ("string(1.5)", "1.5"),
    ("string(1e21)", "1e+21"),
    ("string(0.00001)", "1e-05"),
    ("string(100.0)", "100"),
    ("string(true)", "true"),
    ("string(b'abc')", "abc"),
    ("string(-5)", "-5"),
    ("bytes('é')", "é".encode()),
    ("bool('true')", True),
    ("bool('F')", False),
    ("type(1) == int", True),
    ("type(1u) == uint", True),
    ("type('') == string", True),
    ("type(type(1)) == type", True),
    ("type([]) == list", True),
    ("type({}) == map", True),
    ("type(null) == null_type", True),
    ("type(optional.of(1)) == optional_type", True),
    ("type(duration('1s')) == google.protobuf.Duration", True),
    # sizes
    ("size('é')", 2 - 1),
    ("'abc'.size()", 3),
    ("size(b'é')", 2),
    ("l.size()", 3),
    ("size(m)", 2),
    # time
    ("timestamp('2023-07-14T10:30:45.123Z').getFullYear()", 2023),
    ("timestamp('2023-07-14T10:30:45.123Z').getMonth()", 6),
    ("timestamp('2023-07-14T10:30:45.123Z').getDate()", 14),
    ("timestamp('2023-07-14T10:30:45.123Z').getDayOfMonth()", 13),
    ("timestamp('2023-07-14T10:30:45.123Z').getDayOfWeek()", 5),
    ("timestamp('2023-07-14T10:30:45.123Z').getDayOfYear()", 194),
    ("timestamp('2023-07-14T10:30:45.123Z').getHours()", 10),
    ("timestamp('2023-07-14T10:30:45.123Z').getMinutes()", 30),
    ("timestamp('2023-07-14T10:30:45.123Z').getSeconds()", 45),
    ("timestamp('2023-07-14T10:30:45.123Z').getMilliseconds()", 123),
    ("timestamp('2023-01-01T05:30:00Z').getFullYear('-08:00')", 2022),
    ("timestamp('2023-01-01T05:30:00Z').getHours('America/New_York')", 0),
    ("timestamp('2023-01-01T05:30:00Z').getMinutes('05:30')", 0),
    ("timestamp('2023-01-01T00:00:00Z') + duration('24h') == timestamp('2023-01-02T00:00:00Z')", True),
    ("timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z') == duration('24h')", True),
    ("timestamp('2023-01-01T00:00:00Z') < timestamp('2023-01-01T00:00:00.000000001Z')", True),
    ("timestamp('2023-01-01T01:00:00+01:00') == timestamp('2023-01-01T00:00:00Z')", True),
    ("string(timestamp('2023-01-01T01:00:00.5+01:00'))", "2023-01-01T01:00:00.5+01:00"),
    ("int(timestamp('1970-01-01T00:00:10Z'))", 10),
    ("timestamp(10) == timestamp('1970-01-01T00:00:10Z')", True),
    ("duration('1h30m').getMinutes()", 90),
    ("duration('-1.5s').getSeconds()", -1),
    ("duration('90s') == duration('1m30s')", True),
    ("string(duration('1h0.5s'))", "3600.5s"),
    ("duration('1h') - duration('30m') == duration('1800s')", True),
    # comments, whitespace, escaped identifiers
    ("1 + // one\n 2", 3),
    ("m.`a`", 1),
    ("{'a-b': 1}.`a-b`", 1),
    (".x", 5),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[case[0] for case in VALUES])
def test_value(text: str, value: Any) -> None:
    result = run(text)
    assert result == value
    assert type(result) is type(value)


ERRORS = [
    ("1 / 0", "division by zero"),
    ("1 % 0", "modulus by zero"),
    ("1u / 0u", "division by zero"),
    ("9223372036854775807 + 1", "integer overflow"),
    ("-9223372036854775808 - 1", "integer overflow"),
    ("9223372036854775807 * 2", "integer overflow"),
    ("-(-9223372036854775808)", "integer overflow"),
    ("-9223372036854775808 / -1", "integer overflow"),
    ("18446744073709551615u + 1u", "unsigned integer overflow"),
    ("0u - 1u", "unsigned integer overflow"),
    ("l[7]", "index out of bounds: 7"),
    ("l[-1]", "index out of bounds: -1"),
    ("m['zz']", "no such key: zz"),
    ("m.zz", "no such key: zz"),
    ("d.zz", "no such key: zz"),
    ("d.a.b", "unsupported index type 'string' in list"),
    ("dyn(1) + 'a'", "no such overload"),
    ("dyn('a').size() > dyn('a')", "no such overload"),
    ("int(s)", "type conversion error from 'string' to 'int'"),
    ("duration(s)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
    ("int(1e100 * double(x))", "integer overflow"),
    ("uint(x - 10)", "unsigned integer overflow"),
    ("optional.none().value()", "optional.none() dereference"),
    ("string(bytes(s) + b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
    ("0.0 / 0.0 < double(x)", "NaN values cannot be ordered"),
    ("timestamp(253402300800 + x)", "timestamp overflow"),
    ("1 / 0 > 0 || false", "division by zero"),
    ("[0, 1].all(i, 1 / i > 0)", "division by zero"),
    ("[0, 2].exists_one(i, 1 / i > 0)", "division by zero"),
    ("m.transformMapEntry(k, v, {'same': v})", "insert failed: key same already exists"),
    ("timestamp('2023-01-01T00:00:00Z').getHours('Nowhere/X')", "unknown time zone Nowhere/X"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[case[0] for case in ERRORS])
def test_evaluation_error(text: str, message: str) -> None:
    program = ENV.compile(text)
    with pytest.raises(CelError) as caught:
        program(DATA)
    assert str(caught.value) == message


EXPECTING = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null',"
    " NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
SYNTAX = [
    ("x >", f"1:4: Syntax error: mismatched input '<EOF>' expecting {EXPECTING}", "x >", "...^"),
    ("1 + +", f"1:5: Syntax error: mismatched input '+' expecting {EXPECTING}", "1 + +", "....^"),
    ("object.", "1:8: Syntax error: no viable alternative at input '.'", "object.", ".......^"),
    ("x.true", "1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER", "x.true", "..^"),
    ("x y", "1:3: Syntax error: extraneous input 'y' expecting <EOF>", "x y", "..^"),
    ("(x", "1:3: Syntax error: missing ')' at '<EOF>'", "(x", "..^"),
    ("while", "1:1: reserved identifier: while", "while", "^"),
    ("l.all(1, true)", "1:7: argument must be a simple name", "l.all(1, true)", "......^"),
    ("has(x)", "1:5: invalid argument to has() macro", "has(x)", "....^"),
    ("9223372036854775808", "1:1: invalid int literal", "9223372036854775808", "^"),
    ("'é' +\n 'é' $", "2:6: Syntax error: token recognition error at: '$'", " 'é' $", "..\uff0e..^"),
]


@pytest.mark.parametrize(("text", "message", "line", "mark"), SYNTAX, ids=[case[0] for case in SYNTAX])
def test_syntax_error(text: str, message: str, line: str, mark: str) -> None:
    with pytest.raises(CelSyntaxError) as caught:
        ENV.parse(text)
    assert str(caught.value).startswith(f"ERROR: <input>:{message}\n | {line}\n | {mark}")


CHECKS = [
    ("x == 'a'", "1:3: found no matching overload for '_==_' applied to '(int, string)'"),
    ("x + s", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
    ("nope", "1:1: undeclared reference to 'nope' (in container '')"),
    ("nope(1)", "1:5: undeclared reference to 'nope' (in container '')"),
    ("s.nope()", "1:7: undeclared reference to 'nope' (in container '')"),
    ("s.size(1)", "1:7: found no matching overload for 'size' applied to 'string.(int)'"),
    ("x.field", "1:2: type 'int' does not support field selection"),
    ("x && true", "1:1: expected type 'bool' but found 'int'"),
    (
        "x.all(i, true)",
        "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
    ("{'a': 1, 'b': 'c'}", "1:15: expected type 'int' but found 'string'"),
    ("true ? 1 : 'a'", "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
    ("l['a']", "1:2: found no matching overload for '_[_]' applied to '(list(int), string)'"),
    ("duration('nonsense')", "1:10: invalid duration argument"),
    ("timestamp('nonsense')", "1:11: invalid timestamp argument"),
    ("s.matches('(')", "1:11: invalid matches argument"),
    ("Thing{a: 1}", "1:6: undeclared reference to 'Thing' (in container '')"),
    ("-s", "1:1: found no matching overload for '-_' applied to '(string)'"),
    ("l.map(i, i + 'a')", "1:12: found no matching overload for '_+_' applied to '(int, string)'"),
]


@pytest.mark.parametrize(("text", "message"), CHECKS, ids=[case[0] for case in CHECKS])
def test_check_error(text: str, message: str) -> None:
    with pytest.raises(CelCheckError) as caught:
        ENV.check(text)
    assert str(caught.value).split("\n")[0] == f"ERROR: <input>:{message}"


def test_every_problem_is_reported() -> None:
    with pytest.raises(CelCheckError) as caught:
        ENV.check("nope1 + nope2 == x + s")
    assert [issue.column for issue in caught.value.issues] == [0, 8, 19]


def test_format_takes_mixed_arguments() -> None:
    assert run("'%s is %d and %.2f'.format([s, x, 1.005])") == "text is 5 and 1.00"


def test_missing_variables_are_an_error() -> None:
    with pytest.raises(CelError, match="no such attribute"):
        ENV.compile("x + 1")({})


def test_references_name_the_variables_read() -> None:
    assert ENV.check("l.all(s, s > x)").references == {"l", "x"}


def test_bindings_are_disabled_by_default() -> None:
    with pytest.raises(CelCheckError):
        ENV.check("cel.bind(a, 1, a + a)")
    assert Env(bindings=True).compile("cel.bind(a, 2, a * a)")({}) == 4
