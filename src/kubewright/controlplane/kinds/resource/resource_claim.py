"""ResourceClaim and ResourceClaimTemplate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.volumes import template_metadata_errors
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, field
from kubewright.controlplane.kinds.storage.csi_driver import driver_name_errors
from kubewright.controlplane.kinds.validation import (
    Check,
    Errors,
    Immutable,
    MaxItems,
    Required,
    Rules,
    Table,
    Unique,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.addresses import parse_range
from kubewright.controlplane.kinds.validation.formats import CONDITIONS
from kubewright.schema import field_errors as fe

from .claim_spec import CLAIM_SPEC_RULES, DEVICE_NAME, UNKNOWN_REQUEST, claim_defaults, request_names
from .resource_slice import STORED_FORMER, pool_name_errors

_DeviceID = tuple[str, ...]


def _device_id(device: Object) -> _DeviceID:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _allocated_devices(claim: Object) -> set[_DeviceID]:
    return {_device_id(result) for result in field(claim, "status.allocation.devices.results", ())}


class ResourceClaimStrategy(KindStrategy):
    """Removes the status of devices that are no longer allocated."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Remove the status of deallocated devices."""
        super().prepare_for_update(op, obj, old)
        status = obj.get("status") or {}
        deallocated = _allocated_devices(old) - _allocated_devices(obj)
        if op.subresource == "status" and deallocated and status.get("devices"):
            status["devices"] = [one for one in status["devices"] if _device_id(one) not in deallocated]
            if not status["devices"]:
                del status["devices"]


# Status


def _known_request(request: str, path: str, known: set[str]) -> Errors:
    return [] if request in known else [fe.invalid(path, request, UNKNOWN_REQUEST)]


def _allocated_device(device: Object, path: str, allocated: set[_DeviceID]) -> Errors:
    device_id = _device_id(device)
    if device_id in allocated:
        return []
    value = fe.GoStruct(zip(("Driver", "Pool", "Device", "ShareID"), device_id, strict=True))
    return [fe.invalid(path, value, "must be an allocated device in the claim")]


def _interface_address(value: str, path: str) -> Errors:
    if parse_range(value) is not None:
        return []
    text = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    return [fe.invalid(path, value, text)]


_DEVICE: Table = {
    "driver": Check(driver_name_errors, absent=""),
    "pool": Check(pool_name_errors, absent=""),
    "device": DEVICE_NAME,
}
RESERVATION_RULES = Rules(
    {
        "status.reservedFor": MaxItems(256, stop=True),
        "status.reservedFor[*]": [
            {"resource": Required(), "name": Required(), "uid": Required()},
            Unique("uid", at="", last=True),
        ],
    }
)
ALLOCATION_RULES = Rules(
    {
        "status.allocation.devices.results": MaxItems(32, stop=True),
        "status.allocation.devices.results[*]": [
            {"request": Check(_known_request, absent="", context=True)},
            _DEVICE,
        ],
    },
    context=lambda claim: request_names(claim.get("spec") or {}),
)
DEVICE_RULES = Rules(
    {
        "status.devices[*]": [
            _DEVICE,
            Check(_allocated_device, context=True),
            {"conditions": CONDITIONS, "networkData.ips[*]": _interface_address},
        ],
    },
    context=_allocated_devices,
)


def _reservation_errors(new: Object, old: Object) -> Errors:
    reserved, path = field(new, "status.reservedFor", []), "status.reservedFor"
    before = field(old, "status.reservedFor", [])
    if reserved and field(new, "status.allocation") is None:
        return [fe.forbidden(path, "may not be specified when `allocated` is not set")]
    if new["metadata"].get("deletionTimestamp") and any(user not in before for user in reserved):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [fe.forbidden(path, text)]
    return []


def _allocation_errors(new: Object, old: Object) -> Errors:
    allocation, before = field(new, "status.allocation"), field(old, "status.allocation")
    if allocation is None:
        return []
    if before is None:
        return ALLOCATION_RULES(new)
    return Immutable()(allocation, before, "status.allocation")


def _state_text(obj: Object) -> str:
    is_deleting = "deletionTimestamp" in obj["metadata"]
    states = ["deleted"] if is_deleting else []
    if field(obj, "status.allocation") is None:
        states += [] if is_deleting else ["pending"]
    else:
        states.append("allocated")
        if field(obj, "status.reservedFor"):
            states.append("reserved")
    return ",".join(states)


def _kind(**fields: Any) -> Kind:
    return Kind(returns_deleted_object=True, checks_whole_on_update=True, former=STORED_FORMER, **fields)


def claim_spec_value(spec: Object | None) -> fe.GoStruct:
    """Return the spec of a claim."""
    devices = (spec or {}).get("devices") or {}
    requests = devices.get("requests")
    return fe.GoStruct(
        Devices=fe.GoStruct(
            Requests=None if requests is None else [_request(one) for one in requests],
            Constraints=_each(devices.get("constraints"), _constraint),
            Config=_each(devices.get("config"), _configuration),
        )
    )


def template_spec_value(spec: Object | None) -> fe.GoStruct:
    """Return the spec of a template: the metadata has JSON names, the rest has Go names."""
    metadata = (spec or {}).get("metadata") or {}
    shown = fe.GoStruct((name, metadata[name]) for name in ("labels", "annotations") if metadata.get(name))
    shown["Spec"] = claim_spec_value((spec or {}).get("spec"))
    return shown


def _each(items: list[Any] | None, convert: Callable[[Any], Any]) -> list[Any] | None:
    return None if items is None else [convert(item) for item in items]


def _request(request: Object) -> fe.GoStruct:
    exactly = request.get("exactly")
    return fe.GoStruct(
        Name=request.get("name") or "",
        Exactly=None if exactly is None else _devices(exactly, AdminAccess=exactly.get("adminAccess")),
        FirstAvailable=_each(request.get("firstAvailable"), _subrequest),
    )


def _subrequest(request: Object) -> fe.GoStruct:
    return fe.GoStruct(Name=request.get("name") or "", **_devices(request))


def _devices(request: Object, **more: Any) -> fe.GoStruct:
    return fe.GoStruct(
        DeviceClassName=request.get("deviceClassName") or "",
        Selectors=_each(request.get("selectors"), _selector),
        AllocationMode=request.get("allocationMode") or "",
        Count=request.get("count") or 0,
        **more,
        Tolerations=_each(request.get("tolerations"), _toleration),
        Capacity=_capacity(request.get("capacity")),
    )


def _capacity(capacity: Object | None) -> fe.GoStruct | None:
    return None if capacity is None else fe.GoStruct(Requests=capacity.get("requests"))


def _selector(selector: Object) -> fe.GoStruct:
    cel = selector.get("cel")
    return fe.GoStruct(CEL=None if cel is None else fe.GoStruct(Expression=cel.get("expression") or ""))


def _toleration(toleration: Object) -> fe.GoStruct:
    texts = {name.title(): toleration.get(name) or "" for name in ("key", "operator", "value", "effect")}
    return fe.GoStruct(**texts, TolerationSeconds=toleration.get("tolerationSeconds"))


def _constraint(constraint: Object) -> fe.GoStruct:
    return fe.GoStruct(
        Requests=constraint.get("requests"),
        MatchAttribute=constraint.get("matchAttribute"),
        DistinctAttribute=constraint.get("distinctAttribute"),
    )


def _configuration(configuration: Object) -> fe.GoStruct:
    opaque = configuration.get("opaque")
    shown = opaque and fe.GoStruct(Driver=opaque.get("driver") or "", Parameters=opaque.get("parameters"))
    return fe.GoStruct(Requests=configuration.get("requests"), Opaque=shown)


KINDS = {
    "resourceclaims": _kind(
        strategy=ResourceClaimStrategy,
        default=claim_defaults("spec"),
        validate=Rules({"spec": CLAIM_SPEC_RULES}),
        validate_update=UpdateRules({"spec": Immutable(show=claim_spec_value)}),
        validate_status=UpdateRules(RESERVATION_RULES, _reservation_errors, _allocation_errors, DEVICE_RULES),
        status_keeps_metadata=True,
        columns=(column("State", _state_text, description="State of the claim."), AGE),
    ),
    "resourceclaimtemplates": _kind(
        default=claim_defaults("spec.spec"),
        validate=Rules(
            {
                "spec.metadata": Check(template_metadata_errors, absent={}),
                "spec.spec": CLAIM_SPEC_RULES,
            }
        ),
        validate_update=UpdateRules({"spec": Immutable(show=template_spec_value)}),
        columns=(AGE,),
    ),
}
