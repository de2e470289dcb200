"""IPAddress and ServiceCIDR."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, age_of, column, field, name_of, shown
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    PATH_SEGMENT,
    Errors,
    Immutable,
    MaxItems,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.addresses import (
    parse_range,
    strict_ip_errors,
    strict_range_errors,
)
from kubewright.controlplane.kinds.validation.formats import immutable
from kubewright.schema import field_errors as fe


def _check_address_name(name: str, *, prefix: bool = False) -> list[str]:
    return [error.message.split(": ", 2)[2] for error in strict_ip_errors(name, "metadata.name")]


ADDRESS_RULES = Rules(
    {
        "spec.parentRef": [
            Required(pointer=True),
            {
                "group": DNS_SUBDOMAIN,
                "resource": [Required(), PATH_SEGMENT],
                "name": [Required(), PATH_SEGMENT],
                "namespace": PATH_SEGMENT,
            },
        ]
    }
)


def _parent_value(parent: Object | None) -> Any:
    order = ("group", "resource", "namespace", "name")
    return parent and fe.GoStruct((name.title(), parent.get(name) or "") for name in order)


def _parent_text(obj: Object) -> str:
    parent = field(obj, "spec.parentRef")
    if parent is None:
        return NONE
    resource = parent.get("resource", "")
    group = f"{resource}.{parent['group']}" if parent.get("group") else resource
    namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
    return f"{group.lower()}{namespace}/{parent.get('name', '')}"


def _address_cells(obj: Object) -> list[Any]:
    # kube-apiserver returns the age in a cell without a column.
    return [name_of(obj), _parent_text(obj), age_of(obj)]


def _family_errors(values: list[str], path: str) -> Errors:
    networks = [parsed[1] for value in values if (parsed := parse_range(value))]
    if len(networks) < 2 or networks[0].version != networks[1].version:
        return []
    text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
    return [fe.invalid(path, values, text)]


CIDR_RULES = Rules(
    {
        "spec.cidrs": [
            Required("at least one CIDR required"),
            MaxItems(2, "may only hold up to 2 values", show=lambda values: {"CIDRs": values}, stop=True),
            {"[*]": strict_range_errors},
            _family_errors,
        ]
    }
)


def _cidr_update_errors(new: Object, old: Object) -> Errors:
    now, before = field(new, "spec.cidrs", []), field(old, "spec.cidrs", [])
    if len(before) == 1 and len(now) == 2:
        return immutable(now[0], before[0], "spec.cidrs[0]") + CIDR_RULES(new)
    if len(now) != len(before):
        return immutable(now, before, "spec.cidrs")
    pairs = enumerate(zip(now, before, strict=True))
    return [error for index, pair in pairs for error in immutable(*pair, f"spec.cidrs[{index}]")]


def _cidrs_text(obj: Object) -> str:
    return ",".join(field(obj, "spec.cidrs", ()))


KINDS = {
    "ipaddresses": Kind(
        validate=ADDRESS_RULES,
        validate_update=UpdateRules({"spec.parentRef": Immutable(show=_parent_value)}),
        validate_name=_check_address_name,
        columns=(
            column("Name", shown("metadata.name"), description="IP address.", format="name"),
            column("ParentRef", _parent_text, description="Object that uses the address."),
        ),
        cells=_address_cells,
    ),
    "servicecidrs": Kind(
        validate=CIDR_RULES,
        validate_update=_cidr_update_errors,
        status_keeps_metadata=True,
        columns=(column("CIDRs", _cidrs_text, description="Address ranges of cluster IPs."), AGE),
    ),
}
