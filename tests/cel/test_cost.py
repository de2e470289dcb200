"""Run-time costs and static estimates equal those of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.cel import (
    BOOL,
    DOUBLE,
    INT,
    MAP_KEY,
    NONE,
    Budget,
    CostExceeded,
    Env,
    Optional,
    Type,
    bytes_type,
    duration_type,
    int_or_string_type,
    list_type,
    map_type,
    object_type,
    optional_type,
    string_type,
    timestamp_type,
)
from kubewright.cel.costs import limits

STRING = string_type(limits.MAX_STRING_SIZE)
BYTES = bytes_type(limits.MAX_STRING_SIZE)


def values(*pairs: tuple[Type, Any]) -> tuple[Type, dict[str, Any]]:
    fields = {f"val{index}": item for index, (item, _) in enumerate(pairs, 1)}
    data = {f"val{index}": value for index, (_, value) in enumerate(pairs, 1)}
    return object_type("self", fields), data


def listed(item: Type, **more: Any) -> Type:
    return list_type(item, limits.max_items(item.min_json), **more)


def mapped(item: Type) -> Type:
    return map_type(MAP_KEY, item, limits.max_properties(item.min_json))


PAIR = object_type("pair", {"k": STRING, "v": STRING})
ENTRY = object_type("entry", {"k": STRING, "v": STRING, "v2": STRING})
KEYED = listed(PAIR, kind="map", keys=("k",))

RUNTIME: list[tuple[tuple[Type, Any], dict[str, int]]] = [
    (
        values((INT, 2**63 - 1), (INT, 2**63 - 1)),
        {"self.val1 == self.val2": 5, "type(self.val1) == int": 4, "self.val1 - 1 != 5 + 1": 5}
        | {"true": 0, "double(5) < 10.0": 1, "double(self.val1) > 10.0": 4},
    ),
    (
        values((STRING, "Rook takes \U0001f451"), (STRING, "Rook takes \U0001f451")),
        {
            "self.val1.startsWith('Rook')": 3,
            "!self.val1.startsWith('knight')": 4,
            "self.val1.matches('^[^0-9]*$')": 8,
            "!self.val1.matches('^[0-9]*$')": 7,
            "matches(self.val1, '^[^0-9]*$')": 3,
            "size(self.val1) == 12": 4,
            "self.val1.charAt(3) == 'k'": 4,
            "self.val1.indexOf('o') == 1": 4,
            "self.val1.indexOf('o', 2) == 2": 4,
            "self.val1.replace(' ', 'x') == 'Rookxtakesx\U0001f451'": 7,
            "self.val1.split(' ') == ['Rook', 'takes', '\U0001f451']": 6,
            "self.val1.split(' ', 2) == ['Rook', 'takes \U0001f451']": 6,
            "self.val1.substring(5) == 'takes \U0001f451'": 5,
            "self.val1.substring(4, 10).trim() == 'takes'": 6,
            "self.val1.upperAscii() == 'ROOK TAKES \U0001f451'": 6,
            "self.val1.lowerAscii() == self.val1.lowerAscii()": 10,
            "'%e'.format([3.14]) == '3.140000\u00d710\u2070\u2070'": 3,
            "'%o %o %o'.format([7, 8, 9]) == '7 10 11'": 2,
            "'%b %b %b'.format([7, 8, 9]) == '111 1000 1001'": 3,
        },
    ),
    (values((BYTES, "QUI="), (BYTES, "QUI=")), {"self.val1 == self.val2": 5, "self.val1 == b'AB'": 3}),
    (
        values((duration_type(), "1h2m3s4ms"), (duration_type(), "1h2m3s4ms")),
        {
            "self.val1 == duration('1h2m') + duration('3s4ms')": 4,
            "self.val1.getHours() == 1": 4,
            "type(self.val1) == google.protobuf.Duration": 4,
        },
    ),
    (
        values(
            (timestamp_type(), "2011-08-18T19:03:37.010000000+01:00"),
            (timestamp_type(date=True), "1997-07-16"),
        ),
        {
            "self.val1 == timestamp('2011-08-18T00:00:00.000+01:00') + duration('19h3m37s10ms')": 4,
            "self.val1.getDate('01:00') == 18": 4,
            "self.val2.getDate() == 16": 4,
            "type(self.val2) == google.protobuf.Timestamp": 4,
        },
    ),
    (values((STRING, "Pending")), {"self.val1 == 'Pending'": 3, "self.val1 in ['Pending', 'Available']": 2}),
    (
        values((INT, 10), (DOUBLE, 10.0), (DOUBLE, 10.5), (STRING, "10"), (BYTES, "MTA=")),
        {
            "int(self.val2) == self.val1": 6,
            "double(self.val1) == self.val2": 6,
            "bytes(self.val4) == self.val5": 6,
            "string(self.val1) == self.val4": 6,
            "string(self.val3) == '10.5'": 4,
            "string(self.val5) == self.val4": 6,
        },
    ),
    (
        values((listed(INT), [1, 2, 3]), (listed(INT), [1, 2, 3])),
        {
            "1 in self.val1": 5,
            "self.val2[0] in self.val1": 8,
            "!(0 in self.val1)": 6,
            "self.val1 + self.val2 == [1, 2, 3, 1, 2, 3]": 6,
            "self.val1 + [4, 5] == [1, 2, 3, 4, 5]": 4,
            "has(self.val1)": 1,
            "has(self.val1) && has(self.val2)": 2,
        },
    ),
    (
        values((listed(STRING, kind="set"), ["a", "b", "c"]), (listed(STRING, kind="set"), ["a", "c", "b"])),
        {
            "self.val1 == ['c', 'b', 'a']": 3,
            "self.val1 == self.val2": 5,
            "'a' in self.val1": 5,
            "self.val1 + self.val2 == ['a', 'b', 'c']": 6,
            "self.val1 + ['c', 'd'] == ['a', 'b', 'c', 'd']": 4,
            "sets.contains(self.val1, ['a'])": 6,
            "sets.equivalent(self.val1, ['a', 'b', 'c'])": 21,
            "sets.intersects(self.val1, ['a'])": 6,
        },
    ),
    (
        (
            object_type("self", {"objs": listed(KEYED)}),
            {
                "objs": [
                    [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}],
                    [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}],
                    [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}],
                    [{"k": "c", "v": "4"}],
                ]
            },
        ),
        {
            "self.objs[0] == self.objs[1]": 7,
            "self.objs[0] + self.objs[2] == self.objs[2]": 11,
            "self.objs[2] + self.objs[0] == self.objs[0]": 11,
            "self.objs[0] == [self.objs[0][0], self.objs[0][1]]": 22,
            "self.objs[0] == [self.objs[0][1], self.objs[0][0]]": 22,
            "self.objs[2] + [self.objs[0][0], self.objs[0][1]] == self.objs[0]": 26,
            "size(self.objs[0] + [self.objs[3][0]]) == 3": 20,
        },
    ),
    (
        values((mapped(STRING), {"k1": "a", "k2": "b"}), (mapped(STRING), {"k2": "b", "k1": "a"})),
        {
            "self.val1 == self.val2": 5,
            "'k1' in self.val1": 3,
            "!('k3' in self.val1)": 4,
            "self.val1 == {'k1': 'a', 'k2': 'b'}": 3,
        },
    ),
    (
        (
            object_type("self", {"listMap": listed(ENTRY, kind="map", keys=("k",))}),
            {"listMap": [{"k": "a1", "v": "b1"}, {"k": "a2", "v": "b2"}, {"k": "a3", "v": "b3", "v2": "z"}]},
        ),
        {
            "has(self.listMap[0].v)": 3,
            "self.listMap.all(m, m.k.startsWith('a'))": 21,
            "self.listMap.all(m, !has(m.v2) || m.v2 == 'z')": 21,
            "self.listMap.exists(m, m.k.endsWith('1'))": 13,
            "self.listMap.exists_one(m, m.k == 'a3')": 15,
            "!self.listMap.all(m, m.k.endsWith('1'))": 18,
            "!self.listMap.exists(m, m.v == 'x')": 25,
            "!self.listMap.exists_one(m, m.k.startsWith('a'))": 20,
            "size(self.listMap.filter(m, m.k == 'a1')) == 1": 27,
            "self.listMap.exists(m, m.k == 'a1' && m.v == 'b1')": 16,
            "self.listMap.map(m, m.v).exists(v, v == 'b1')": 55,
            "self.listMap.exists(m, has(m.v2) && m.v2 == 'z')": 21,
            "!self.listMap.all(m, has(m.v2) && m.v2 != 'z')": 10,
            "self.listMap.filter(m, has(m.v2) && m.v2 == 'z').size() == 1": 24,
            "self.listMap.map(m, has(m.v2) && m.v2 == 'z', m.v2).size() == 1": 25,
            "!self.listMap.all(i, m, has(m.v2) && m.v2 != 'z')": 10,
            "self.listMap.existsOne(i, m, has(m.v2) && m.v2 == 'z')": 12,
            "self.listMap.transformList(i, m, m.v).size() == 3": 47,
        },
    ),
    (
        (object_type("self", {"array": listed(INT)}), {"array": [1, 1, 2, 2, 3, 3, 4, 5]}),
        {
            "2 in self.array": 10,
            "self.array.all(e, e > 0)": 43,
            "self.array.exists(e, e > 2)": 36,
            "self.array.exists_one(e, e > 4)": 22,
            "!self.array.all(e, e < 2)": 21,
            "!self.array.exists(e, e < 0)": 52,
            "!self.array.exists_one(e, e == 2)": 25,
            "size(self.array.filter(e, e%2 == 0)) == 3": 68,
            "self.array.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)": 194,
            "self.array.transformList(i, e, e > 2, e * 2).size() > 0": 77,
        },
    ),
    (
        (object_type("self", {"something": int_or_string_type()}), {"something": "25%"}),
        {
            "type(self.something) == int ? self.something == 1 : self.something == '25%'": 7,
            "type(self.something) == string && self.something == '25%'": 7,
            "self.something == '25%'": 3,
            "self.something != 1": 3,
            "self.something == 1 || self.something == '25%'": 6,
            "self.something != ['anything']": 3,
        },
    ),
    (
        (
            object_type(
                "self",
                {"obj": object_type("obj", {"field": STRING, "absentField": STRING}), "m": mapped(STRING)},
            ),
            {"obj": {"field": "a"}, "m": {"k": "v"}},
        ),
        {
            "optional.of('a') != optional.of('b')": 3,
            "optional.of('a').or(optional.of('a')).hasValue()": 2,
            "optional.none().or(optional.of('a')).hasValue()": 3,
            "optional.of('a').optMap(v, v == 'a').hasValue()": 8,
            "self.obj.?field == optional.of('a')": 5,
            "self.obj.?absentField == optional.none()": 4,
            "self.obj.?field.orValue('v') == 'a'": 4,
            "self.m[?'k'] == optional.of('v')": 5,
        },
    ),
]
CASES = [(types, data, rule, cost) for (types, data), rules in RUNTIME for rule, cost in rules.items()]


@pytest.mark.parametrize(("types", "data", "rule", "cost"), CASES, ids=[case[2] for case in CASES])
def test_runtime_cost_equals_that_of_kubernetes(types: Type, data: Any, rule: str, cost: int) -> None:
    budget = Budget()
    assert Env({"self": types}).compile(rule, BOOL)({"self": data}, budget) is True
    assert budget.used == cost


ESTIMATES: list[tuple[Type, str, int]] = [
    (list_type(DOUBLE, limits.max_items(DOUBLE.min_json)), "self.all(x, true)", 4718591),
    (listed(STRING), "self.all(x, true)", 3145727),
    (listed(BOOL), "self.all(x, true)", 1887437),
    (listed(listed(DOUBLE)), "self.all(x, true)", 3145727),
    (mapped(DOUBLE), "self.all(x, true)", 1348169),
    (mapped(STRING), "self.all(x, true)", 1179647),
    (mapped(BOOL), "self.all(x, true)", 943718),
    (STRING, "self.contains('test')", 314574),
    (STRING, "self.startsWith('test')", 2),
    (STRING, 'size(self + "hello") > size("hello")', 314578),
    (listed(DOUBLE), "self[1] == 0.0", 2),
    (listed(STRING), "self[1] == self[1]", 314577),
    (STRING, "self.matches('x')", 314574),
    (STRING, "matches(self, 'x')", 2),
    (STRING, "matches(url(self).getEscapedPath(), 'x')", 314576),
    (string_type(100), "self.split('@')[1].matches('^x$')", 33),
    (string_type(100), "self.split('@', 2).all(x, x.matches('^x$'))", 52),
    (mapped(STRING), "self.all(x, self[x].startsWith('x'))", 2752507),
    (listed(DOUBLE), "self.all(x, x == 0.0)", 6291454),
    (listed(int_or_string_type()), "self.all(x, true)", 4718591),
    (listed(int_or_string_type()), "self[0] == 5", 3),
    (listed(BOOL), "self[0] == false", 2),
    (listed(duration_type()), "self.all(x, true)", 2359295),
    (listed(duration_type()), "self[0].getHours() == 2", 4),
    (listed(timestamp_type(date=True)), "self.all(x, true)", 725936),
    (listed(timestamp_type()), "self.all(x, true)", 428963),
    (STRING, "self.indexOf('o') == 1", 314575),
    (object_type("self", {"a": INT}), "type(self.a) == int", 4),
    (STRING, "self.substring(4, 10).trim() == 'takes'", 629148),
    (STRING, "self.lowerAscii() == self.lowerAscii()", 943721),
]


@pytest.mark.parametrize(
    ("item", "rule", "cost"), ESTIMATES, ids=[f"{case[0]} {case[1]}" for case in ESTIMATES]
)
def test_static_estimate(item: Type, rule: str, cost: int) -> None:
    assert Env({"self": item}).check(rule).cost.max == cost


def test_bounds_of_the_schema_bound_the_estimate() -> None:
    bounded = list_type(string_type(20), 5)
    assert Env({"self": bounded}).check("self.all(x, self.all(y, x != y))").cost.max < 500
    unbounded = Env({"self": listed(STRING)}).check("self.all(x, self.all(y, x != y))")
    assert unbounded.cost.max > 100 * limits.STATIC_EXPRESSION_LIMIT


def test_a_budget_is_shared_and_stops_the_run_that_overdraws_it() -> None:
    program = Env({"self": listed(INT)}).compile("self.all(x, x > 0)")
    budget = Budget(100)
    program({"self": [1, 2, 3]}, budget)
    assert budget.used == 17
    assert budget.remaining == 83
    with pytest.raises(CostExceeded):
        program({"self": [1] * 100}, budget)
    assert budget.remaining < 0


def test_one_call_is_limited_by_itself() -> None:
    program = Env({"self": listed(INT)}).compile("self.all(x, self.all(y, x == y))")
    with pytest.raises(CostExceeded):
        program({"self": [1] * 3000}, Budget(10**12))
    assert program({"self": [1] * 30}, Budget(10**12))


def test_an_optional_old_value() -> None:
    item = object_type("self", {"size": INT})
    program = Env({"self": item, "oldSelf": optional_type(item)}).compile(
        "!oldSelf.hasValue() || self.size - oldSelf.value().size < 10", BOOL
    )
    assert program({"self": {"size": 50}, "oldSelf": NONE})
    assert program({"self": {"size": 5}, "oldSelf": Optional({"size": 1})})
    assert not program({"self": {"size": 50}, "oldSelf": Optional({"size": 1})})
