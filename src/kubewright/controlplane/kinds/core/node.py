"""Nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.subresource import Subresource, SubresourceRequest
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, NONE, age_of, column, name_of
from kubewright.controlplane.kinds.validation.addresses import legacy_range_errors, range_warnings
from kubewright.controlplane.kinds.validation.formats import Errors, label_name
from kubewright.schema import field_errors as fe

from .podspec.defaults import round_quantities
from .podspec.resources import quantity_errors
from .podspec.scheduling import EFFECTS


class NodeStrategy(KindStrategy):
    """The rules of nodes. Kubelets create them with a status, which is kept."""

    status_on_create = True

    def default(self, version: Version, obj: Object) -> None:
        """All of the capacity can be allocated unless told otherwise."""
        spec: Object = obj.setdefault("spec", {})
        ranges = spec.get("podCIDRs") or []
        if spec.get("podCIDR") and spec["podCIDR"] not in ranges[:1]:
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif ranges and not spec.get("podCIDR"):
            spec["podCIDR"] = ranges[0]
        spec.pop("configSource", None)
        status: Object = obj.setdefault("status", {})
        round_quantities(status.get("capacity"))
        round_quantities(status.get("allocatable"))
        if status.get("capacity") and status.get("allocatable") is None:
            status["allocatable"] = dict(status["capacity"])

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Through `status` nothing else changes."""
        if op.subresource == "status":
            obj["spec"] = old.get("spec") or {}

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new node."""
        errors = _taint_errors(obj) + _resource_errors(obj)
        ranges = obj["spec"].get("podCIDRs") or []
        for position, one in enumerate(ranges):
            errors += legacy_range_errors(one, f"spec.podCIDRs[{position}]")
        if len(ranges) > 2 or len({":" in one for one in ranges}) != len(ranges):
            text = "may specify no more than one CIDR for each IP family"
            errors.append(fe.invalid("spec.podCIDRs", ranges, text))
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """A changed node, or a new status of one."""
        errors = _resource_errors(obj)
        seen: list[Object] = []
        for position, address in enumerate((obj.get("status") or {}).get("addresses") or ()):
            if address in seen:
                shown = fe.GoStruct(
                    {"Type": address.get("type") or "", "Address": address.get("address") or ""}
                )
                errors.append(fe.duplicate(f"status.addresses[{position}]", shown))
            seen.append(address)
        after, before = obj["spec"], old["spec"]
        if before.get("podCIDRs") and before["podCIDRs"] != (after.get("podCIDRs") or []):
            text = 'node updates may not change podCIDR except from "" to valid'
            errors.append(fe.forbidden("spec.podCIDRs", text))
        provider = before.get("providerID")
        if provider and provider != after.get("providerID"):
            text = 'node updates may not change providerID except from "" to valid'
            errors.append(fe.forbidden("spec.providerID", text))
        return errors + _taint_errors(obj)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """What nobody looks at any more, and ranges that are written in an odd way."""
        if op.subresource:
            return
        if obj["spec"].get("externalID"):
            yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
        for position, one in enumerate(obj["spec"].get("podCIDRs") or ()):
            yield from range_warnings(one, f"spec.podCIDRs[{position}]")


def _taint_errors(obj: Object) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(obj["spec"].get("taints") or ()):
        where = f"metadata.taints[{position}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        errors += label_name(key, f"{where}.key")
        wrong = names.check_label_value(taint.get("value") or "")
        if wrong:
            errors.append(fe.invalid(f"{where}.value", taint.get("value"), ";".join(wrong)))
        if not effect:
            errors.append(fe.required(f"{where}.effect", ""))
        elif effect not in EFFECTS:
            errors.append(fe.not_supported(f"{where}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            shown = fe.GoStruct({"Key": key, "Value": taint.get("value") or "", "Effect": effect})
            shown["TimeAdded"] = taint.get("timeAdded")
            error = fe.duplicate(where, shown)
            text = f"{error.message}: taints must be unique by key and effect pair"
            errors.append(FieldError(error.reason, where, text))
        seen.add((key, effect))
    return errors


def _resource_errors(obj: Object) -> Errors:
    status = obj.get("status") or {}
    return [
        error
        for field in ("capacity", "allocatable")
        for name, text in (status.get(field) or {}).items()
        for error in quantity_errors(name, text, f"status.{field}.{name}")
    ]


def cells(obj: Object) -> list[Any]:
    """The row of a node."""
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    addresses: dict[str, str] = {}
    for one in status.get("addresses") or ():
        addresses.setdefault(one.get("type") or "", one.get("address") or "")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        ",".join(words),
        ",".join(_roles(obj)) or NONE,
        age_of(obj),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(obj: Object) -> list[str]:
    roles: set[str] = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return sorted(roles - {""})


COLUMNS = (
    NAME,
    column("Status", description="The status of the node"),
    column("Roles", description="The roles of the node"),
    AGE,
    column("Version", description="The version of the kubelet."),
    column("Internal-IP", description="The address inside the cluster.", wide=True),
    column("External-IP", description="The address outside of the cluster.", wide=True),
    column("OS-Image", description="The operating system.", wide=True),
    column("Kernel-Version", description="The version of the kernel.", wide=True),
    column("Container-Runtime", description="What runs the containers.", wide=True),
)


def _unschedulable(obj: Object) -> str:
    return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"


FIELD_SELECTORS = {"spec.unschedulable": _unschedulable}


async def _proxy(asked: SubresourceRequest) -> HTTPResponse:
    from .pod.subresources import no_kubelet

    await asked.get()
    raise no_kubelet(asked.name)


PROXY = Subresource(
    handler=_proxy,
    verbs=("create", "delete", "get", "patch", "update"),
    kind=GroupVersionKind("", "v1", "NodeProxyOptions"),
    decodes=False,
    connects=True,
)
