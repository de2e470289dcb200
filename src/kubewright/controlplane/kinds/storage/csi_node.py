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
    before = {driver.get("name"): driver for driver in field(old, "spec.drivers", ())}
    errors: Errors = []
    for driver in field(new, "spec.drivers", ()):
        known = before.get(driver.get("name"))
        if known is not None and _without_allocatable(driver) != _without_allocatable(known):
            value = fe.GoStruct(
                Name=driver.get("name") or "",
                NodeID=driver.get("nodeID") or "",
                TopologyKeys=driver.get("topologyKeys"),
                Allocatable=None,
            )
            errors.append(fe.invalid("spec.drivers", value, "field is immutable"))
    return errors


def _without_allocatable(driver: Object) -> Object:
    return {name: value for name, value in driver.items() if name != "allocatable"}


KINDS = {
    "csinodes": Kind(
        validate=RULES,
        validate_update=UpdateRules(RULES, _changed_drivers),
        allow_unconditional_update=False,
        returns_deleted_object=True,
        columns=(
            column("Drivers", counted("spec.drivers"), type="integer", description="Number of CSI drivers."),
            AGE,
        ),
    ),
}
