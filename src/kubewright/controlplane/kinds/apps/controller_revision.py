"""ControllerRevision."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NAME, NONE, age_of, column, name_of
from kubewright.controlplane.kinds.validation import (
    NOT_NEGATIVE,
    Errors,
    Immutable,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.schema import field_errors as fe


def _data_errors(data: Any, path: str) -> Errors:
    return [] if isinstance(data, dict) else [fe.required(path, "data must be a valid JSON object")]


def _cells(obj: Object) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = (owner.get("apiVersion") or "").rpartition("/")[0]
        kind = (owner.get("kind") or "").lower()
        controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [name_of(obj), controller, obj.get("revision") or 0, age_of(obj)]


KINDS = {
    "controllerrevisions": Kind(
        validate=Rules(
            {"revision": NOT_NEGATIVE, "data": [Required("data is mandatory", pointer=True), _data_errors]}
        ),
        validate_update=UpdateRules(Rules({"revision": NOT_NEGATIVE}), {"data": Immutable()}),
        checks_whole_on_update=True,
        columns=(
            NAME,
            column("Controller", description="Controller of the object"),
            column("Revision", description="Number of the revision."),
            AGE,
        ),
        cells=_cells,
    ),
}
