"""Persistent volumes and the claims on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.quantity import Quantity
from kubewright.apiserver.resource import Object, Operation, Version
from kubewright.apiserver.shaping import copied
from kubewright.apiserver.writes import now_text
from kubewright.schema import fielderrors as fe

from .kind import KindStrategy
from .pod_updates import describe_difference
from .podspec.defaults import round_quantities
from .podspec.names_and_numbers import Errors, choice, dns_subdomain, immutable
from .podspec.resources import quantity_errors
from .podspec.scheduling import node_selector_errors, selector_errors
from .podspec.volumes import source_order
from .rows import AGE, NAME, age_of, column, name_of

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
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
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


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
        if not source.get("apiGroup") and source.get("kind") not in ("PersistentVolumeClaim", None, ""):
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            errors.append(fe.invalid(f"{path}.{field}", source.get("kind"), text))
    return errors


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
        source = obj["spec"].get("dataSource")
        if source is not None and (source.get("apiGroup") or "", source.get("kind")) not in _OLD_SOURCES:
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
            return [
                error
                for name, text in ((obj.get("status") or {}).get("capacity") or {}).items()
                for error in _positive(text, f"status.capacity[{name}]")
            ]
        errors = claim_spec_errors(obj["spec"], "spec")
        after, before = copied(obj["spec"]), copied(old["spec"])
        if not before.get("volumeName"):
            before.pop("volumeName", None)
            after.pop("volumeName", None)
        annotations = old["metadata"].get("annotations") or {}
        if before.get("storageClassName") is None and (
            _BETA_CLASS not in annotations or annotations[_BETA_CLASS] == after.get("storageClassName")
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
        return errors + immutable(obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Amounts that make no sense in bytes."""
        if op.subresource == "":
            for part in ("limits", "requests"):
                text = ((obj["spec"].get("resources") or {}).get(part) or {}).get("storage")
                if text is not None and Quantity(text).nanos % 1_000_000_000:
                    where = f"spec.resources.{part}[storage]"
                    yield f'{where}: fractional byte value "{text}" is invalid, must be an integer'


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
        if spec.get("hostPath") is not None:
            spec["hostPath"].setdefault("type", "")
        status: Object = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """A new volume is not available yet."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now_text()}

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """The time of the phase follows the phase."""
        if op.subresource == "status":
            status, before = obj.setdefault("status", {}), old.get("status") or {}
            changed = status.get("phase") != before.get("phase")
            if changed and status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime"):
                status["lastPhaseTransitionTime"] = now_text()

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
        return errors + immutable(obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")


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
        errors += _backing_errors({**spec, **dict.fromkeys(sources[1:])}, required)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], f"spec.{field}")
    if spec.get("volumeMode") is not None:
        errors += choice(spec["volumeMode"], ("Block", "Filesystem"), "spec.volumeMode")
    return errors


def _backing_errors(spec: Object, required: Object | None) -> Errors:
    errors: Errors = []
    host = spec.get("hostPath")
    if host is not None:
        if not host.get("path"):
            errors.append(fe.required("spec.hostPath.path", ""))
        elif ".." in host["path"].split("/"):
            errors.append(fe.invalid("spec.hostPath.path", host["path"], "must not contain '..'"))
        if host.get("path") == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            text = "may not be 'recycle' for a hostPath mount of '/'"
            errors.append(fe.forbidden("spec.persistentVolumeReclaimPolicy", text))
    if spec.get("local") is not None:
        if not spec["local"].get("path"):
            errors.append(fe.required("spec.local.path", ""))
        if required is None:
            errors.append(fe.required("spec.nodeAffinity", "Local volume requires node affinity"))
    if spec.get("nfs") is not None:
        errors += [
            fe.required(f"spec.nfs.{part}", "") for part in ("server", "path") if not spec["nfs"].get(part)
        ]
    if spec.get("csi") is not None:
        errors += [
            fe.required(f"spec.csi.{part}", "")
            for part in ("driver", "volumeHandle")
            if not spec["csi"].get(part)
        ]
    return errors


def _modes(modes: list[str] | None) -> str:
    return ",".join(_SHORT_MODES[mode] for mode in _SHORT_MODES if mode in (modes or ()))


def _phase(obj: Object) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def _class(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(_BETA_CLASS) or (obj.get("spec") or {}).get("storageClassName") or ""


def volume_cells(obj: Object) -> list[Any]:
    """The row of a volume."""
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim is not None else "",
        _class(obj),
        spec.get("volumeAttributesClassName") or "<unset>",
        (obj.get("status") or {}).get("reason") or "",
        age_of(obj),
        spec.get("volumeMode") or "<unset>",
    ]


def claim_cells(obj: Object) -> list[Any]:
    """The row of a claim."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName") or "",
        ((status.get("capacity") or {}).get("storage") or "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _class(obj),
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(obj),
        spec.get("volumeMode") or "<unset>",
    ]


VOLUME_COLUMNS = (
    NAME,
    column("Capacity", "How much the volume holds."),
    column("Access Modes", "How the volume can be mounted."),
    column("Reclaim Policy", "What happens to the volume when it is released."),
    column("Status", "The phase of the volume."),
    column("Claim", "The claim that the volume is bound to."),
    column("StorageClass", "StorageClass of the pv"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    column("Reason", "Why the volume is in its phase."),
    AGE,
    column("VolumeMode", "File system or block device.", wide=True),
)
CLAIM_COLUMNS = (
    NAME,
    column("Status", "The phase of the claim."),
    column("Volume", "The volume that the claim is bound to."),
    column("Capacity", "How much the volume holds."),
    column("Access Modes", "How the volume can be mounted."),
    column("StorageClass", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    column("VolumeMode", "File system or block device.", wide=True),
)
