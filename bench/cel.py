"""CEL: compiling rules and running them with cost tracking on."""

from __future__ import annotations

from bench import Benchmark
from kubewright.cel import BOOL, INT, STRING, Budget, Env, list_type, object_type, string_type

RULES = (
    "self.replicas <= self.maxReplicas",
    "self.minReplicas <= self.replicas",
    "has(self.x) == has(self.y)",
    "self.items.all(i, i.name.startsWith('a') && size(i.name) < 20)",
    "self.name.matches('^[a-z0-9-]+$')",
)
SELF = object_type(
    "self",
    {
        "replicas": INT,
        "minReplicas": INT,
        "maxReplicas": INT,
        "x": STRING,
        "y": STRING,
        "name": string_type(256),
        "items": list_type(object_type("self.items", {"name": string_type(256)}), 10),
    },
)
DATA = {
    "self": {
        "replicas": 2,
        "minReplicas": 1,
        "maxReplicas": 3,
        "x": "a",
        "y": "b",
        "name": "my-guestbook-1",
        "items": [{"name": "abc"}, {"name": "abd"}, {"name": "aef"}],
    }
}


def benchmarks() -> list[Benchmark]:
    env = Env({"self": SELF})
    programs = [env.compile(rule, BOOL) for rule in RULES]
    loop = Env({"self": list_type(INT)}).compile("self.all(x, x >= 0 && x < 100000)", BOOL)
    numbers = {"self": list(range(1000))}

    def run() -> None:
        budget = Budget()
        for program in programs:
            program(DATA, budget)

    def compile_all() -> None:
        for rule in RULES:
            checked = env.check(rule, BOOL)
            assert checked.cost.max < 10_000
            checked.compile()

    return [
        Benchmark(name="five rules of a CRD", run=run, target_us=15),
        Benchmark(name="a rule over 1000 numbers, per number", run=lambda: loop(numbers), operations=1000),
        Benchmark(name="check, estimate and compile a rule", run=compile_all, operations=len(RULES)),
    ]
