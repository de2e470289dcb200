"""Lease."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Minimum, Rules


class LeaseStrategy(KindStrategy):
    """Drops the fields of coordinated leader election, a feature gate that is off by default."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Drop the fields of a new lease."""
        for name in ("strategy", "preferredHolder"):
            (obj.get("spec") or {}).pop(name, None)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Drop the fields of an update."""
        self.prepare_for_create(op, obj)


RULES = Rules(
    {
        "spec.leaseDurationSeconds": Minimum(1, "must be greater than 0"),
        "spec.leaseTransitions": NOT_NEGATIVE,
    }
)

KINDS = {
    "leases": Kind(
        strategy=LeaseStrategy,
        validate=RULES,
        allow_create_on_update=True,
        allow_unconditional_update=False,
        any_finalizer=True,
        columns=(column("Holder", shown("spec.holderIdentity"), description="Identity of the holder."), AGE),
    ),
}
