"""PersistentVolume: defaults, validation, warnings and columns.

A volume has exactly one source. The source, the volume mode and, once it is set, the node affinity are
immutable. The server sets the initial phase and the time of its changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object, current_timestamp, deep_copy
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, UNSET, age_of, column, name_of
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    Check,
    Enum,
    Errors,
    Immutable,
    Members,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import no_backsteps
from kubewright.schema import field_errors as fe

from .persistent_volume_claim import (
    CLASS_ANNOTATION,
    CLASS_DEPRECATION,
    check_access_modes,
    check_positive,
    class_of,
    modes_text,
    phase_of,
)
from .pod.updates import describe_difference
from .podspec.defaults import default_disk, round_quantities
from .podspec.disks import DISKS, PATHS, SECRET_REFERENCE, check_driver_name
from .podspec.scheduling import node_selector_errors
from .podspec.volumes import source_order
from .podspec.warnings import DEPRECATED_LABELS, node_term_warnings, volume_warnings

_SPEC_FIELDS = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)
"""Fields of the spec that are not volume sources."""
_INLINE = "in the context of inline volumes"


class PersistentVolumeStrategy(KindStrategy):
    """Volumes: the server records when the phase changes."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the initial phase."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": current_timestamp()}

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Set the time of a change of the phase."""
        if op.subresource == "status":
            status, before = obj.setdefault("status", {}), old.get("status") or {}
            changed = status.get("phase") != before.get("phase")
            if changed and status.get("lastPhaseTransitionTime") in (
                None,
                before.get("lastPhaseTransitionTime"),
            ):
                status["lastPhaseTransitionTime"] = current_timestamp()


def _default(obj: Object) -> None:
    spec: Object = obj.setdefault("spec", {})
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")
    round_quantities(spec.get("capacity"))
    default_disk(spec)
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")
    status: Object = obj.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"


def _check_capacity(spec: Object, path: str) -> Errors:
    capacity, path = spec.get("capacity") or {}, f"{path}.capacity"
    errors: Errors = [] if capacity else [fe.required(path, "")]
    if set(capacity) != {"storage"}:
        errors.append(fe.not_supported(path, spec.get("capacity"), ("storage",)))
    for name, text in capacity.items():
        if Quantity(text).nanos < 0:
            message = "must be a valid resource quantity"
            errors.append(fe.invalid(f"{path}[{name}]", Quantity(text).as_int(), message))
        errors += check_positive(text, f"{path}[{name}]")
    return errors


def _check_source(spec: Object, path: str) -> Errors:
    sources = sorted((name for name in spec if name not in _SPEC_FIELDS), key=source_order)
    if not sources:
        return [fe.required(path, _SOURCES.missing)]
    first, *others = sources
    errors = [fe.forbidden(f"{path}.{name}", _SOURCES.excess) for name in others]
    if first in _SOURCES.tables:
        errors += _SOURCES.member(first, spec[first], path)
    if first == "local" and spec.get("nodeAffinity") is None:
        errors.append(fe.required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    if (
        first == "hostPath"
        and posixpath.normpath(spec[first].get("path") or ".") in ("/", "//")
        and spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    ):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(fe.forbidden(f"{path}.persistentVolumeReclaimPolicy", text))
    return errors


def _check_attributes_class(name: str, path: str) -> Errors:
    return [] if name else [fe.required(path, "an empty string is disallowed")]


def _check_attributes_driver(spec: Object, path: str) -> Errors:
    if spec.get("volumeAttributesClassName") is None or spec.get("csi") is not None:
        return []
    return [fe.required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")]


_REQUIRED = Required()
_CSI = Rules(
    {
        "driver": Check(check_driver_name, absent=""),
        "volumeHandle": _REQUIRED,
        "controllerPublishSecretRef?": SECRET_REFERENCE,
        "controllerExpandSecretRef?": SECRET_REFERENCE,
        "nodePublishSecretRef?": SECRET_REFERENCE,
        "nodeExpandSecretRef?": SECRET_REFERENCE,
    }
)
_SOURCES = Members(
    {
        **DISKS,
        "iscsi": [DISKS["iscsi"], {"secretRef?.name": _REQUIRED}],
        "csi": _CSI,
        "local": {"path": [_REQUIRED, no_backsteps]},
    },
    missing="must specify a volume type",
    excess="may not specify more than 1 volume type",
    paths=PATHS,
)
RULES = Rules(
    {
        "spec": [
            {"accessModes": [_REQUIRED, check_access_modes]},
            _check_capacity,
            {
                "persistentVolumeReclaimPolicy": [_REQUIRED, Enum("Delete", "Recycle", "Retain")],
                "nodeAffinity?.required": [
                    Required("must specify required node constraints", pointer=True),
                    node_selector_errors,
                ],
            },
            _check_source,
            {
                "storageClassName": DNS_SUBDOMAIN,
                "volumeMode": Enum("Block", "Filesystem"),
                "volumeAttributesClassName": [DNS_SUBDOMAIN, _check_attributes_class],
            },
            _check_attributes_driver,
        ]
    }
)


def inline_volume_errors(spec: Object, path: str) -> Errors:
    """Check the volume that a VolumeAttachment describes: of a CSI driver, without storage options."""
    errors = [
        fe.forbidden(f"{path}.{name}", f"may not be specified {_INLINE}")
        for name in ("claimRef", "capacity")
        if spec.get(name)
    ]
    if spec.get("csi") is None:
        errors.append(fe.required(f"{path}.csi", f"has to be specified {_INLINE}"))
    modes = spec.get("accessModes") or []
    errors += [] if modes else [fe.required(f"{path}.accessModes", "")]
    errors += check_access_modes(modes, f"{path}.accessModes")
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        errors.append(fe.forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(fe.forbidden(f"{path}.nodeAffinity", f"may not be specified {_INLINE}"))
    if spec.get("csi") is not None:
        errors += _CSI(spec["csi"], f"{path}.csi")
    if spec.get("storageClassName"):
        errors.append(fe.forbidden(f"{path}.storageClassName", f"may not be specified {_INLINE}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        errors.append(fe.forbidden(f"{path}.volumeMode", text))
    return errors


def _check_immutable_source(obj: Object, old: Object) -> Errors:
    after, before = (
        {key: value for key, value in volume["spec"].items() if key not in _SPEC_FIELDS}
        for volume in (obj, old)
    )
    if after == before:
        return []
    text = f"spec.persistentvolumesource is immutable after creation\n{describe_difference(before, after)}"
    return [fe.forbidden("spec.persistentvolumesource", text)]


def _immutable_mode(new: Any, old: Any, path: str) -> Errors:
    return Immutable()(new, old, "volumeMode")


def _immutable_affinity(new: Object | None, old: Object | None, path: str) -> Errors:
    if old is None or _with_current_labels(new) == _with_current_labels(old):
        return []
    text = "field is immutable, except for updating from beta label to GA"
    return [fe.invalid("nodeAffinity", _shown_affinity(new), text)]


def _keep_attributes_class(new: str | None, old: str | None, path: str) -> Errors:
    if old is None or new is not None:
        return []
    return [fe.forbidden(path, "update from non-nil value to nil is forbidden")]


def _with_current_labels(affinity: Object | None) -> Object | None:
    """Replace deprecated labels in node affinity."""
    if affinity is None:
        return None
    renamed: Object = deep_copy(affinity)
    for term in (renamed.get("required") or {}).get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in DEPRECATED_LABELS:
                expression["key"] = DEPRECATED_LABELS[key].split('"')[1]
    return renamed


def _shown_affinity(affinity: Object | None) -> Any:
    """Format node affinity as Go does in error messages."""

    def requirements(found: list[Object] | None) -> Any:
        return found and [
            fe.GoStruct({name: one.get(name.lower()) for name in ("Key", "Operator", "Values")})
            for one in found
        ]

    if affinity is None:
        return None
    terms = [
        fe.GoStruct(
            {name: requirements(term.get(f"m{name[1:]}")) for name in ("MatchExpressions", "MatchFields")}
        )
        for term in (affinity.get("required") or {}).get("nodeSelectorTerms") or ()
    ]
    return fe.GoStruct({"Required": fe.GoStruct({"NodeSelectorTerms": terms})})


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    spec: Object = obj["spec"]
    if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        yield f"metadata.annotations[{CLASS_ANNOTATION}]: {CLASS_DEPRECATION}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
            "recommended approach is to use dynamic provisioning."
        )
    required: Object = (spec.get("nodeAffinity") or {}).get("required") or {}
    for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from node_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    yield from volume_warnings(spec, "spec", persistent=True)


def _cells(obj: Object) -> list[Any]:
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage") or "0",
        modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase_of(obj),
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim is not None else "",
        class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        (obj.get("status") or {}).get("reason") or "",
        age_of(obj),
        spec.get("volumeMode") or UNSET,
    ]


KINDS = {
    "persistentvolumes": Kind(
        strategy=PersistentVolumeStrategy,
        default=_default,
        validate=RULES,
        validate_update=UpdateRules(
            RULES,
            _check_immutable_source,
            {
                "spec.volumeMode": _immutable_mode,
                "spec.nodeAffinity": _immutable_affinity,
                "spec.volumeAttributesClassName": _keep_attributes_class,
            },
        ),
        warnings=_warnings,
        returns_deleted_object=True,
        columns=(
            NAME,
            column("Capacity", description="Capacity of the volume."),
            column("Access Modes", description="Supported access modes."),
            column("Reclaim Policy", description="Policy for a volume that is released from its claim."),
            column("Status", description="Phase of the volume."),
            column("Claim", description="Claim that the volume is bound to."),
            column("StorageClass", description="StorageClass of the pv"),
            column("VolumeAttributesClass", description="VolumeAttributesClass of the pv"),
            column("Reason", description="Reason of the phase."),
            AGE,
            column("VolumeMode", description="Filesystem or Block.", wide=True),
        ),
        cells=_cells,
        subresources={"status": STATUS},
        checks_whole_on_update=True,
    )
}
