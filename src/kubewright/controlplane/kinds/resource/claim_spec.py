"""Defaults and validation of the spec of a ResourceClaim, also in a ResourceClaimTemplate."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kubewright.api.values.go_format import marshal_json
from kubewright.api.values.names import check_dns_label, check_qualified_name
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.admissionregistration.matching import expression_errors
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.storage.csi_driver import driver_name_errors
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    Check,
    Entry,
    Enum,
    Errors,
    Format,
    MaxItems,
    Minimum,
    Required,
    Rules,
    Switch,
    Table,
    Unique,
    When,
)
from kubewright.controlplane.kinds.validation.formats import dns_label
from kubewright.schema import field_errors as fe

from .resource_slice import TAINT_EFFECT, fully_qualified_errors

if TYPE_CHECKING:
    from kubewright import cel

_MAX_EXPRESSION_LENGTH = _MAX_PARAMETERS_LENGTH = 10 * 1024
UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
UNIQUE_NAME = Unique("name", at="", last=True)
DEVICE_NAME = Format(check_dns_label, absent="")


def _default_count(request: Object) -> None:
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def claim_defaults(prefix: str) -> Defaults:
    """Return the defaults of a claim spec at a path."""
    table: dict[str, Any] = {}
    for path in ("requests[*].exactly", "requests[*].firstAvailable[*]"):
        request = f"{prefix}.devices.{path}"
        table |= {
            f"{request}.allocationMode": IfEmpty("ExactCount"),
            request: _default_count,
            f"{request}.tolerations[*].operator": IfEmpty("Equal"),
        }
    return Defaults(table)


def request_names(spec: Object) -> set[str]:
    """Return the names of all requests and subrequests of a claim."""
    names: set[str] = set()
    for request in (spec.get("devices") or {}).get("requests") or ():
        name = request.get("name") or ""
        names.add(name)
        names.update(f"{name}/{one.get('name') or ''}" for one in request.get("firstAvailable") or ())
    return names


# Selectors and configuration, also of device classes


@cache
def _selector_environment() -> cel.Env:
    from kubewright import cel

    device = {
        "driver": cel.STRING,
        "attributes": cel.map_type(cel.STRING, cel.map_type(cel.STRING, cel.DYN)),
        "capacity": cel.map_type(
            cel.STRING, cel.map_type(cel.STRING, cel.opaque_type("kubernetes.Quantity"))
        ),
        "allowMultipleAllocations": cel.BOOL,
    }
    return cel.Env({"device": cel.object_type("kubernetes.DRADevice", device)}, bindings=True)


def _selector_expression_errors(text: str, path: str) -> Errors:
    if len(text.encode()) > _MAX_EXPRESSION_LENGTH:
        return [fe.too_long(path, _MAX_EXPRESSION_LENGTH)]
    from kubewright import cel

    env = _selector_environment()
    errors = expression_errors(env, text, path)
    if errors:
        return errors
    result = env.check(text).type
    if result.same(cel.BOOL) or result.same(cel.DYN):
        return []
    return [fe.invalid(path, text, f"must evaluate to bool or the unknown type, not {result}")]


def _parameters_errors(parameters: Any, path: str) -> Errors:
    if not isinstance(parameters, dict):
        return [fe.invalid(path, "<value omitted>", "must be a valid JSON object")]
    is_long = len(marshal_json(parameters).encode()) > _MAX_PARAMETERS_LENGTH
    return [fe.too_long(path, _MAX_PARAMETERS_LENGTH)] if is_long else []


SELECTORS: Entry = [
    MaxItems(32, stop=True),
    {
        "[*].cel": [
            Required(pointer=True),
            {"expression": Check(_selector_expression_errors, absent="")},
        ]
    },
]
CONFIGURATION: Table = {
    "opaque": [
        Required(pointer=True),
        {
            "driver": Check(driver_name_errors, absent=""),
            "parameters": [Required(pointer=True), _parameters_errors],
        },
    ]
}


# Requests


def _no_count(count: int, path: str) -> Errors:
    if not count:
        return []
    return [fe.invalid(path, count, "must not be specified when allocationMode is 'All'")]


def _no_value(value: str, path: str) -> Errors:
    return [fe.invalid(path, value, "must be empty for operator `Exists`")] if value else []


_TOLERATION: Table = {
    "key": Format(check_qualified_name),
    "": Switch("operator", {"Exists": {"value": _no_value}, "Equal": {"value": LABEL_VALUE}}),
    "operator": [Required(), Enum("Equal", "Exists")],
    "effect": When(bool, TAINT_EFFECT),
}
_DEVICES: Table = {
    "deviceClassName": [Required(), DNS_SUBDOMAIN],
    "selectors": SELECTORS,
    "": Switch(
        "allocationMode",
        {
            "All": {"count": _no_count},
            "ExactCount": {"count": Minimum(1, "must be greater than zero", absent=0)},
        },
    ),
    "allocationMode": Enum("All", "ExactCount", absent=""),
    "tolerations[*]": _TOLERATION,
}


def _request_type_errors(request: Object, path: str) -> Errors:
    text = "exactly one of `exactly` or `firstAvailable` is required"
    exactly, choices = request.get("exactly") is not None, bool(request.get("firstAvailable"))
    if exactly and choices:
        return [fe.invalid(path, None, f"{text}, but multiple fields are set")]
    return [] if exactly or choices else [fe.required(path, text)]


_REQUEST: Entry = [
    {"name": DEVICE_NAME},
    _request_type_errors,
    When(lambda request: not request.get("firstAvailable"), {"exactly?": _DEVICES}),
    When(
        lambda request: request.get("exactly") is None,
        {
            "firstAvailable": [
                MaxItems(8, stop=True),
                {"[*]": [{"name": DEVICE_NAME}, _DEVICES, UNIQUE_NAME]},
            ]
        },
    ),
]


def _request_reference_errors(name: str, path: str, known: set[str]) -> Errors:
    segments = name.split("/")
    if len(segments) > 2:
        return [fe.invalid(path, name, UNKNOWN_REQUEST)]
    errors = [error for segment in segments for error in dns_label(segment, path)]
    return errors if name in known else [*errors, fe.invalid(path, name, UNKNOWN_REQUEST)]


_REQUEST_REFERENCES: Entry = [
    MaxItems(32, stop=True),
    {"[*]": [Check(_request_reference_errors, context=True), Unique(last=True)]},
]


def _constraint_errors(constraint: Object, path: str) -> Errors:
    for name in ("matchAttribute", "distinctAttribute"):
        if constraint.get(name) is not None:
            return fully_qualified_errors(constraint[name], f"{path}.{name}")
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [fe.required(path, text)]


CLAIM_SPEC_RULES = Rules(
    {
        "devices.requests": MaxItems(32, stop=True),
        "devices.requests[*]": [_REQUEST, UNIQUE_NAME],
        "devices.constraints": MaxItems(32, stop=True),
        "devices.constraints[*]": [{"requests": _REQUEST_REFERENCES}, _constraint_errors],
        "devices.config": MaxItems(32, stop=True),
        "devices.config[*]": [{"requests": _REQUEST_REFERENCES}, CONFIGURATION],
    },
    context=request_names,
)
