"""Values of claim specs in error messages, as Go formats them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.schema import field_errors as fe


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
