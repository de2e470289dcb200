"""Volume mounts and devices of containers."""

from __future__ import annotations

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import Enum, Errors
from kubewright.controlplane.kinds.validation.formats import descending_path
from kubewright.schema import field_errors as fe

_PROPAGATION = Enum("Bidirectional", "HostToContainer", "None")
_RECURSIVE = Enum("Disabled", "Enabled", "IfPossible")


def check_mounts(container: Object, path: str, volumes: dict[str, Object]) -> Errors:
    """Check the mounts and devices of a container against the volumes of its pod."""
    errors: Errors = []
    devices = {
        device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()
    }
    targets: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
        if name not in volumes:
            errors.append(FieldError.not_found(f"{where}.name", name))
        if not target:
            errors.append(fe.required(f"{where}.mountPath", ""))
        if target in targets:
            errors.append(fe.invalid(f"{where}.mountPath", target, "must be unique"))
        targets.add(target)
        if name in devices:
            errors.append(fe.invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if target in devices.values():
            text = "must not already exist as a path in volumeDevices"
            errors.append(fe.invalid(f"{where}.mountPath", target, text))
        errors += _check_options(mount, container, where, f"{path}.volumeMounts")
    return errors + _check_devices(container, f"{path}.volumeDevices", volumes)


def _check_options(mount: Object, container: Object, where: str, mounts: str) -> Errors:
    """Check the options of a mount; kube-apiserver reports most errors at the list of mounts."""
    errors: Errors = []
    subpath, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if subpath:
        errors += descending_path(subpath, f"{mounts}.subPath")
    if expression:
        if subpath:
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(fe.invalid(f"{where}.subPathExpr", expression, text))
        errors += descending_path(expression, f"{mounts}.subPathExpr")
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None and propagation not in _PROPAGATION.values:
        errors += _PROPAGATION.errors(propagation, f"{mounts}.mountPropagation")
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(fe.forbidden(f"{mounts}.mountPropagation", text))
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            text = "may only be specified when readOnly is true"
            errors.append(fe.forbidden(f"{mounts}.recursiveReadOnly", text))
        if propagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(fe.forbidden(f"{mounts}.recursiveReadOnly", text))
    elif recursive is not None and recursive not in _RECURSIVE.values:
        errors += _RECURSIVE.errors(recursive, f"{mounts}.recursiveReadOnly")
    return errors


def _check_devices(container: Object, path: str, volumes: dict[str, Object]) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = {mount.get("name"): mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    for index, device in enumerate(container.get("volumeDevices") or ()):
        where = f"{path}[{index}]"
        name, target = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
        if name in names:
            errors.append(fe.invalid(f"{where}.name", name, "must be unique"))
        if volume is None:
            errors.append(FieldError.not_found(f"{where}.name", name))
        elif not volume.get("persistentVolumeClaim") and not volume.get("ephemeral"):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(fe.invalid(f"{where}.name", name, text))
        if not target:
            errors.append(fe.required(f"{where}.devicePath", ""))
        if target in paths:
            errors.append(fe.invalid(f"{where}.devicePath", target, "must be unique"))
        if target and ".." in target.split("/"):
            errors.append(fe.invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')"))
        if name in mounts:
            errors.append(fe.invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            errors.append(fe.invalid(f"{where}.devicePath", target, text))
        names.add(name)
        paths.add(target)
    return errors
