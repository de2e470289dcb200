"""Any text is a compile error with a position, or evaluates to a value or an error.

Set KUBEWRIGHT_FUZZ_SECONDS to run longer than the usual second.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

from kubewright.cel import (
    DYN,
    INT,
    STRING,
    Budget,
    CelCompileError,
    CelError,
    CostExceeded,
    Env,
    list_type,
    map_type,
    object_type,
    timestamp_type,
)

SECONDS = float(os.environ.get("KUBEWRIGHT_FUZZ_SECONDS", "1"))
ENV = Env(
    {
        "self": object_type(
            "self", {"n": INT, "s": STRING, "l": list_type(INT), "at": timestamp_type(), "nothing": STRING}
        ),
        "d": DYN,
        "m": map_type(STRING, DYN),
    }
)
DATA: dict[str, Any] = {
    "self": {"n": 3, "s": "text", "l": [3, 1, 2], "at": "2024-01-01T00:00:00Z", "nothing": None},
    "d": {"a": [1, "x", None, {"b": 1.5}], "n": 7},
    "m": {"k": [1], "z": "y"},
}
PIECES = [
    *("self", ".", "n", "s", "l", "at", "d", "m", "a", "b", "k", "x", "(", ")", "[", "]", "{", "}", ",", ":"),
    *(
        "?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "<",
        "<=",
        ">",
        ">=",
        "==",
        "!=",
        "&&",
        "||",
        " in ",
        "0",
        "1",
        "-1",
    ),
    *("2u", "1.5", "0x1f", "1e9", "'a'", '"b"', "b'c'", "r'd'", "'''e'''", "true", "false", "null", "has("),
    *(".all(x,", ".exists(x,", ".map(x,", ".filter(x,", ".exists_one(x,", ".transformMap(k,v,", "size("),
    *(
        ".transformList(i,v,",
        ".size()",
        ".startsWith(",
        ".matches(",
        ".split(",
        ".join(",
        ".format([",
        "int(",
    ),
    *(".replace(", "string(", "double(", "uint(", "timestamp(", "duration(", ".getHours()", "optional.of("),
    *("optional.none()", ".orValue(", ".optMap(x,", ".?", "[?", "lists.range(", ".sort()", ".distinct()"),
    *(".flatten()", ".sum()", "sets.contains(", "url(", "ip(", "cidr(", "quantity(", "semver(", "type("),
    *(
        "format.named(",
        ".value()",
        ".hasValue()",
        "dyn(",
        ".sortBy(x,",
        "9223372036854775807",
        "\\",
        "`",
        "$",
    ),
    *(
        "\n",
        "//",
        "`",
        "$",
        "-1",
        "int(",
        "\u00e9",
        "\U0001f451",
        "self.nothing",
        "self.at",
        "self.s",
        "self.l",
        "d.a",
        "m.k",
    ),
]
SEEDS = (
    "self.l.all(x, x > 0 && self.n / x >= 0)",
    "d.a.map(x, string(x)).join(',') + self.s.replace('t', self.s)",
    "has(m.k) ? m.k[0] == 1 : self.at.getHours() < self.n",
    "self.l.transformMap(i, v, {i: [v]}).size() + lists.range(self.n).sum()",
    "'%s %d'.format([self.s, self.n]).split(' ').sortBy(x, x.size())[?0].orValue('')",
)


def expression(choose: random.Random) -> str:
    kind = choose.random()
    if kind < 0.5:
        return choose.choice(["", " "]).join(choose.choices(PIECES, k=choose.randint(1, 25)))
    text = choose.choice(SEEDS)
    for _ in range(choose.randint(1, 4)):
        start = choose.randrange(len(text) + 1)
        end = min(len(text), start + choose.randint(0, 6))
        text = text[:start] + choose.choice(PIECES) + text[end:]
    return text if kind < 0.9 else "".join(map(chr, choose.choices(range(0x100), k=choose.randint(0, 40))))


def test_random_expressions() -> None:
    choose = random.Random(20361)
    deadline = time.monotonic() + SECONDS
    compiled = rejected = 0
    while time.monotonic() < deadline:
        text = expression(choose)
        try:
            checked = ENV.check(text)
            estimate = checked.cost
            program = checked.compile()
        except CelCompileError as error:
            rejected += bool(error.issues)
            continue
        except CelError:
            continue
        compiled += 1
        budget = Budget(1_000_000, per_call=100_000)
        assert 0 <= estimate.min <= estimate.max, text
        try:
            program(DATA, budget)
        except (CelError, CostExceeded):
            pass
        assert budget.used >= 0
    assert compiled > 0
    assert rejected > 0
