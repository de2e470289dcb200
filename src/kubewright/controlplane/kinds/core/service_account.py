"""ServiceAccount."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, counted

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(KindStrategy):
    """Service accounts: references to secrets have a name only."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Remove everything but the name from references to secrets."""
        if obj.get("secrets"):
            obj["secrets"] = [
                {"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]
            ]

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Remove everything but the name from references to secrets."""
        self.prepare_for_create(op, obj)


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    new, before = ((one or {"metadata": {}})["metadata"].get("annotations") or {} for one in (obj, old))
    if _MOUNTABLE in new and _MOUNTABLE not in before:
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{_MOUNTABLE}]: {text}"


_SECRETS = column(
    "Secrets", counted("secrets"), description="Number of secrets that pods are allowed to use."
)

KINDS = {
    "serviceaccounts": Kind(
        strategy=ServiceAccountStrategy,
        warnings=_warnings,
        returns_deleted_object=True,
        columns=(AGE,),
        former={"-1.34": {"columns": (_SECRETS, AGE)}},
        checks_whole_on_update=True,
    )
}
