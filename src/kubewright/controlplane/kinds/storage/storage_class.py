"""StorageClass and VolumeAttributesClass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.node.runtime_class import DEPRECATED_NODE_LABELS
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import (
    Enum,
    Errors,
    Immutable,
    Required,
    Rules,
    UpdateRules,
    When,
)
from kubewright.controlplane.kinds.validation.formats import qualified_name
from kubewright.schema import field_errors as fe

DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MAX_PARAMETERS_SIZE = 256 * 1024


def map_size(values: dict[str, str]) -> int:
    """Return the number of bytes of all keys and values."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in values.items())


def _provisioner_errors(name: str, path: str) -> Errors:
    return qualified_name(name.lower(), path)


def _parameter_errors(parameters: dict[str, str], path: str) -> Errors:
    if len(parameters) > 512:
        return [fe.too_long(path, 512)]
    errors: Errors = []
    if "" in parameters:
        errors.append(fe.invalid(path, "", "field can not be empty."))
    if map_size(parameters) > _MAX_PARAMETERS_SIZE:
        errors.append(fe.too_long(path, _MAX_PARAMETERS_SIZE))
    return errors


def _topology_errors(terms: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: list[dict[str, set[str]]] = []
    for position, term in enumerate(terms):
        where = f"{path}[{position}].matchLabelExpressions"
        requirements = term.get("matchLabelExpressions") or ()
        values_by_key: dict[str, set[str]] = {}
        for index, requirement in enumerate(requirements):
            errors += _requirement_errors(requirement, values_by_key, f"{where}[{index}]")
            values_by_key[requirement.get("key") or ""] = set(requirement.get("values") or ())
        # kube-apiserver reports an empty term once for each term, and once more for each equal term before.
        repeated = len(terms) if not values_by_key else 0
        errors += [fe.duplicate(where, "")] * (repeated + seen.count(values_by_key))
        seen.append(values_by_key)
    return errors


def _requirement_errors(requirement: Object, values_by_key: dict[str, set[str]], path: str) -> Errors:
    key, values = requirement.get("key") or "", requirement.get("values") or []
    errors: Errors = [] if values else [fe.required(f"{path}.values", "")]
    errors += [
        fe.duplicate(f"{path}.values[{index}]", value)
        for index, value in enumerate(values)
        if value in values[:index]
    ]
    errors += qualified_name(key, f"{path}.key")
    if key in values_by_key:
        errors.append(fe.duplicate(f"{path}.key", key))
    return errors


RULES = Rules(
    {
        "provisioner": [Required(), _provisioner_errors],
        "parameters": _parameter_errors,
        "reclaimPolicy": When(bool, Enum("Delete", "Retain")),
        "volumeBindingMode": Enum("Immediate", "WaitForFirstConsumer"),
        "allowedTopologies": _topology_errors,
    }
)
ATTRIBUTES_RULES = Rules(
    {
        "driverName": [Required(), _provisioner_errors],
        "parameters": [Required("must contain at least one key/value pair"), _parameter_errors],
    }
)


def _unchanged(new: Any, old: Any, path: str) -> Errors:
    """Compare a field; an empty value equals a missing one."""
    return Immutable()(new or None, old or None, path)


def _attributes_unchanged(new: Any, old: Any, path: str) -> Errors:
    return Immutable(f"updates to {path} are forbidden.", forbidden=True)(new or None, old or None, path)


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    for position, term in enumerate(obj.get("allowedTopologies") or ()):
        for index, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            text = DEPRECATED_NODE_LABELS.get(requirement.get("key") or "")
            if text:
                yield f"allowedTopologies[{position}].matchLabelExpressions[{index}].key: {text}"


COLUMNS = (
    column("Name", shown("metadata.name"), description="Name of the class.", format="name"),
    column("Provisioner", shown("provisioner"), description="Provisioner of the volumes."),
    column("ReclaimPolicy", shown("reclaimPolicy", "Delete"), description="Reclaim policy of the volumes."),
    column(
        "VolumeBindingMode",
        shown("volumeBindingMode", "Immediate"),
        description="When volumes are bound to claims.",
    ),
    column(
        "AllowVolumeExpansion",
        shown("allowVolumeExpansion", False),
        description="Whether volumes can be expanded.",
    ),
    AGE,
)


def _cells(obj: Object) -> list[Any]:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    is_default = any(annotations.get(name) == "true" for name in DEFAULT_CLASS_ANNOTATIONS)
    name = f"{metadata['name']} (default)" if is_default else metadata["name"]
    return [name, *(column.value(obj) for column in COLUMNS[1:] if column.value)]


KINDS = {
    "storageclasses": Kind(
        default=Defaults({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        validate=RULES,
        validate_update=UpdateRules(
            dict.fromkeys(("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"), _unchanged)
        ),
        warnings=_warnings,
        returns_deleted_object=True,
        checks_whole_on_update=True,
        columns=COLUMNS,
        cells=_cells,
    ),
    "volumeattributesclasses": Kind(
        former={"-1.35": {"hashed_group_version": "storage.k8s.io/v1beta1"}},
        validate=ATTRIBUTES_RULES,
        validate_update=UpdateRules(
            dict.fromkeys(("driverName", "parameters"), _attributes_unchanged), ATTRIBUTES_RULES
        ),
        returns_deleted_object=True,
        checks_whole_on_update=True,
        columns=(column("DriverName", shown("driverName"), description="Name of the CSI driver."), AGE),
    ),
}
