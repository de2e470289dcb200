"""CSINode."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, counted, field
from kubewright.controlplane.kinds.validation import (
    NOT_NEGATIVE,
    Check,
    Errors,
    Required,
    Rules,
    Unique,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import qualified_name
from kubewright.schema import field_errors as fe

from .csi_driver import driver_name_errors


def _node_id_errors(value: str, path: str) -> Errors:
    return [fe.invalid(path, value, "must be 256 characters or less")] if len(value) > 256 else []


def _topology_key_errors(driver: Object, path: str) -> Errors:
    errors: Errors = []
    keys = driver.get("topologyKeys") or []
    for index, key in enumerate(keys):
        if not key:
            errors.append(fe.required(path, key))
        if key in keys[:index]:
            errors.append(fe.duplicate(path, key))
        errors += qualified_name(key, path)
    return errors


RULES = Rules(
    {
        "spec.drivers[*]": [
            {
                "name": Check(driver_name_errors, absent=""),
                "nodeID": [Required(), _node_id_errors],
                "allocatable.count": NOT_NEGATIVE,
            },
            Unique("name"),
            _topology_key_errors,
        ]
    }
)


def _changed_drivers(new: Object, old: Object) -> Errors:
    """Reject changes of drivers, except of their `allocatable`."""
    return _driver_changes(new, old, "allocatable")


def _driver_changes(new: Object, old: Object, mutable: str = "") -> Errors:
    before = {driver.get("name"): driver for driver in field(old, "spec.drivers", ())}
    errors: Errors = []
    for driver in field(new, "spec.drivers", ()):
        known = before.get(driver.get("name"))
        if known is not None and _without(driver, mutable) != _without(known, mutable):
            allocatable = driver.get("allocatable") if mutable != "allocatable" else None
            value = fe.GoStruct(
                Name=driver.get("name") or "",
                NodeID=driver.get("nodeID") or "",
                TopologyKeys=driver.get("topologyKeys"),
                Allocatable=allocatable and fe.GoStruct(Count=allocatable.get("count")),
            )
            errors.append(fe.invalid("spec.drivers", value, "field is immutable"))
    return errors


def _without(driver: Object, field: str) -> Object:
    return {name: value for name, value in driver.items() if name != field}


KINDS = {
    "csinodes": Kind(
        validate=RULES,
        validate_update=UpdateRules(RULES, _changed_drivers),
        # MutableCSINodeAllocatableCount is enabled since 1.35.
        former={"-1.34": {"validate_update": UpdateRules(RULES, _driver_changes)}},
        allow_unconditional_update=False,
        returns_deleted_object=True,
        columns=(
            column("Drivers", counted("spec.drivers"), type="integer", description="Number of CSI drivers."),
            AGE,
        ),
    ),
}
