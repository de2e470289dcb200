"""Namespaces: they end only when what is inside them has ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.subresource import Subresource
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, age_of, column, name_of
from kubewright.controlplane.kinds.validation.formats import Errors, qualified_name
from kubewright.schema import field_errors as fe

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


class NamespaceStrategy(KindStrategy):
    """The rules of namespaces."""

    returns_deleted_object = True
    checks_deletion_itself = True

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A label."""
        return names.check_dns_label(name, prefix=prefix)

    def default(self, version: Version, obj: Object) -> None:
        """Every namespace carries its name as a label."""
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name
        status: Object = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """It is active, and its contents will be removed before it is."""
        obj["status"] = {"phase": "Active"}
        finalizers: list[str] = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """The finalizers of the spec change through `finalize` alone."""
        if op.subresource == "":
            spec: Object = obj.setdefault("spec", {})
            finalizers = (old.get("spec") or {}).get("finalizers")
            if finalizers:
                spec["finalizers"] = finalizers
            else:
                spec.pop("finalizers", None)

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """The names of finalizers."""
        return _finalizer_errors(obj, indexed=False)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """The phase follows from the deletion."""
        if op.subresource != "status":
            return _finalizer_errors(obj, indexed=op.subresource == "finalize")
        phase = (obj.get("status") or {}).get("phase") or ""
        deleting = "deletionTimestamp" in obj["metadata"]
        if not deleting and phase != "Active":
            text = "may only be 'Active' if `deletionTimestamp` is empty"
            return [fe.invalid("status.Phase", phase, text)]
        if deleting and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [fe.invalid("status.Phase", phase, text)]
        return []

    def canonicalize(self, obj: Object) -> None:
        """The label of the name cannot be taken away."""
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"]["name"]

    def before_delete(self, op: Operation, obj: Object) -> None:
        """It stays, terminating, until its contents are gone."""
        obj.setdefault("status", {})["phase"] = "Terminating"
        if not self.may_vanish(obj):
            obj["metadata"].pop("deletionGracePeriodSeconds", None)

    def may_vanish(self, obj: Object) -> bool:
        """When its contents are gone."""
        return not (obj.get("spec") or {}).get("finalizers")


def _finalizer_errors(obj: Object, *, indexed: bool) -> Errors:
    errors: Errors = []
    for position, name in enumerate((obj.get("spec") or {}).get("finalizers") or ()):
        path = f"spec.finalizers[{position}]" if indexed else "spec.finalizers"
        errors += qualified_name(name, path)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(fe.invalid(path, name, text))
    return errors


def cells(obj: Object) -> list[Any]:
    """The row of a namespace."""
    return [name_of(obj), (obj.get("status") or {}).get("phase") or "", age_of(obj)]


COLUMNS = (NAME, column("Status", description="The status of the namespace"), AGE)
FINALIZE = Subresource(verbs=("update",))
