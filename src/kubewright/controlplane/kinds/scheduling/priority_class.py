"""Priority classes: `scheduling.k8s.io`. Values never change; names that begin with `system-` are taken."""

from __future__ import annotations

from kubewright.api.errors import forbidden
from kubewright.apiserver.resource import Object, Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation.formats import Errors, choice, immutable
from kubewright.schema import field_errors as fe

HIGHEST_OF_USERS = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
POLICIES = ("PreemptLowerPriority", "Never")


def _default(priority: Object) -> None:
    if priority.get("preemptionPolicy") is None:
        priority["preemptionPolicy"] = "PreemptLowerPriority"


def _system_class_fault(name: str, priority: Object) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if priority.get("value") != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    if priority.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def _errors(priority: Object) -> Errors:
    errors: Errors = []
    name = priority["metadata"].get("name") or ""
    if name.startswith("system-"):
        fault = _system_class_fault(name, priority)
        if fault:
            text = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {fault}"
            )
            errors.append(fe.forbidden("metadata.name", text))
    elif (priority.get("value") or 0) > HIGHEST_OF_USERS:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"
        errors.append(fe.forbidden("value", text))
    return errors + choice(priority.get("preemptionPolicy"), POLICIES, "preemptionPolicy")


def _update_errors(new: Object, old: Object) -> Errors:
    errors: Errors = []
    if new.get("value") != old.get("value"):
        errors.append(fe.forbidden("value", "may not be changed in an update."))
    return errors + immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


class _ClassStrategy(KindStrategy):
    """The classes of the system stay."""

    def deletion_asked(self, op: Operation) -> None:
        """Refuse for those of the system."""
        if op.name in SYSTEM_CLASSES:
            text = "this is a system priority class and cannot be deleted"
            raise forbidden(op.resource.group_resource, op.name, text)


KINDS = {
    "priorityclasses": Kind(
        strategy=_ClassStrategy,
        default=_default,
        validate=_errors,
        validate_update=_update_errors,
        generation_fields=(),
        columns=(
            column(
                "Value", shown("value", 0), type="integer", description="The priority of pods of this class."
            ),
            column(
                "Global-Default",
                shown("globalDefault", False),
                type="boolean",
                description="Whether pods without a class get this one.",
            ),
            AGE,
            column(
                "PreemptionPolicy",
                shown("preemptionPolicy"),
                description="Whether pods of this class preempt.",
            ),
        ),
    ),
}
