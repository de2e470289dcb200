"""Function libraries of the CEL environment of Kubernetes 1.36, one module per library."""

from __future__ import annotations

from functools import cache

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
from kubewright.cel.types import (
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
def standard_functions() -> FunctionTable:
    """Return all functions of the environment."""
    return FunctionTable(overload for module in _MODULES for overload in module.OVERLOADS)


@cache
def patch_functions() -> FunctionTable:
    """The functions of expressions that construct JSON patches."""
    every = [overload for module in _MODULES for overload in module.OVERLOADS]
    return FunctionTable([*every, *jsonpatch.POLICY_OVERLOADS])


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
