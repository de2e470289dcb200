"""PriorityClass."""

from __future__ import annotations

from kubewright.api.errors import forbidden
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import Enum, Errors, Immutable, Required, Rules, UpdateRules
from kubewright.schema import field_errors as fe

MAX_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _system_class_error(name: str, obj: Object) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if obj.get("value") != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""


def _value_errors(obj: Object, path: str) -> Errors:
    name = obj["metadata"].get("name") or ""
    if name.startswith("system-"):
        error = _system_class_error(name, obj)
        if not error:
            return []
        text = f"priority class names with 'system-' prefix are reserved for system use only. error: {error}"
        return [fe.forbidden("metadata.name", text)]
    if (obj.get("value") or 0) > MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        return [fe.forbidden("value", text)]
    return []


class PriorityClassStrategy(KindStrategy):
    """Protects the system classes."""

    def before_delete_request(self, op: Operation) -> None:
        """Reject the deletion of a system class."""
        if op.name in SYSTEM_CLASSES:
            text = "this is a system priority class and cannot be deleted"
            raise forbidden(op.resource.group_resource, op.name, text)


KINDS = {
    "priorityclasses": Kind(
        strategy=PriorityClassStrategy,
        default=Defaults({"preemptionPolicy": "PreemptLowerPriority"}),
        validate=Rules(
            {"": _value_errors, "preemptionPolicy": [Required(), Enum("PreemptLowerPriority", "Never")]}
        ),
        validate_update=UpdateRules(
            {
                "value": Immutable("may not be changed in an update.", forbidden=True),
                "preemptionPolicy": Immutable(),
            }
        ),
        generation_fields=(),
        columns=(
            column("Value", shown("value", 0), type="integer", description="Priority of pods of this class."),
            column(
                "Global-Default",
                shown("globalDefault", False),
                type="boolean",
                description="Whether it is the default.",
            ),
            AGE,
            column(
                "PreemptionPolicy", shown("preemptionPolicy"), description="Whether its pods preempt others."
            ),
        ),
    ),
}
