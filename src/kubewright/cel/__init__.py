"""The Common Expression Language of Kubernetes: parser, type checker, cost estimation and limits, evaluation.

    env = Env({"self": object_type("self", {"replicas": INT, "max": INT})})
    checked = env.check("self.replicas <= self.max", expected=BOOL)     # CelSyntaxError, CelCheckError
    checked.cost            # CostRange(min, max): the static estimate, from the sizes the types carry
    checked.type            # the result type
    checked.references      # the variables it reads, such as {"self"}
    program = checked.compile()                                         # or env.compile(text)
    program({"self": {"replicas": 1, "max": 3}}, budget=Budget())       # CelError, CostExceeded

Programs evaluate plain decoded JSON (dict, list, str, int, float, bool, None) and never copy or change it.
A field of `timestamp_type()`, `duration_type()` or `bytes_type()` is a string in JSON and a timestamp, a
duration or bytes in the expression.

`Env(variables, types=..., bindings=False)`: `variables` maps names to types; `types` lists objects that an
expression may construct (`OBJECT` and `JSON_PATCH` are those of mutating policies); `bindings` turns on
`cel.bind`, which Kubernetes does for device selectors only. `check(text, expected=T)` raises
`CelResultError` if the result is not a T.

A `Budget(limit)` counts the cost of all programs that are evaluated with it (`budget.used`,
`budget.remaining`); each evaluation also has its own limit (`per_call`).

Types are created with `object_type`, `list_type`, `map_type`, `string_type`, `bytes_type`, `timestamp_type`,
`duration_type`, `int_or_string_type`, `optional_type` and the constants `BOOL INT UINT DOUBLE STRING BYTES
TIMESTAMP DURATION NULL DYN`. `kubewright.cel.costs.limits` has the numbers of Kubernetes.

- `checking`: types of expressions
- `compatibility`: libraries that not all supported versions of Kubernetes have
- `compilation`: checked expressions to Python closures
- `convert`: conversion between decoded JSON and CEL values
- `costs`: costs of expressions: estimates, charges and limits
- `env`: the environment of an expression, and the steps from text to result
- `errors`: exceptions of parsing, checking and evaluation
- `functions`: function declarations: overloads with types and implementations
- `library`: function libraries of the CEL environment of Kubernetes, one module per library
- `syntax`: text to an expression tree
- `values`: run-time values and their equality
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
