"""What has to have happened before a control plane is ready, as `/readyz`, `/livez` and `/healthz` tell it.

A control plane answers requests before it has written what it starts with: who waits for `/readyz` waits for
that, too. The checks have the names of kube-apiserver's, where it has the same step.
"""

from __future__ import annotations

from functools import partial

from kubewright.apiserver.health import HealthChecks

DEFINITIONS = ("poststarthook/start-apiextensions-controllers", "poststarthook/crd-informer-synced")
BOOTSTRAP = (
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/bootstrap-controller",
)
AGGREGATION = ("poststarthook/kube-apiserver-autoregistration", "autoregister-completion")
CONTROLLERS = ("informer-sync",)


class Readiness:
    """Steps of the start that are still to come."""

    def __init__(self, health: HealthChecks) -> None:
        self._pending = {*DEFINITIONS, *BOOTSTRAP, *AGGREGATION, *CONTROLLERS}
        for name in (*CONTROLLERS, *DEFINITIONS, *BOOTSTRAP, *AGGREGATION):
            health.add(name, partial(self._check, name))

    def reached(self, steps: tuple[str, ...]) -> None:
        """These steps are done."""
        self._pending.difference_update(steps)

    def _check(self, name: str) -> None:
        if name in self._pending:
            raise RuntimeError("not finished")
