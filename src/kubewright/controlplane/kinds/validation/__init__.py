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

from .rules import CONFIG_KEY as CONFIG_KEY
from .rules import DNS_LABEL as DNS_LABEL
from .rules import DNS_SUBDOMAIN as DNS_SUBDOMAIN
from .rules import FILE_MODE as FILE_MODE
from .rules import ID as ID
from .rules import LABEL_VALUE as LABEL_VALUE
from .rules import NOT_NEGATIVE as NOT_NEGATIVE
from .rules import OPTIONAL_PORT as OPTIONAL_PORT
from .rules import PATH_SEGMENT as PATH_SEGMENT
from .rules import PORT as PORT
from .rules import PORT_NAME as PORT_NAME
from .rules import POSITIVE as POSITIVE
from .rules import QUALIFIED_NAME as QUALIFIED_NAME
from .rules import Check as Check
from .rules import Enum as Enum
from .rules import Errors as Errors
from .rules import ExclusiveWildcard as ExclusiveWildcard
from .rules import Forbidden as Forbidden
from .rules import Format as Format
from .rules import MapKeys as MapKeys
from .rules import Maximum as Maximum
from .rules import MaxItems as MaxItems
from .rules import MaxLength as MaxLength
from .rules import Minimum as Minimum
from .rules import Range as Range
from .rules import ReportAt as ReportAt
from .rules import Required as Required
from .rules import Rule as Rule
from .rules import Switch as Switch
from .rules import Union as Union
from .rules import Unique as Unique
from .rules import When as When
from .table import Entry as Entry
from .table import Immutable as Immutable
from .table import Members as Members
from .table import Rules as Rules
from .table import Table as Table
from .table import UpdateRules as UpdateRules
from .table import value_at as value_at
