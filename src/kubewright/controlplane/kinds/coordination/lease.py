"""Lease."""

from __future__ import annotations

from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Minimum, Rules

RULES = Rules(
    {
        "spec.leaseDurationSeconds": Minimum(1, "must be greater than 0"),
        "spec.leaseTransitions": NOT_NEGATIVE,
    }
)

KINDS = {
    "leases": Kind(
        validate=RULES,
        allow_create_on_update=True,
        allow_unconditional_update=False,
        any_finalizer=True,
        columns=(column("Holder", shown("spec.holderIdentity"), description="Identity of the holder."), AGE),
    ),
}
