"""Namespace."""

from __future__ import annotations

from typing import Any

from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.resources.subresource import Subresource
from kubewright.controlplane.kinds.kind import STANDARD_FINALIZERS, STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import Errors, ReportAt, Rules, UpdateRules
from kubewright.controlplane.kinds.validation.formats import qualified_name
from kubewright.schema import field_errors as fe

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(KindStrategy):
    """Namespaces: a deleted namespace is removed when the namespace controller has deleted its contents."""

    custom_delete_preconditions = True

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the phase and add the finalizer of the namespace controller."""
        obj["status"] = {"phase": "Active"}
        finalizers: list[str] = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Keep the finalizers of the spec, which only the `finalize` subresource changes."""
        if op.subresource == "":
            spec: Object = obj.setdefault("spec", {})
            finalizers = (old.get("spec") or {}).get("finalizers")
            if finalizers:
                spec["finalizers"] = finalizers
            else:
                spec.pop("finalizers", None)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Any:
        """Validate an update; `finalize` reports the index of a finalizer."""
        if op.subresource == "finalize":
            return _FINALIZE_RULES(obj)
        return super().validate_update(op, obj, old)

    def canonicalize(self, obj: Object) -> None:
        """Restore the label of the name."""
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"]["name"]

    def before_delete(self, op: Operation, obj: Object) -> None:
        """Set the phase until the contents are deleted."""
        obj.setdefault("status", {})["phase"] = "Terminating"
        if not self.may_be_removed(obj):
            obj["metadata"].pop("deletionGracePeriodSeconds", None)

    def may_be_removed(self, obj: Object) -> bool:
        """Return whether all finalizers of the spec have been removed."""
        return not (obj.get("spec") or {}).get("finalizers")


def _default(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name
    status: Object = obj.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def _check_finalizer(name: str, path: str) -> Errors:
    errors = qualified_name(name, path)
    if "/" not in name and name not in STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(fe.invalid(path, name, text))
    return errors


def _check_phase(obj: Object, path: str) -> Errors:
    phase = (obj.get("status") or {}).get("phase") or ""
    if "deletionTimestamp" in obj["metadata"]:
        expected, text = "Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"
    else:
        expected, text = "Active", "may only be 'Active' if `deletionTimestamp` is empty"
    return [] if phase == expected else [fe.invalid("status.Phase", phase, text)]


_FINALIZE_RULES = Rules({"spec.finalizers[*]": _check_finalizer})
KINDS = {
    "namespaces": Kind(
        strategy=NamespaceStrategy,
        default=_default,
        validate=Rules({"spec.finalizers[*]": ReportAt("", _check_finalizer)}),
        validate_status=UpdateRules(Rules(_check_phase)),
        validate_name=names.check_dns_label,
        returns_deleted_object=True,
        columns=(column("Status", shown("status.phase"), description="The status of the namespace"), AGE),
        field_selectors={"status.phase": ".status.phase"},
        subresources={"status": STATUS, "finalize": Subresource(verbs=("update",))},
        checks_whole_on_update=True,
    )
}
