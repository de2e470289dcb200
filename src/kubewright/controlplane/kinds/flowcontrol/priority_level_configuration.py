"""PriorityLevelConfiguration."""

from __future__ import annotations

import math
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, shown
from kubewright.controlplane.kinds.validation import (
    Enum,
    Errors,
    Forbidden,
    Maximum,
    Minimum,
    Range,
    Required,
    Rules,
    Switch,
    UpdateRules,
)
from kubewright.schema import field_errors as fe

from .flow_schema import CONDITION_RULES

CATCH_ALL: Object = {
    "type": "Limited",
    "limited": {
        "nominalConcurrencyShares": 5,
        "limitResponse": {"type": "Reject"},
        "lendablePercent": 0,
    },
}
"""The only valid spec of the level `catch-all`."""
_ZERO_SHARES = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"
_MAX_HASH_BITS = 60


def _annotation_errors(annotations: dict[str, str], path: str) -> Errors:
    return (
        [fe.forbidden(path, f"annotation '{_ZERO_SHARES}' is forbidden")]
        if _ZERO_SHARES in annotations
        else []
    )


def _exempt_type(obj: Object, path: str) -> Errors:
    kind = (obj.get("spec") or {}).get("type") or ""
    if (obj["metadata"].get("name") == "exempt") == (kind == "Exempt"):
        return []
    return [fe.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")]


def _hand_size_errors(queuing: Object, path: str) -> Errors:
    queues, hand, path = queuing.get("queues") or 0, queuing.get("handSize") or 0, f"{path}.handSize"
    if hand <= 0:
        return [fe.invalid(path, hand, "must be positive")]
    if hand > queues:
        return [fe.invalid(path, hand, f"should not be greater than queues ({queues})")]
    if math.ceil(math.log2(queues) * hand) <= _MAX_HASH_BITS:
        return []
    text = (
        f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
        f"{_MAX_HASH_BITS}"
    )
    return [fe.invalid(path, hand, text)]


def _mandatory_spec(obj: Object, path: str) -> Errors:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name")
    if name == "exempt" and (spec.get("type") != "Exempt" or spec.get("limited") is not None):
        text = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
        return [fe.invalid("spec", spec, text)]
    if name == "catch-all" and spec != CATCH_ALL:
        return [fe.invalid("spec", spec, "spec of 'catch-all' must equal the fixed value")]
    return []


_SHARES = {"nominalConcurrencyShares": Minimum(0, "must be a non-negative integer")}
_LENDABLE = {"lendablePercent": Range(0, 100)}
_QUEUING = {
    "queueLengthLimit": Minimum(1, "must be positive", absent=0),
    "queues": [
        Minimum(1, "must be positive", absent=0),
        Maximum(10_000_000, "must not be greater than 10000000"),
    ],
    "": _hand_size_errors,
}
_RESPONSE: dict[str, Any] = {
    "Reject": {"queuing": Forbidden("must be nil if limited.limitResponse.type is not Limited")},
    "Queue": {
        "queuing": [
            Required("must not be empty if limited.limitResponse.type is Limited", pointer=True),
            _QUEUING,
        ]
    },
}
_LIMITED = {
    **_SHARES,
    "limitResponse": Switch("type", _RESPONSE),
    "limitResponse.type": [Required(), Enum("Queue", "Reject")],
    **_LENDABLE,
    "borrowingLimitPercent": Minimum(0, "if specified, must be a non-negative integer"),
}
_TYPES: dict[str, Any] = {
    "Exempt": {
        "limited": Forbidden("must be nil if the type is not Limited"),
        "exempt": {**_SHARES, **_LENDABLE},
    },
    "Limited": {
        "exempt": Forbidden("must be nil if the type is Limited"),
        "limited": [Required("must not be empty when type is Limited", pointer=True), _LIMITED],
    },
}
RULES = Rules(
    {
        "metadata.annotations": _annotation_errors,
        "": _exempt_type,
        "spec": Switch("type", _TYPES),
        "spec.type": [Required(), Enum("Exempt", "Limited")],
    }
)

_QUEUING_PATH = "spec.limited.limitResponse.queuing"

KINDS = {
    "prioritylevelconfigurations": Kind(
        default=Defaults(
            {
                "spec.limited.nominalConcurrencyShares": 30,
                "spec.limited.lendablePercent": 0,
                "spec.exempt.nominalConcurrencyShares": 0,
                "spec.exempt.lendablePercent": 0,
                f"{_QUEUING_PATH}.handSize": IfEmpty(8),
                f"{_QUEUING_PATH}.queues": IfEmpty(64),
                f"{_QUEUING_PATH}.queueLengthLimit": IfEmpty(50),
            }
        ),
        validate=Rules({"": [RULES, _mandatory_spec, CONDITION_RULES]}),
        validate_status=UpdateRules(CONDITION_RULES),
        generation_fields=("spec",),
        status_keeps_metadata=True,
        columns=(
            column("Type", shown("spec.type"), description="Whether requests of this level are limited."),
            column(
                "NominalConcurrencyShares",
                shown("spec.limited.nominalConcurrencyShares", NONE),
                description="Share of the concurrency limit of the server.",
            ),
            column("Queues", shown(f"{_QUEUING_PATH}.queues", NONE), description="Number of queues."),
            column(
                "HandSize",
                shown(f"{_QUEUING_PATH}.handSize", NONE),
                description="Queues that a flow may use.",
            ),
            column(
                "QueueLengthLimit",
                shown(f"{_QUEUING_PATH}.queueLengthLimit", NONE),
                description="Maximum number of requests in a queue.",
            ),
            AGE,
        ),
    ),
}
