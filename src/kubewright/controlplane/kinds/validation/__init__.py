"""Declarative validation of built-in kinds.

A kind declares its rules as a table from field paths to rules; `Rules` compiles the table once into a
function. Code is only needed for what concerns several fields.

    RULES = Rules({
        "spec.replicas": Minimum(0),
        "spec.type": [Required(), Enum("ClusterIP", "NodePort")],
        "spec.ports[*].name": [Required(), DNS_LABEL],
        "spec.ports[*]": Unique("name"),
        "spec.ports[*].port": Range(1, 65535, absent=0),
        "spec.healthCheck?.path": Required(),
        "spec": _check_affinity,                      # a hook: function(value, path) -> list[FieldError]
    })

    KINDS = {
        "widgets": Kind(
            validate=RULES,
            validate_update=UpdateRules(RULES, {"spec.type": Immutable()}),
            validate_status=UpdateRules(STATUS_RULES),
        )
    }

Paths
    Field names joined by dots; `[*]` stands for every item of a list, "" for the object itself. A table can
    be nested: `"spec": {"replicas": ..., "ports[*]": {...}}`.

Order
    Errors are returned in the order of the table, which must be the order of kube-apiserver. Adjacent paths
    with a common beginning are visited together: the errors of the first item of a list come before those
    of the second. A list of entries is applied in order and may mix rules, hooks and tables:
    `"spec": [{"replicas": Minimum(0)}, _check_selector, {"strategy": ...}]`.

Missing fields
    A rule ignores a missing field, unless it is `Required` or has a value for `absent`, the zero value of a
    Go field that is not a pointer: `Minimum(1, absent=0)`. A missing object is validated like an empty one,
    as a Go struct would be; write `?` after the name of a pointer (`"spec.healthCheck?.path"`) to skip it.
    The rules after a `Required` apply only if the field is set, those after a rule with `stop` only if
    it holds.

Rules (`validation.rules`)
    `Required`, `Forbidden`, `Minimum`, `Maximum`, `Range`, `Enum`, `MaxLength`, `MaxItems`,
    `ExclusiveWildcard`, `Format` and the constants made with it (`DNS_LABEL`, `DNS_SUBDOMAIN`,
    `QUALIFIED_NAME`, ...), `Union` (exactly one member, or at most one), `Members` (a union with a table per
    member), `Unique` (list maps and sets; an entry of `list[*]`), `MapKeys`, `Switch` (a table per value of a
    discriminator), `When` (a table under a condition), `ReportAt` (where kube-apiserver reports another path
    than that of the field).

Hooks
    Any function of a value and its path that returns errors, such as those of `validation.formats`. Use
    `Check(function, absent={})` to call it for missing fields too, and `Check(function, context=True)` to
    pass it the context that `Rules(table, context=...)` makes from an enclosing object.

Updates
    `UpdateRules` applies its parts in order: a `Rules` to the new object; a table from paths to rules for a
    change (`Immutable()`, or any function of new value, old value and path); a function of the new and the
    old object.

Modules
    - `rules`: rules for single fields
    - `table`: `Rules`, `UpdateRules`, `Immutable` and the code generator
    - `formats`: functions for numbers, names, paths, ports, percentages; `metav1.Condition`
    - `addresses`: IP addresses and CIDR ranges
"""

from .rules import (
    CONFIG_KEY,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    FILE_MODE,
    ID,
    LABEL_VALUE,
    NOT_NEGATIVE,
    OPTIONAL_PORT,
    PATH_SEGMENT,
    PORT,
    PORT_NAME,
    POSITIVE,
    QUALIFIED_NAME,
    Check,
    Enum,
    Errors,
    ExclusiveWildcard,
    Forbidden,
    Format,
    MapKeys,
    Maximum,
    MaxItems,
    MaxLength,
    Minimum,
    Range,
    ReportAt,
    Required,
    Rule,
    Switch,
    Union,
    Unique,
    When,
)
from .table import Entry, Immutable, Members, Rules, Table, UpdateRules, value_at

__all__ = [
    "CONFIG_KEY",
    "DNS_LABEL",
    "DNS_SUBDOMAIN",
    "FILE_MODE",
    "ID",
    "LABEL_VALUE",
    "NOT_NEGATIVE",
    "OPTIONAL_PORT",
    "PATH_SEGMENT",
    "PORT",
    "PORT_NAME",
    "POSITIVE",
    "QUALIFIED_NAME",
    "Check",
    "Entry",
    "Enum",
    "Errors",
    "ExclusiveWildcard",
    "Forbidden",
    "Format",
    "Immutable",
    "MapKeys",
    "MaxItems",
    "MaxLength",
    "Maximum",
    "Members",
    "Minimum",
    "Range",
    "ReportAt",
    "Required",
    "Rule",
    "Rules",
    "Switch",
    "Table",
    "Union",
    "Unique",
    "UpdateRules",
    "When",
    "value_at",
]
