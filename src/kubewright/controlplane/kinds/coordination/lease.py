"""Leases: `coordination.k8s.io`."""

from __future__ import annotations

from kubewright.apiserver.resource import Object, Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation.formats import NON_NEGATIVE, Errors
from kubewright.schema import field_errors as fe


class _LeaseStrategy(KindStrategy):
    """Coordinated leader election is off by default: its fields are not kept."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        for name in ("strategy", "preferredHolder"):
            (obj.get("spec") or {}).pop(name, None)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        self.prepare_for_create(op, obj)


def _lease_errors(lease: Object) -> Errors:
    spec = lease.get("spec") or {}
    errors: Errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(fe.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(fe.invalid("spec.leaseTransitions", transitions, NON_NEGATIVE))
    return errors


KINDS = {
    "leases": Kind(
        strategy=_LeaseStrategy,
        validate=_lease_errors,
        allow_create_on_update=True,
        allow_unconditional_update=False,
        columns=(column("Holder", shown("spec.holderIdentity"), description="Who holds the lease."), AGE),
        any_finalizer=True,
    ),
}
