"""Node: defaults, validation, warnings, columns and the proxy to the kubelet.

Kubelets create nodes together with their status, and an update of the status can also change metadata. Pod
CIDRs and the provider ID do not change once they are set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values import names
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.resources.subresource import Subresource, SubresourceRequest
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, NONE, UNKNOWN, age_of, column, name_of
from kubewright.controlplane.kinds.validation import (
    QUALIFIED_NAME,
    Enum,
    Errors,
    ReportAt,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.addresses import legacy_range_errors, range_warnings
from kubewright.schema import field_errors as fe

from .podspec.defaults import round_quantities
from .podspec.resources import quantity_errors
from .podspec.scheduling import EFFECTS


class NodeStrategy(KindStrategy):
    """Nodes: kubelets create them with a status; `status` also changes metadata."""

    status_on_create = True

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Restore the spec in an update of the status."""
        if op.subresource == "status":
            obj["spec"] = old.get("spec") or {}


def _default(obj: Object) -> None:
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


def _check_taint_value(value: str, path: str) -> Errors:
    messages = names.check_label_value(value)
    return [fe.invalid(path, value, ";".join(messages))] if messages else []


def _check_taints(taints: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        errors += _TAINT(taint, where)
        if (key, effect) in seen:
            shown = fe.GoStruct({"Key": key, "Value": taint.get("value") or "", "Effect": effect})
            shown["TimeAdded"] = taint.get("timeAdded")
            error = fe.duplicate(where, shown)
            text = f"{error.message}: taints must be unique by key and effect pair"
            errors.append(FieldError(error.reason, where, text))
        seen.add((key, effect))
    return errors


def _check_amounts(amounts: Object, path: str) -> Errors:
    errors: Errors = []
    for name, text in amounts.items():
        errors += quantity_errors(name, text, f"{path}.{name}")
    return errors


def _check_families(ranges: list[str], path: str) -> Errors:
    if len(ranges) <= 2 and len({":" in value for value in ranges}) == len(ranges):
        return []
    return [fe.invalid(path, ranges, "may specify no more than one CIDR for each IP family")]


def _check_addresses(addresses: list[Object], path: str) -> Errors:
    errors: Errors = []
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            shown = fe.GoStruct({"Type": address.get("type") or "", "Address": address.get("address") or ""})
            errors.append(fe.duplicate(f"{path}[{index}]", shown))
    return errors


def _immutable(name: str) -> Any:
    """Return a check that a field does not change once it is set."""

    def check(new: Any, old: Any, path: str) -> Errors:
        if not old or old == (new or type(old)()):
            return []
        return [fe.forbidden(path, f'node updates may not change {name} except from "" to valid')]

    return check


_TAINT = Rules({"key": QUALIFIED_NAME, "value": _check_taint_value, "effect": [Required(), Enum(*EFFECTS)]})
_TAINTS = Rules({"spec.taints": ReportAt("metadata.taints", _check_taints)})
_CAPACITY = Rules({"status.capacity": _check_amounts, "status.allocatable": _check_amounts})
_UPDATE = UpdateRules(
    _CAPACITY,
    Rules({"status.addresses": _check_addresses}),
    {"spec.podCIDRs": _immutable("podCIDR"), "spec.providerID": _immutable("providerID")},
    _TAINTS,
)


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    if obj["spec"].get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, value in enumerate(obj["spec"].get("podCIDRs") or ()):
        yield from range_warnings(value, f"spec.podCIDRs[{index}]")


def _cells(obj: Object) -> list[Any]:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    addresses: dict[str, str] = {}
    for one in status.get("addresses") or ():
        addresses.setdefault(one.get("type") or "", one.get("address") or "")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        ",".join(states),
        ",".join(_roles(obj)) or NONE,
        age_of(obj),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(obj: Object) -> list[str]:
    roles: set[str] = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return sorted(roles - {""})


def _unschedulable(obj: Object) -> str:
    return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"


async def _proxy(request: SubresourceRequest) -> HTTPResponse:
    from urllib.parse import parse_qsl

    from kubewright.controlplane.kubelets.kubelets import forward_to_node

    from .pod.subresources import split_target

    _, name, _ = split_target(request.name, "node")
    query = parse_qsl(request.request.query.raw, keep_blank_values=True)
    return await forward_to_node(request, name, f"/{request.path.lstrip('/')}", query)


KINDS = {
    "nodes": Kind(
        strategy=NodeStrategy,
        default=_default,
        validate=Rules(
            [_TAINTS, _CAPACITY, {"spec.podCIDRs[*]": legacy_range_errors, "spec.podCIDRs": _check_families}]
        ),
        validate_update=_UPDATE,
        validate_status=_UPDATE,
        warnings=_warnings,
        columns=(
            NAME,
            column("Status", description="The status of the node"),
            column("Roles", description="The roles of the node"),
            AGE,
            column("Version", description="Version of the kubelet."),
            column("Internal-IP", description="Address in the cluster.", wide=True),
            column("External-IP", description="Address outside of the cluster.", wide=True),
            column("OS-Image", description="Operating system.", wide=True),
            column("Kernel-Version", description="Version of the kernel.", wide=True),
            column("Container-Runtime", description="Version of the container runtime.", wide=True),
        ),
        cells=_cells,
        field_selectors={"spec.unschedulable": _unschedulable},
        subresources={
            "status": STATUS,
            "proxy": Subresource(
                handler=_proxy,
                verbs=("create", "delete", "get", "patch", "update"),
                kind=GroupVersionKind("", "v1", "NodeProxyOptions"),
                decodes=False,
                connects=True,
                connect_fields=(("path", "path"),),
            ),
        },
        checks_whole_on_update=True,
        display_prefix="minions",
    )
}
