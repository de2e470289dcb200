"""Persistent volumes and the claims on them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.quantity import Quantity
from kubewright.apiserver.objects import Object, current_timestamp, deep_copy
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    choice,
    dns_subdomain,
    immutable,
    no_backsteps,
    qualified_name,
)
from kubewright.schema import field_errors as fe

from .pod.updates import describe_difference
from .podspec.defaults import default_disk, round_quantities
from .podspec.disks import disk_errors, driver_errors, secret_reference_errors
from .podspec.resources import is_native, quantity_errors
from .podspec.scheduling import node_selector_errors, selector_errors
from .podspec.volumes import source_order
from .podspec.warnings import OLD_LABELS, node_term_warnings, volume_warnings
from .volume_printing import CLASS_ANNOTATION

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
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
_OLD_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""What `dataSource` can name; everything else needs `dataSourceRef`."""
_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_OLD_CLASS = 'deprecated since v1.8; use "storageClassName" attribute instead'


_INLINE = "in the context of inline volumes"


def _mode_errors(spec: Object, path: str, missing: str) -> Errors:
    modes = spec.get("accessModes") or []
    errors = [] if modes else [fe.required(f"{path}.accessModes", missing)]
    errors += [fe.not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(fe.forbidden(f"{path}.accessModes", text))
    return errors


def _positive(text: str, path: str) -> Errors:
    return [fe.invalid(path, text, "must be greater than zero")] if Quantity(text).nanos <= 0 else []


def claim_spec_errors(spec: Object, path: str) -> Errors:
    """What is wrong with a claim, wherever it stands."""
    errors = _mode_errors(spec, path, "at least 1 access mode is required")
    errors += selector_errors(spec.get("selector"), f"{path}.selector")
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    where = f"{path}.resources[storage]"
    if wanted is None:
        errors.append(fe.required(where, ""))
    else:
        errors += _positive(wanted, where) or quantity_errors("storage", wanted, where)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], f"{path}.{field}")
    if spec.get("volumeMode") is not None:
        errors += choice(spec["volumeMode"], ("Block", "Filesystem"), f"{path}.volumeMode")
    for field in ("dataSource", "dataSourceRef"):
        source = spec.get(field)
        if source is None:
            continue
        errors += [
            fe.required(f"{path}.{field}.{part}", "") for part in ("name", "kind") if not source.get(part)
        ]
        if source.get("apiGroup"):
            errors += dns_subdomain(source["apiGroup"], f"{path}.{field}.apiGroup")
        elif source.get("kind") != "PersistentVolumeClaim":
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            errors.append(fe.invalid(f"{path}.{field}", source.get("kind") or "", text))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is not None and _identity(source) != _identity(reference):
        errors.append(fe.invalid(path, {}, "must match dataSourceRef"))
    return errors


def _identity(source: Object) -> tuple[str, str, str]:
    return source.get("apiGroup") or "", source.get("kind") or "", source.get("name") or ""


class PersistentVolumeClaimStrategy(KindStrategy):
    """Claims."""

    returns_deleted_object = True

    def default(self, version: Version, obj: Object) -> None:
        """Claims are for file systems unless they say otherwise."""
        spec: Object = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        resources = spec.get("resources") or {}
        round_quantities(resources.get("requests"))
        round_quantities(resources.get("limits"))
        status: Object = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """A new claim waits for a volume."""
        obj["status"] = {"phase": "Pending"}
        if (obj["spec"].get("dataSourceRef") or {}).get("namespace"):
            del obj["spec"]["dataSourceRef"]
        source = obj["spec"].get("dataSource")
        if (
            "dataSourceRef" not in obj["spec"]
            and source is not None
            and (source.get("apiGroup") or "", source.get("kind")) not in _OLD_SOURCES
        ):
            del obj["spec"]["dataSource"]
        _mirror_source(obj["spec"])

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Both ways to name a source say the same."""
        if op.subresource == "":
            _mirror_source(obj["spec"])

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new claim."""
        return claim_spec_errors(obj["spec"], "spec")

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Of a bound claim the size can grow; nothing else changes."""
        if op.subresource == "status":
            return _claim_status_errors(obj.get("status") or {})
        errors = claim_spec_errors(obj["spec"], "spec")
        after, before = deep_copy(obj["spec"]), deep_copy(old["spec"])
        if not before.get("volumeName"):
            before.pop("volumeName", None)
            after.pop("volumeName", None)
        annotations = old["metadata"].get("annotations") or {}
        if before.get("storageClassName") is None and (
            CLASS_ANNOTATION not in annotations
            or annotations[CLASS_ANNOTATION] == after.get("storageClassName")
        ):
            after.pop("storageClassName", None)
        if (obj.get("status") or {}).get("phase") == "Bound":
            for one in (after, before):
                one.pop("volumeAttributesClassName", None)
                ((one.get("resources") or {}).get("requests") or {}).pop("storage", None)
        if after != before:
            text = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName "
                f"for bound claims\n{describe_difference(before, after)}"
            )
            errors.append(fe.forbidden("spec", text))
        sizes: list[Any] = [
            ((one["spec"].get("resources") or {}).get("requests") or {}).get("storage") for one in (obj, old)
        ]
        if all(sizes) and Quantity(sizes[0]) < Quantity(sizes[1]):
            capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage") or "0"
            if Quantity(sizes[0]) <= Quantity(capacity):
                text = "field can not be less than status.capacity"
                errors.append(fe.forbidden("spec.resources.requests.storage", text))
        errors += immutable(obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")
        wanted = obj["spec"].get("volumeAttributesClassName")
        if (old.get("status") or {}).get("currentVolumeAttributesClassName") is not None and not wanted:
            noun = "nil" if wanted is None else "empty string"
            text = f"update to {noun} is forbidden when status.currentVolumeAttributesClassName is not nil"
            errors.append(fe.forbidden("spec.volumeAttributesClassName", text))
        return errors

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Amounts that make no sense in bytes, and the old way to name a class."""
        if op.subresource == "":
            if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
                yield f"metadata.annotations[{CLASS_ANNOTATION}]: {_OLD_CLASS}"
            for part in ("limits", "requests"):
                text = ((obj["spec"].get("resources") or {}).get(part) or {}).get("storage")
                if text is not None and Quantity(text).nanos % 1_000_000_000:
                    where = f"spec.resources.{part}[storage]"
                    yield f'{where}: fractional byte value "{text}" is invalid, must be an integer'


def _claim_status_errors(status: Object) -> Errors:
    errors: Errors = []
    for name, text in (status.get("capacity") or {}).items():
        errors += _amount_errors(text, f"status.capacity[{name}]")
    path = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _claim_resource_errors(name, path)
        if state not in _RESIZE_STATES:
            errors.append(fe.not_supported(path, name, _RESIZE_STATES))
    path = "status.allocatedResources"
    for name, text in (status.get("allocatedResources") or {}).items():
        errors += _claim_resource_errors(name, path) or _amount_errors(text, f"{path}[{name}]")
    return errors


def _claim_resource_errors(name: str, path: str) -> Errors:
    errors = qualified_name(name, path)
    if not errors and is_native(name) and name != "storage":
        errors.append(fe.not_supported(path, name, ("storage",)))
    return errors


def _amount_errors(text: str, path: str) -> Errors:
    amount = Quantity(text)
    if amount.nanos >= 0:
        return []
    return [fe.invalid(path, amount.as_int(), "must be a valid resource quantity")]


def _mirror_source(spec: Object) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace"):
        return
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None:
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


class PersistentVolumeStrategy(KindStrategy):
    """Volumes."""

    returns_deleted_object = True

    def default(self, version: Version, obj: Object) -> None:
        """Volumes are kept when released, and hold file systems."""
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

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """A new volume is not available yet."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": current_timestamp()}

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """The time of the phase follows the phase."""
        if op.subresource == "status":
            status, before = obj.setdefault("status", {}), old.get("status") or {}
            changed = status.get("phase") != before.get("phase")
            if changed and status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime"):
                status["lastPhaseTransitionTime"] = current_timestamp()

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new volume."""
        return _volume_errors(obj["spec"])

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """What backs a volume never changes."""
        if op.subresource == "status":
            return []
        errors = _volume_errors(obj["spec"])
        after, before = (
            {key: value for key, value in one["spec"].items() if key not in _SPEC_FIELDS}
            for one in (obj, old)
        )
        if after != before:
            difference = describe_difference(before, after)
            text = f"spec.persistentvolumesource is immutable after creation\n{difference}"
            errors.append(fe.forbidden("spec.persistentvolumesource", text))
        errors += immutable(obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")
        affinity, earlier = obj["spec"].get("nodeAffinity"), old["spec"].get("nodeAffinity")
        if earlier is not None and _renewed(affinity) != _renewed(earlier):
            text = "field is immutable, except for updating from beta label to GA"
            errors.append(fe.invalid("nodeAffinity", _shown_affinity(affinity), text))
        field = "volumeAttributesClassName"
        if old["spec"].get(field) is not None and obj["spec"].get(field) is None:
            text = "update from non-nil value to nil is forbidden"
            errors.append(fe.forbidden(f"spec.{field}", text))
        return errors

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Sources, labels and policies that are going away."""
        if op.subresource:
            return
        spec: Object = obj["spec"]
        if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
            yield f"metadata.annotations[{CLASS_ANNOTATION}]: {_OLD_CLASS}"
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            yield (
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
                "recommended approach is to use dynamic provisioning."
            )
        required: Object = (spec.get("nodeAffinity") or {}).get("required") or {}
        for position, term in enumerate(required.get("nodeSelectorTerms") or ()):
            yield from node_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{position}]")
        yield from volume_warnings(spec, "spec", persistent=True)


def _renewed(affinity: Object | None) -> Object | None:
    """Node affinity with old names of labels replaced by those that took their place."""
    if affinity is None:
        return None
    renewed: Object = deep_copy(affinity)
    for term in (renewed.get("required") or {}).get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in OLD_LABELS:
                expression["key"] = OLD_LABELS[key].split('"')[1]
    return renewed


def _shown_affinity(affinity: Object | None) -> Any:
    """Node affinity of a volume as messages show it."""

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


def _volume_errors(spec: Object) -> Errors:
    errors = _mode_errors(spec, "spec", "")
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors.append(fe.required("spec.capacity", ""))
    if set(capacity) != {"storage"}:
        errors.append(fe.not_supported("spec.capacity", spec.get("capacity"), ("storage",)))
    for name, text in capacity.items():
        path = f"spec.capacity[{name}]"
        if Quantity(text).nanos < 0:
            errors.append(fe.invalid(path, Quantity(text).as_int(), "must be a valid resource quantity"))
        errors += _positive(text, path)
    policy = spec.get("persistentVolumeReclaimPolicy")
    errors += choice(policy, ("Delete", "Recycle", "Retain"), "spec.persistentVolumeReclaimPolicy")
    required = (spec.get("nodeAffinity") or {}).get("required")
    if spec.get("nodeAffinity") is not None:
        if required is None:
            text = "must specify required node constraints"
            errors.append(fe.required("spec.nodeAffinity.required", text))
        else:
            errors += node_selector_errors(required, "spec.nodeAffinity.required")
    sources = sorted((name for name in spec if name not in _SPEC_FIELDS), key=source_order)
    if not sources:
        errors.append(fe.required("spec", "must specify a volume type"))
    errors += [
        fe.forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]
    ]
    if sources:
        errors += _backing_errors(sources[0], spec)
    if spec.get("storageClassName"):
        errors += dns_subdomain(spec["storageClassName"], "spec.storageClassName")
    if spec.get("volumeMode") is not None:
        errors += choice(spec["volumeMode"], ("Block", "Filesystem"), "spec.volumeMode")
    wanted, path = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if wanted is not None:
        errors += (
            dns_subdomain(wanted, path) if wanted else [fe.required(path, "an empty string is disallowed")]
        )
        if spec.get("csi") is None:
            text = "has to be specified when using volumeAttributesClassName"
            errors.append(fe.required("spec.csi", text))
    return errors


def inline_volume_errors(spec: Object, path: str) -> Errors:
    """A volume that an attachment describes itself: of a CSI driver, and nothing that is about storage."""
    errors: Errors = []
    for name in ("claimRef", "capacity"):
        if spec.get(name):
            errors.append(fe.forbidden(f"{path}.{name}", f"may not be specified {_INLINE}"))
    if spec.get("csi") is None:
        errors.append(fe.required(f"{path}.csi", f"has to be specified {_INLINE}"))
    errors += _mode_errors(spec, path, "")
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        errors.append(fe.forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(fe.forbidden(f"{path}.nodeAffinity", f"may not be specified {_INLINE}"))
    if spec.get("csi") is not None:
        errors += _csi_errors(spec["csi"], f"{path}.csi")
    if spec.get("storageClassName"):
        errors.append(fe.forbidden(f"{path}.storageClassName", f"may not be specified {_INLINE}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        errors.append(fe.forbidden(f"{path}.volumeMode", text))
    return errors


def _csi_errors(source: Object, path: str) -> Errors:
    errors = driver_errors(source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        errors.append(fe.required(f"{path}.volumeHandle", ""))
    for field in _CSI_SECRETS:
        if source.get(field) is not None:
            errors += secret_reference_errors(source[field], f"{path}.{field}")
    return errors


def _backing_errors(kind: str, spec: Object) -> Errors:
    source, path = spec[kind], f"spec.{kind}"
    if kind == "csi":
        return _csi_errors(source, path)
    if kind == "local":
        where = source.get("path") or ""
        errors = no_backsteps(where, f"{path}.path") if where else [fe.required(f"{path}.path", "")]
        if spec.get("nodeAffinity") is None:
            errors.append(fe.required("spec.nodeAffinity", "Local volume requires node affinity"))
        return errors
    errors = disk_errors(kind, source, path)
    if (
        kind == "hostPath"
        and posixpath.normpath(source.get("path") or ".") in ("/", "//")
        and spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    ):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(fe.forbidden("spec.persistentVolumeReclaimPolicy", text))
    return errors
