"""CSIStorageCapacity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.values.names import check_dns_subdomain
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.node.runtime_class import DEPRECATED_NODE_LABELS
from kubewright.controlplane.kinds.validation import Errors, Format, Immutable, Rules, UpdateRules
from kubewright.controlplane.kinds.validation.formats import NON_NEGATIVE
from kubewright.schema import field_errors as fe


def _capacity_errors(capacity: str, path: str) -> Errors:
    return [fe.invalid(path, capacity, NON_NEGATIVE)] if Quantity(capacity).nanos < 0 else []


def _selector_value(selector: Object | None) -> Any:
    order = ("matchLabels", "matchExpressions")
    return selector and fe.GoStruct((name, selector[name]) for name in order if name in selector)


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    topology = obj.get("nodeTopology") or {}
    for index, expression in enumerate(topology.get("matchExpressions") or ()):
        key = expression.get("key") or ""
        if key in DEPRECATED_NODE_LABELS:
            yield f"nodeTopology.matchExpressions[{index}].key: {key} is {DEPRECATED_NODE_LABELS[key]}"
    for key in topology.get("matchLabels") or ():
        if key in DEPRECATED_NODE_LABELS:
            yield f"nodeTopology.matchLabels.{key}: {DEPRECATED_NODE_LABELS[key]}"


KINDS = {
    "csistoragecapacities": Kind(
        validate=Rules(
            {
                "nodeTopology": selector_errors,
                "storageClassName": Format(check_dns_subdomain, absent=""),
                "capacity": _capacity_errors,
            }
        ),
        validate_update=UpdateRules(
            {"nodeTopology": Immutable(show=_selector_value), "storageClassName": Immutable()}
        ),
        warnings=_warnings,
        allow_unconditional_update=False,
        checks_whole_on_update=True,
    ),
}
