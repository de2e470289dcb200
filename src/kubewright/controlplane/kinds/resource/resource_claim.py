"""Claims for devices and classes of devices: `resource.k8s.io`. What a claim asks for never changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from kubewright.api.go_format import marshal_json
from kubewright.api.names import check_label_value
from kubewright.apiserver.objects import Object
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.admissionregistration.matching import expression_errors
from kubewright.controlplane.kinds.core.podspec.resources import is_native
from kubewright.controlplane.kinds.core.podspec.volumes import template_metadata_errors
from kubewright.controlplane.kinds.kind import Kind, KindStrategy, check_complete_name
from kubewright.controlplane.kinds.printing import AGE, column, field
from kubewright.controlplane.kinds.storage.csi_driver import driver_name_errors
from kubewright.controlplane.kinds.validation.addresses import parse_range
from kubewright.controlplane.kinds.validation.conditions import condition_list_errors
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    dns_label,
    dns_subdomain,
    immutable,
    label_name,
    named,
)
from kubewright.schema import field_errors as fe

from .claim_values import claim_spec_shape, template_spec_shape
from .resource_slice import RESOURCE_SLICE, TAINT_EFFECTS, fully_qualified_errors, pool_name_errors

if TYPE_CHECKING:
    from kubewright import cel

_LONGEST = 10 * 1024
_NO_SUCH_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_NO_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"


def list_errors(
    items: list[Any],
    most: int,
    check: Callable[[Any, str], Errors],
    path: str,
    key: Callable[[Any], Hashable] | None = None,
) -> Errors:
    """Errors of a list: too many, its items, and items that have the same key."""
    if 0 <= most < len(items):
        return [fe.too_many(path, len(items), most)]
    errors = [error for position, item in enumerate(items) for error in check(item, f"{path}[{position}]")]
    seen: set[Hashable] = set()
    for position, item in enumerate(items if key is not None else ()):
        assert key is not None
        found = key(item)
        if found in seen:
            errors.append(fe.duplicate(f"{path}[{position}]", found))
        seen.add(found)
    return errors


# Claims


def _requests(spec: Object) -> Iterator[Object]:
    """Everything in a claim that asks for devices of a class."""
    for request in field(spec, "devices.requests", ()):
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _default_claim_spec(spec: Object | None) -> None:
    for request in _requests(spec or {}):
        if not request.get("allocationMode"):
            request["allocationMode"] = "ExactCount"
        if request["allocationMode"] == "ExactCount" and not request.get("count"):
            request["count"] = 1
        for toleration in request.get("tolerations") or ():
            if not toleration.get("operator"):
                toleration["operator"] = "Equal"


def _claim_spec_errors(spec: Object, path: str) -> Errors:
    devices, where = spec.get("devices") or {}, f"{path}.devices"
    known = _request_names(devices)

    def constraint_errors(constraint: Object, path: str) -> Errors:
        errors = _reference_errors(constraint.get("requests") or [], known, f"{path}.requests")
        for name in ("matchAttribute", "distinctAttribute"):
            if constraint.get(name) is not None:
                return errors + fully_qualified_errors(constraint[name], f"{path}.{name}")
        text = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        return [*errors, fe.required(path, text)]

    def configuration_errors(configuration: Object, path: str) -> Errors:
        errors = _reference_errors(configuration.get("requests") or [], known, f"{path}.requests")
        return errors + _configuration_errors(configuration, path)

    errors = list_errors(
        devices.get("requests") or [],
        32,
        _request_errors,
        f"{where}.requests",
        lambda one: one.get("name") or "",
    )
    errors += list_errors(devices.get("constraints") or [], 32, constraint_errors, f"{where}.constraints")
    return errors + list_errors(devices.get("config") or [], 32, configuration_errors, f"{where}.config")


def _request_names(devices: Object) -> set[str]:
    names: set[str] = set()
    for request in devices.get("requests") or ():
        name = request.get("name") or ""
        names.add(name)
        names.update(f"{name}/{one.get('name') or ''}" for one in request.get("firstAvailable") or ())
    return names


def _reference_errors(names: list[str], known: Collection[str], path: str) -> Errors:
    def check(name: str, path: str) -> Errors:
        segments = name.split("/")
        if len(segments) > 2:
            return [fe.invalid(path, name, _NO_SUCH_REQUEST)]
        errors = [error for segment in segments for error in dns_label(segment, path)]
        return errors if name in known else [*errors, fe.invalid(path, name, _NO_SUCH_REQUEST)]

    return list_errors(names, 32, check, path, lambda name: name)


def _request_errors(request: Object, path: str) -> Errors:
    errors = dns_label(request.get("name") or "", f"{path}.name")
    exactly, choices = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not choices:
        return [*errors, fe.required(path, _ONE_KIND)]
    if exactly is not None and choices:
        return [*errors, fe.invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if exactly is not None:
        return errors + _exact_errors(exactly, f"{path}.exactly")

    def check(choice: Object, path: str) -> Errors:
        return dns_label(choice.get("name") or "", f"{path}.name") + _exact_errors(choice, path)

    where = f"{path}.firstAvailable"
    return errors + list_errors(choices, 8, check, where, lambda one: one.get("name") or "")


def _exact_errors(request: Object, path: str) -> Errors:
    name, where = request.get("deviceClassName") or "", f"{path}.deviceClassName"
    errors = dns_subdomain(name, where) if name else [fe.required(where, "")]
    errors += list_errors(request.get("selectors") or [], 32, _selector_errors, f"{path}.selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            errors.append(fe.invalid(f"{path}.count", count, text))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(fe.invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        errors.append(fe.not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    for position, toleration in enumerate(request.get("tolerations") or ()):
        errors += _toleration_errors(toleration, f"{path}.tolerations[{position}]")
    return errors


def _toleration_errors(toleration: Object, path: str) -> Errors:
    errors = label_name(toleration["key"], f"{path}.key") if toleration.get("key") else []
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if operator == "Exists":
        if value:
            errors.append(fe.invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += named(check_label_value, value, f"{path}.value")
    elif not operator:
        errors.append(fe.required(f"{path}.operator", ""))
    else:
        errors.append(fe.not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    effect = toleration.get("effect") or ""
    if effect and effect not in TAINT_EFFECTS:
        errors.append(fe.not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
    return errors


@cache
def _selector_environment() -> cel.Env:
    from kubewright import cel

    text = cel.STRING
    device = {
        "driver": text,
        "attributes": cel.map_type(text, cel.map_type(text, cel.DYN)),
        "capacity": cel.map_type(text, cel.map_type(text, cel.opaque_type("kubernetes.Quantity"))),
        "allowMultipleAllocations": cel.BOOL,
    }
    return cel.Env({"device": cel.object_type("kubernetes.DRADevice", device)}, bindings=True)


def _selector_errors(selector: Object, path: str) -> Errors:
    expression = selector.get("cel")
    if expression is None:
        return [fe.required(f"{path}.cel", "")]
    text, where = expression.get("expression") or "", f"{path}.cel.expression"
    if len(text.encode()) > _LONGEST:
        return [fe.too_long(where, _LONGEST)]
    from kubewright import cel

    env = _selector_environment()
    errors = expression_errors(env, text, where)
    if errors:
        return errors
    result = env.check(text).type
    if result.same(cel.BOOL) or result.same(cel.DYN):
        return []
    return [fe.invalid(where, text, f"must evaluate to bool or the unknown type, not {result}")]


def _configuration_errors(configuration: Object, path: str) -> Errors:
    opaque = configuration.get("opaque")
    if opaque is None:
        return [fe.required(f"{path}.opaque", "")]
    errors = driver_name_errors(opaque.get("driver") or "", f"{path}.opaque.driver")
    parameters, where = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        errors.append(fe.required(where, ""))
    elif not isinstance(parameters, dict):
        errors.append(fe.invalid(where, "<value omitted>", "must be a valid JSON object"))
    elif len(marshal_json(parameters).encode()) > _LONGEST:
        errors.append(fe.too_long(where, _LONGEST))
    return errors


def _claim_status_errors(new: Object, old: Object) -> Errors:
    status, before = new.get("status") or {}, old.get("status") or {}
    reserved, path = status.get("reservedFor") or [], "status.reservedFor"

    def check(user: Object, path: str) -> Errors:
        return [
            fe.required(f"{path}.{name}", "") for name in ("resource", "name", "uid") if not user.get(name)
        ]

    errors = list_errors(reserved, 256, check, path, lambda user: user.get("uid") or "")
    allocation, allocated = status.get("allocation"), before.get("allocation")
    if reserved and allocation is None:
        errors.append(fe.forbidden(path, "may not be specified when `allocated` is not set"))
    elif new["metadata"].get("deletionTimestamp") and any(
        user not in (before.get("reservedFor") or ()) for user in reserved
    ):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(fe.forbidden(path, text))
    if allocation is not None and allocated is not None:
        errors += immutable(allocation, allocated, "status.allocation")
    elif allocation is not None:
        errors += _allocation_errors(allocation, _request_names(field(new, "spec.devices", {})))
    return errors + _device_status_errors(new)


def _device_errors(device: Object, path: str) -> Errors:
    """The three names of a device."""
    errors = driver_name_errors(device.get("driver") or "", f"{path}.driver")
    errors += pool_name_errors(device.get("pool") or "", f"{path}.pool")
    return errors + dns_label(device.get("device") or "", f"{path}.device")


_DEVICE = ("driver", "pool", "device", "shareID")


def _allocated(claim: Object) -> set[tuple[str, ...]]:
    results = field(claim, "status.allocation.devices.results", ())
    return {tuple(result.get(name) or "" for name in _DEVICE) for result in results}


class _ClaimStrategy(KindStrategy):
    """What is known about a device of a claim goes with the device."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Forget devices that are no longer allocated."""
        super().prepare_for_update(op, obj, old)
        status = obj.get("status") or {}
        gone = _allocated(old) - _allocated(obj)
        if op.subresource == "status" and gone and status.get("devices"):
            kept = [
                device
                for device in status["devices"]
                if tuple(device.get(name) or "" for name in _DEVICE) not in gone
            ]
            if kept:
                status["devices"] = kept
            else:
                del status["devices"]


def _device_status_errors(claim: Object) -> Errors:
    allocated, status = _allocated(claim), claim.get("status") or {}
    errors: Errors = []
    for position, device in enumerate(status.get("devices") or ()):
        path = f"status.devices[{position}]"
        errors += _device_errors(device, path)
        device_id = tuple(device.get(name) or "" for name in _DEVICE)
        if device_id not in allocated:
            shape = fe.GoStruct(zip(("Driver", "Pool", "Device", "ShareID"), device_id, strict=True))
            errors.append(fe.invalid(path, shape, "must be an allocated device in the claim"))
        errors += condition_list_errors(device.get("conditions") or (), f"{path}.conditions")
        for index, address in enumerate(field(device, "networkData.ips", ())):
            if parse_range(address) is None:
                errors.append(fe.invalid(f"{path}.networkData.ips[{index}]", address, _NO_ADDRESS))
    return errors


def _allocation_errors(allocation: Object, known: Collection[str]) -> Errors:
    def check(result: Object, path: str) -> Errors:
        errors: Errors = []
        if result.get("request") not in known:
            errors.append(fe.invalid(f"{path}.request", result.get("request") or "", _NO_SUCH_REQUEST))
        return errors + _device_errors(result, path)

    results = field(allocation, "devices.results", [])
    return list_errors(results, 32, check, "status.allocation.devices.results")


def _claim_state(claim: Object) -> str:
    deleting = "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if deleting else []
    if field(claim, "status.allocation") is None:
        states += [] if deleting else ["pending"]
    else:
        states.append("allocated")
        if field(claim, "status.reservedFor"):
            states.append("reserved")
    return ",".join(states)


# Classes


def _class_errors(device_class: Object, old: Object | None = None) -> Errors:
    spec, before = device_class.get("spec") or {}, (old or {}).get("spec") or {}
    errors: Errors = []
    if old is None or spec.get("selectors") != before.get("selectors"):
        errors += list_errors(spec.get("selectors") or [], 32, _selector_errors, "spec.selectors")
    errors += list_errors(spec.get("config") or [], 32, _configuration_errors, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        text = "must be a valid extended resource name"
        errors.append(fe.invalid("spec.extendedResourceName", name, text))
    return errors


def _is_extended(name: str) -> bool:
    return not (is_native(name) or name.startswith("requests.") or label_name(f"requests.{name}", ""))


def _template_errors(template: Object) -> Errors:
    errors = template_metadata_errors(field(template, "spec.metadata", {}), "spec.metadata")
    return errors + _claim_spec_errors(field(template, "spec.spec", {}), "spec.spec")


def _default_claim(claim: Object) -> None:
    _default_claim_spec(claim.get("spec"))


def _default_template(template: Object) -> None:
    _default_claim_spec(field(template, "spec.spec"))


def _claim_change(new: Object, old: Object) -> Errors:
    if new.get("spec") == old.get("spec"):
        return []
    return [fe.invalid("spec", claim_spec_shape(new.get("spec")), "field is immutable")]


def _template_change(new: Object, old: Object) -> Errors:
    if new.get("spec") == old.get("spec"):
        return []
    return [fe.invalid("spec", template_spec_shape(new.get("spec")), "field is immutable")]


KINDS = {
    "deviceclasses": Kind(
        validate=_class_errors,
        validate_update=_class_errors,
        generation_fields=("spec",),
        returns_deleted_object=True,
        validate_name=check_complete_name,
        columns=(AGE,),
        checks_whole_on_update=True,
    ),
    "resourceclaims": Kind(
        strategy=_ClaimStrategy,
        default=_default_claim,
        validate=lambda claim: _claim_spec_errors(claim.get("spec") or {}, "spec"),
        validate_update=_claim_change,
        validate_status=_claim_status_errors,
        status_keeps_metadata=True,
        returns_deleted_object=True,
        columns=(column("State", _claim_state, description="What has become of it."), AGE),
        checks_whole_on_update=True,
    ),
    "resourceclaimtemplates": Kind(
        default=_default_template,
        validate=_template_errors,
        validate_update=_template_change,
        returns_deleted_object=True,
        columns=(AGE,),
        checks_whole_on_update=True,
    ),
    "resourceslices": RESOURCE_SLICE,
}
