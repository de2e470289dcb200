"""PersistentVolumeClaim: defaults, validation, warnings and columns.

The spec is immutable, except that a bound claim can grow and can change its attributes class, and that an
unbound one is completed (volume, default class). `dataSource` and `dataSourceRef` are two fields for the same
value; the server keeps them equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, UNSET, age_of, column, name_of
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    Entry,
    Enum,
    Errors,
    Immutable,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import qualified_name
from kubewright.schema import field_errors as fe

from .pod.updates import describe_difference
from .podspec.defaults import round_quantities
from .podspec.resources import is_native, quantity_errors
from .podspec.scheduling import selector_errors

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_LEGACY_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""Sources that `dataSource` supports; others require `dataSourceRef`."""
_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


class PersistentVolumeClaimStrategy(KindStrategy):
    """Claims: `dataSource` and `dataSourceRef` are kept equal."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the initial phase and drop data sources that are not supported."""
        obj["status"] = {"phase": "Pending"}
        if (obj["spec"].get("dataSourceRef") or {}).get("namespace"):
            del obj["spec"]["dataSourceRef"]
        source = obj["spec"].get("dataSource")
        if (
            "dataSourceRef" not in obj["spec"]
            and source is not None
            and (source.get("apiGroup") or "", source.get("kind")) not in _LEGACY_SOURCES
        ):
            del obj["spec"]["dataSource"]
        _copy_source(obj["spec"])

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Copy the data source to the field that is not set."""
        if op.subresource == "":
            _copy_source(obj["spec"])


def _copy_source(spec: Object) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace"):
        return
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None:
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _default(obj: Object) -> None:
    spec: Object = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.get("resources") or {}
    round_quantities(resources.get("requests"))
    round_quantities(resources.get("limits"))
    status: Object = obj.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"


def check_access_modes(modes: list[str], path: str) -> Errors:
    """Check the access modes of a claim or volume."""
    errors = [fe.not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(fe.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def check_positive(text: str, path: str) -> Errors:
    """Check that a quantity is positive."""
    return [fe.invalid(path, text, "must be greater than zero")] if Quantity(text).nanos <= 0 else []


def _check_request(spec: Object, path: str) -> Errors:
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    path = f"{path}.resources[storage]"
    if size is None:
        return [fe.required(path, "")]
    return check_positive(size, path) or quantity_errors("storage", size, path)


def _check_source_group(source: Object, path: str) -> Errors:
    if source.get("apiGroup") or source.get("kind") == "PersistentVolumeClaim":
        return []
    text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
    return [fe.invalid(path, source.get("kind") or "", text)]


def _check_sources(spec: Object, path: str) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return []
    if all(
        (source.get(field) or "") == (reference.get(field) or "") for field in ("apiGroup", "kind", "name")
    ):
        return []
    return [fe.invalid(path, {}, "must match dataSourceRef")]


_SOURCE: Entry = [{"name": Required(), "kind": Required(), "apiGroup": DNS_SUBDOMAIN}, _check_source_group]
CLAIM_SPEC = Rules(
    [
        {"accessModes": Required("at least 1 access mode is required")},
        {"accessModes": check_access_modes, "selector": selector_errors},
        _check_request,
        {
            "storageClassName": DNS_SUBDOMAIN,
            "volumeAttributesClassName": DNS_SUBDOMAIN,
            "volumeMode": Enum("Block", "Filesystem"),
            "dataSource?": _SOURCE,
            "dataSourceRef?": _SOURCE,
        },
        _check_sources,
    ]
)


def claim_spec_errors(spec: Object, path: str) -> Errors:
    """Check the spec of a claim or of a claim template."""
    return CLAIM_SPEC(spec, path)


def _check_immutable(obj: Object, old: Object) -> Errors:
    """Check that only the size and the attributes class of a bound claim change."""
    after, before = deep_copy(obj["spec"]), deep_copy(old["spec"])
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        after.pop("volumeName", None)
    annotations = old["metadata"].get("annotations") or {}
    if before.get("storageClassName") is None and (
        CLASS_ANNOTATION not in annotations or annotations[CLASS_ANNOTATION] == after.get("storageClassName")
    ):
        after.pop("storageClassName", None)
    if (obj.get("status") or {}).get("phase") == "Bound":
        for spec in (after, before):
            spec.pop("volumeAttributesClassName", None)
            ((spec.get("resources") or {}).get("requests") or {}).pop("storage", None)
    if after == before:
        return []
    text = (
        "spec is immutable after creation except resources.requests and volumeAttributesClassName "
        f"for bound claims\n{describe_difference(before, after)}"
    )
    return [fe.forbidden("spec", text)]


def _check_size(obj: Object, old: Object) -> Errors:
    """Check that the size does not shrink below the capacity."""
    sizes: list[Any] = [
        ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage") for claim in (obj, old)
    ]
    if not all(sizes) or Quantity(sizes[0]) >= Quantity(sizes[1]):
        return []
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage") or "0"
    if Quantity(sizes[0]) > Quantity(capacity):
        return []
    text = "field can not be less than status.capacity"
    return [fe.forbidden("spec.resources.requests.storage", text)]


def _check_attributes_class(obj: Object, old: Object) -> Errors:
    name = obj["spec"].get("volumeAttributesClassName")
    if (old.get("status") or {}).get("currentVolumeAttributesClassName") is None or name:
        return []
    noun = "nil" if name is None else "empty string"
    text = f"update to {noun} is forbidden when status.currentVolumeAttributesClassName is not nil"
    return [fe.forbidden("spec.volumeAttributesClassName", text)]


def _immutable_mode(new: Any, old: Any, path: str) -> Errors:
    return Immutable()(new, old, "volumeMode")


def _check_amount(text: str, path: str) -> Errors:
    amount = Quantity(text)
    if amount.nanos >= 0:
        return []
    return [fe.invalid(path, amount.as_int(), "must be a valid resource quantity")]


def _check_resource_name(name: str, path: str) -> Errors:
    errors = qualified_name(name, path)
    if not errors and is_native(name) and name != "storage":
        errors.append(fe.not_supported(path, name, ("storage",)))
    return errors


def _check_status(status: Object, path: str) -> Errors:
    errors: Errors = []
    for name, text in (status.get("capacity") or {}).items():
        errors += _check_amount(text, f"{path}.capacity[{name}]")
    where = f"{path}.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _check_resource_name(name, where)
        if state not in _RESIZE_STATES:
            errors.append(fe.not_supported(where, name, _RESIZE_STATES))
    where = f"{path}.allocatedResources"
    for name, text in (status.get("allocatedResources") or {}).items():
        errors += _check_resource_name(name, where) or _check_amount(text, f"{where}[{name}]")
    return errors


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        yield f"metadata.annotations[{CLASS_ANNOTATION}]: {CLASS_DEPRECATION}"
    for part in ("limits", "requests"):
        text = ((obj["spec"].get("resources") or {}).get(part) or {}).get("storage")
        if text is not None and Quantity(text).nanos % 1_000_000_000:
            path = f"spec.resources.{part}[storage]"
            yield f'{path}: fractional byte value "{text}" is invalid, must be an integer'


def _cells(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        phase_of(obj),
        spec.get("volumeName") or "",
        ((status.get("capacity") or {}).get("storage") or "0") if bound else "",
        modes_text(status.get("accessModes")) if bound else "",
        class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(obj),
        spec.get("volumeMode") or UNSET,
    ]


RULES = Rules({"spec": CLAIM_SPEC})
KINDS = {
    "persistentvolumeclaims": Kind(
        strategy=PersistentVolumeClaimStrategy,
        default=_default,
        validate=RULES,
        validate_update=UpdateRules(
            RULES,
            _check_immutable,
            _check_size,
            {"spec.volumeMode": _immutable_mode},
            _check_attributes_class,
        ),
        validate_status=UpdateRules(Rules({"status": _check_status})),
        warnings=_warnings,
        returns_deleted_object=True,
        columns=(
            NAME,
            column("Status", description="Phase of the claim."),
            column("Volume", description="Volume that the claim is bound to."),
            column("Capacity", description="Capacity of the volume."),
            column("Access Modes", description="Access modes of the volume."),
            column("StorageClass", description="StorageClass of the pvc"),
            column("VolumeAttributesClass", description="VolumeAttributesClass of the pvc"),
            AGE,
            column("VolumeMode", description="Filesystem or Block.", wide=True),
        ),
        cells=_cells,
        subresources={"status": STATUS},
        checks_whole_on_update=True,
    )
}


CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named the storage class before the field existed."""
CLASS_DEPRECATION = 'deprecated since v1.8; use "storageClassName" attribute instead'
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def modes_text(modes: list[str] | None) -> str:
    """Return access modes in the short notation of kubectl."""
    return ",".join(_SHORT_MODES[mode] for mode in _SHORT_MODES if mode in (modes or ()))


def phase_of(obj: Object) -> str:
    """Return the phase of a volume or claim."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def class_of(obj: Object) -> str:
    """Return the storage class of a volume or claim."""
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(CLASS_ANNOTATION) or (obj.get("spec") or {}).get("storageClassName") or ""
