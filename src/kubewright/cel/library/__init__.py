"""Function libraries of the CEL environment of Kubernetes, one module per library.

- `address_problems`: error messages for invalid IP addresses and prefixes, with the wording of Go's net/netip
- `authorization`: authorization checks:
  `authorizer.group('apps').resource('deployments').check('create').allowed()`
- `conversions`: type conversions: `int(x)`, `string(x)`, `type(x)` and others
- `jsonpatch`: `jsonpatch.escapeKey`, and the insertion into a map that the map macros use
- `lists`: functions on lists: order, sums, positions, slices, sorting, ranges
- `named_formats`: `format.dns1123Label().validate(text)` returns the errors of a text, if any
- `network`: IP addresses and CIDR ranges
- `operators`: operators on values of any type: arithmetic, order, indexing, membership and size
- `optionals`: optional values: constructors, accessors, chaining
- `quantity`: quantities: amounts like `100m` or `1Gi`, by `kubewright.api.values.quantity`
- `regex`: regular expressions by RE2, which matches in linear time
- `semver`: semantic versions (2.0), strict or, with `normalize`, after completing short versions
- `sets`: set operations on lists: containment, equivalence, intersection
- `strings`: functions on strings: searching, cutting, changing case, joining, quoting, `format`
- `time`: timestamps and durations: parsing, formatting and accessors
- `url`: URLs, absolute or starting with a slash, parsed as Go's net/url does
"""

from __future__ import annotations

from functools import cache

from kubewright.cel.checking.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_type,
    map_type,
    opaque_type,
    optional_type,
)
from kubewright.cel.functions import FunctionTable
from kubewright.cel.library import (
    authorization,
    conversions,
    jsonpatch,
    lists,
    named_formats,
    network,
    operators,
    optionals,
    quantity,
    regex,
    semver,
    sets,
    strings,
    time,
    url,
)

_MODULES = (
    operators,
    conversions,
    time,
    strings,
    lists,
    sets,
    regex,
    url,
    network,
    quantity,
    semver,
    named_formats,
    optionals,
    authorization,
    jsonpatch,
)


@cache
def standard_functions(missing: frozenset[str] = frozenset()) -> FunctionTable:
    """Return all functions of the environment except those that are missing."""
    every = (overload for module in _MODULES for overload in module.OVERLOADS)
    return FunctionTable(overload for overload in every if overload.function not in missing)


@cache
def patch_functions(missing: frozenset[str] = frozenset()) -> FunctionTable:
    """The functions of expressions that construct JSON patches."""
    every = [overload for module in _MODULES for overload in module.OVERLOADS]
    usable = [overload for overload in every if overload.function not in missing]
    return FunctionTable([*usable, *jsonpatch.POLICY_OVERLOADS])


@cache
def type_names() -> dict[str, Type]:
    """Return the types that can be used as values."""
    named = {
        item.name: item for item in (BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, TYPE, UINT)
    }
    named["list"] = list_type(DYN)
    named["map"] = map_type(DYN, DYN)
    named["optional_type"] = optional_type(DYN)
    for name in (
        "kubernetes.URL",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.NamedFormat",
        "net.IP",
        "net.CIDR",
        *authorization.TYPE_NAMES,
    ):
        named[name] = opaque_type(name)
    return named
