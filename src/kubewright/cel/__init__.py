"""The CEL language as Kubernetes runs it: parse, check against declared types, estimate and limit cost, run.

    env = Env({"self": object_type("self", {"replicas": INT, "max": INT})})
    checked = env.check("self.replicas <= self.max", expected=BOOL)     # CelSyntaxError, CelCheckError
    checked.cost            # CostRange(min, max): the static estimate, from the sizes the types carry
    checked.type            # the result type
    checked.references      # the variables it reads, such as {"self"}
    program = checked.compile()                                         # or env.compile(text)
    program({"self": {"replicas": 1, "max": 3}}, budget=Budget())       # CelError, CostExceeded

Programs run over plain decoded JSON (dict, list, str, int, float, bool, None) and never copy or change it.
Types say where the data means more than JSON can: a `timestamp_type()`, `duration_type()` or `bytes_type()`
field holds a string that an expression sees as a timestamp, a duration or bytes.

`Env(variables, types=..., bindings=False)`: `variables` maps names to types; `types` lists objects that an
expression may construct (`OBJECT` and `JSON_PATCH` are those of mutating policies); `bindings` turns on
`cel.bind`, which Kubernetes does for device selectors only. `check(text, expected=T)` raises
`CelResultError` if the result is no T.

A `Budget(limit)` counts the cost of all programs that are run with it; each run is also limited by itself
(`per_call`). `budget.used` and `budget.remaining` say where it stands.

Types are made with `object_type`, `list_type`, `map_type`, `string_type`, `bytes_type`, `timestamp_type`,
`duration_type`, `int_or_string_type`, `optional_type` and the constants `BOOL INT UINT DOUBLE STRING BYTES
TIMESTAMP DURATION NULL DYN`. `kubewright.cel.limits` has the numbers of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

if TYPE_CHECKING:
    from kubewright.cel import limits
    from kubewright.cel.call_estimates import CostRange
    from kubewright.cel.convert import to_json
    from kubewright.cel.env import JSON_PATCH, OBJECT, Checked, Env, Program
    from kubewright.cel.errors import (
        CelCheckError,
        CelCompileError,
        CelError,
        CelResultError,
        CelSyntaxError,
        CostExceeded,
        Issue,
    )
    from kubewright.cel.frame import Budget
    from kubewright.cel.library.authorization import (
        AUTHORIZER,
        RESOURCE_CHECK,
        Authorizer,
        Decision,
        Question,
        ResourceCheck,
    )
    from kubewright.cel.types import (
        BOOL,
        BYTES,
        DOUBLE,
        DURATION,
        DYN,
        INT,
        MAP_KEY,
        NULL,
        STRING,
        TIMESTAMP,
        TYPE,
        UINT,
        Field,
        Kind,
        Type,
        bytes_type,
        duration_type,
        escape,
        int_or_string_type,
        list_type,
        map_type,
        object_type,
        opaque_type,
        optional_type,
        string_type,
        timestamp_type,
        unescape,
    )
    from kubewright.cel.values import NONE, Duration, Optional, Timestamp, UInt

"""Modules and the public names in them; one is imported when a name of it is first asked for."""

__getattr__, __dir__ = lazy(
    __name__,
    {
        "call_estimates": "CostRange",
        "convert": "to_json",
        "env": "Checked Env JSON_PATCH OBJECT Program",
        "errors": "CelCheckError CelCompileError CelError CelResultError CelSyntaxError CostExceeded Issue",
        "frame": "Budget",
        "library.authorization": "AUTHORIZER Authorizer Decision Question RESOURCE_CHECK ResourceCheck",
        "types": (
            "BOOL BYTES DOUBLE DURATION DYN Field INT Kind MAP_KEY NULL STRING TIMESTAMP TYPE Type UINT "
            "bytes_type duration_type escape int_or_string_type list_type map_type object_type "
            "opaque_type optional_type string_type timestamp_type unescape"
        ),
        "values": "Duration NONE Optional Timestamp UInt",
    },
)

__all__ = [
    "AUTHORIZER",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "JSON_PATCH",
    "MAP_KEY",
    "NONE",
    "NULL",
    "OBJECT",
    "RESOURCE_CHECK",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Authorizer",
    "Budget",
    "CelCheckError",
    "CelCompileError",
    "CelError",
    "CelResultError",
    "CelSyntaxError",
    "Checked",
    "CostExceeded",
    "CostRange",
    "Decision",
    "Duration",
    "Env",
    "Field",
    "Issue",
    "Kind",
    "Optional",
    "Program",
    "Question",
    "ResourceCheck",
    "Timestamp",
    "Type",
    "UInt",
    "bytes_type",
    "duration_type",
    "escape",
    "int_or_string_type",
    "limits",
    "list_type",
    "map_type",
    "object_type",
    "opaque_type",
    "optional_type",
    "string_type",
    "timestamp_type",
    "to_json",
    "unescape",
]
