"""Readiness of a control plane: checks of `/readyz`, `/livez` and `/healthz`.

A control plane accepts requests before its bootstrap objects are written: a client that waits for `/readyz`
waits for them. `/readyz` also fails while the watch on storage is interrupted, until every informer has
caught up. The checks have the names of kube-apiserver's where it has the same step.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kubewright.apiserver.health import HealthChecks

if TYPE_CHECKING:
    from .crds import CustomResourceDefinitions
    from .informers import Informers

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
    """Steps of the start that are not done, and informers that have not caught up."""

    def __init__(self, health: HealthChecks, informers: Informers) -> None:
        self._informers = informers
        self.definitions: CustomResourceDefinitions | None = None
        self._pending = {*DEFINITIONS, *BOOTSTRAP, *AGGREGATION, *CONTROLLERS}
        for name in (*DEFINITIONS, *BOOTSTRAP, *AGGREGATION):
            health.add(name, partial(self._check, name))
        health.add(CONTROLLERS[0], self._check_informers, ("/readyz",))

    def complete(self, steps: tuple[str, ...]) -> None:
        """Mark steps of the start as done."""
        self._pending.difference_update(steps)

    def _check(self, name: str) -> None:
        if name in self._pending:
            raise RuntimeError("not finished")

    def _check_informers(self) -> None:
        self._check(CONTROLLERS[0])
        if not self._informers.synced:
            raise RuntimeError("informers have not caught up with storage")
        if self.definitions is not None and not self.definitions.has_synced:
            raise RuntimeError("custom resource definitions have not been applied")
