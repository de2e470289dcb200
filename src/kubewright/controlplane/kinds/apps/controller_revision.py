"""ControllerRevision."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, shown
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


def _controller(obj: Object) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = (owner.get("apiVersion") or "").rpartition("/")[0]
            kind = (owner.get("kind") or "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


KINDS = {
    "controllerrevisions": Kind(
        validate=Rules(
            {"revision": NOT_NEGATIVE, "data": [Required("data is mandatory", pointer=True), _data_errors]}
        ),
        validate_update=UpdateRules(Rules({"revision": NOT_NEGATIVE}), {"data": Immutable()}),
        checks_whole_on_update=True,
        columns=(
            column("Controller", _controller, description="Controller of the object"),
            column("Revision", shown("revision", 0), description="Number of the revision."),
            AGE,
        ),
    ),
}
