"""Leases: `coordination.k8s.io`."""

from __future__ import annotations

from kubewright.apiserver.resource import Object
from kubewright.schema import fielderrors as fe

from .kind import Kind
from .podspec.names_and_numbers import NON_NEGATIVE, Errors, qualified_name
from .printing import AGE, column, shown
from .ruled import RuledStrategy

_STRATEGIES = ("OldestEmulationVersion",)


def _lease_errors(lease: Object) -> Errors:
    spec = lease.get("spec") or {}
    errors: Errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(fe.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(fe.invalid("spec.leaseTransitions", transitions, NON_NEGATIVE))
    strategy = spec.get("strategy")
    if strategy is not None:
        if "/" in strategy:
            errors += qualified_name(strategy, "spec.strategy.strategy")
        elif strategy not in _STRATEGIES:
            errors.append(fe.not_supported("spec.strategy.strategy", strategy, _STRATEGIES))
    if spec.get("preferredHolder") and not strategy:
        errors.append(fe.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


KINDS = {
    "leases": Kind(
        strategy=RuledStrategy(errors=_lease_errors, creates_on_update=True, unconditional=False),
        columns=(column("Holder", shown("spec.holderIdentity"), description="Who holds the lease."), AGE),
    ),
}
