"""Readiness of a control plane: checks of `/readyz`, `/livez` and `/healthz`.

A control plane accepts requests before its bootstrap objects are written: a client that waits for `/readyz`
waits for them. `/readyz` also fails while the watch on storage is interrupted, until every informer has
caught up. The checks have the names of kube-apiserver's where it has the same step.

`/readyz/undecodable-objects` fails while an object that access or admission depends on cannot be decoded and
has no last state: requests that depend on it are rejected. The check names the keys.
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
UNDECODABLE = "undecodable-objects"

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
AUTHORITY = (
    ("", "namespaces"),
    ("", "serviceaccounts"),
    ("", "resourcequotas"),
    ("", "limitranges"),
    (_RBAC, "clusterroles"),
    (_RBAC, "clusterrolebindings"),
    (_RBAC, "roles"),
    (_RBAC, "rolebindings"),
    (_ADMISSION, "validatingadmissionpolicies"),
    (_ADMISSION, "validatingadmissionpolicybindings"),
    (_ADMISSION, "mutatingadmissionpolicies"),
    (_ADMISSION, "mutatingadmissionpolicybindings"),
    (_ADMISSION, "validatingwebhookconfigurations"),
    (_ADMISSION, "mutatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
)
"""Resources whose objects decide on requests."""


class Readiness:
    """Steps of the start that are not done, and informers that have not caught up."""

    def __init__(self, health: HealthChecks, informers: Informers) -> None:
        self._informers = informers
        self.definitions: CustomResourceDefinitions | None = None
        self._pending = {*DEFINITIONS, *BOOTSTRAP, *AGGREGATION, *CONTROLLERS}
        for name in (*DEFINITIONS, *BOOTSTRAP, *AGGREGATION):
            health.add(name, partial(self._check, name))
        health.add(CONTROLLERS[0], self._check_informers, ("/readyz",))
        health.add(UNDECODABLE, self._check_undecodable, ("/readyz",))

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

    async def _check_undecodable(self) -> None:
        named = []
        for group, plural in AUTHORITY:
            store = self._informers.server.store(group, plural)
            if store is not None and not store.objects.is_checked:
                await store.storage.list_stored(store.prefix)
            named += [error.key for error in self._informers.unknown(group, plural)]
        if named:
            raise RuntimeError(f"stored objects cannot be decoded: {', '.join(sorted(named))}")
