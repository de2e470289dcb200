"""Volumes of pods: one source each, unique names, and paths that do not overlap in projected volumes.

`check_volumes` returns the valid volumes by name; the mounts of containers are checked against them.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    FILE_MODE,
    Check,
    Enum,
    Errors,
    Members,
    ReportAt,
    Required,
    Rules,
)
from kubewright.controlplane.kinds.validation.formats import descending_path, plain_path, qualified_name
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

from .disks import DISKS, PATHS, check_driver_name
from .references import VOLUME_FIELDS, check_field_reference, check_resource_reference

_REQUIRED = Required()


def check_volumes(spec: Object, path: str, pod_name: str) -> tuple[dict[str, Object], Errors]:
    """Return the valid volumes of a pod by name, which containers can mount, and the errors of the others."""
    volumes = spec.get("volumes") or ()
    errors: Errors = []
    valid: dict[str, Object] = {}
    created = {
        f"{pod_name}-{volume.get('name')}" for volume in volumes if pod_name and volume.get("ephemeral")
    }
    for index, volume in enumerate(volumes):
        where, name = f"{path}.volumes[{index}]", volume.get("name") or ""
        found = VOLUME(volume, where)
        if name in valid:
            found.append(fe.duplicate(f"{where}.name", name))
        if not found:
            valid[name] = volume
        errors += found
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(fe.invalid(f"{where}.persistentVolumeClaim.claimName", claim, text))
    return valid, errors


def _check_size_limit(limit: str, path: str) -> Errors:
    if Quantity(limit).nanos >= 0:
        return []
    return [fe.forbidden(path, "SizeLimit field must be a valid resource quantity")]


def _check_downward_file(item: Object, path: str) -> Errors:
    errors = _DOWNWARD_PATH(item, path)
    if item.get("fieldRef") is not None:
        errors += check_field_reference(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef")
        if item.get("resourceFieldRef") is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(fe.invalid(path, "resource", text))
    elif item.get("resourceFieldRef") is not None:
        errors += check_resource_reference(
            item["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=True
        )
    else:
        errors.append(fe.required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors


def _check_projections(projections: list[Object], path: str) -> Errors:
    """Check the sources of a projected volume, whose paths must differ."""
    errors: Errors = []
    paths: set[str] = set()
    volume = path.removesuffix(".sources")

    def claim(file: str | None, shown: str | None) -> None:
        if file and file in paths:
            errors.append(fe.invalid(volume, shown or "", "conflicting duplicate paths"))
        paths.add(file or "")

    for index, projection in enumerate(projections):
        where = f"{path}[{index}]"
        for kind in ("secret", "configMap"):
            source = projection.get(kind)
            if source is None:
                continue
            if not source.get("name"):
                errors.append(fe.required(f"{where}.{kind}.name", ""))
            for position, item in enumerate(source.get("items") or ()):
                errors += _KEY_TO_PATH(item, f"{where}.{kind}.items[{position}]")
                claim(item.get("path"), source.get("name"))
        for position, item in enumerate((projection.get("downwardAPI") or {}).get("items") or ()):
            file = f"{where}.downwardAPI.items[{position}]"
            errors += _check_downward_file(item, file) + _FILE_MODE(item, file)
            claim(item.get("path"), item.get("path"))
        token = projection.get("serviceAccountToken")
        if token is not None:
            errors += _check_token(token, f"{where}.serviceAccountToken", volume)
            claim(token.get("path"), token.get("path"))
        kinds = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
        if sum(projection.get(kind) is not None for kind in kinds) > 1:
            errors.append(fe.forbidden(where, "may not specify more than 1 volume type per source"))
    return errors


def _check_token(token: Object, path: str, volume: str) -> Errors:
    errors: Errors = []
    seconds, text = token.get("expirationSeconds") or 0, ""
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
    if text:
        errors.append(fe.invalid(f"{path}.expirationSeconds", seconds, text))
    if not token.get("path"):
        return [*errors, fe.required(f"{volume}.path", "")]
    return errors + plain_path(token["path"], f"{path}.path")


def _claim_spec_errors(spec: Object, path: str) -> Errors:
    from kubewright.controlplane.kinds.core.persistent_volume_claim import claim_spec_errors

    return claim_spec_errors(spec, path)


def template_metadata_errors(metadata: Object, path: str) -> Errors:
    """Check the metadata of an object template, which can have labels and annotations only."""
    errors: Errors = []
    for key in sorted(metadata.get("annotations") or {}):
        errors += qualified_name(key.lower(), f"{path}.annotations")
    errors += label_errors(metadata.get("labels") or {}, f"{path}.labels")
    return errors + [
        fe.forbidden(f"{path}.{field}", "cannot be set")
        for field, value in metadata.items()
        if field not in ("labels", "annotations") and value not in (None, "", [], {})
    ]


_DOWNWARD_PATH = Rules({"path": [_REQUIRED, plain_path]})
_FILE_MODE = Rules({"mode": FILE_MODE})
_KEY_TO_PATH = Rules({"key": _REQUIRED, "path": [_REQUIRED, plain_path], "mode": FILE_MODE})
_SOURCES: dict[str, Any] = {
    **DISKS,
    "persistentVolumeClaim": {"claimName": _REQUIRED},
    "emptyDir": {"sizeLimit": _check_size_limit},
    "gitRepo": {"repository": _REQUIRED, "directory": descending_path},
    "secret": {"secretName": _REQUIRED, "defaultMode": FILE_MODE, "items[*]": _KEY_TO_PATH},
    "configMap": {"name": _REQUIRED, "defaultMode": FILE_MODE, "items[*]": _KEY_TO_PATH},
    "downwardAPI": {
        "defaultMode": FILE_MODE,
        "items[*]": ReportAt(".", [_check_downward_file, _FILE_MODE]),
    },
    "projected": {"defaultMode": FILE_MODE, "sources": _check_projections},
    "csi": [
        {"driver": Check(check_driver_name, absent=""), "nodePublishSecretRef?.name": _REQUIRED},
        {"nodePublishSecretRef?.name": ReportAt("name", DNS_SUBDOMAIN)},
    ],
    "ephemeral": {
        "volumeClaimTemplate": [
            Required(pointer=True),
            {
                "metadata": template_metadata_errors,
                "spec": Check(_claim_spec_errors, absent={}),
            },
        ]
    },
    "image": {"reference": _REQUIRED, "pullPolicy": [_REQUIRED, Enum("Always", "IfNotPresent", "Never")]},
}
_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "scaleIO",
    "projected",
    "csi",
    "ephemeral",
    "image",
)
"""The first source of a volume in this order is validated; others are reported as excess."""
VOLUME = Rules(
    [
        Members(
            {name: _SOURCES[name] for name in _ORDER},
            missing="must specify a volume type",
            excess="may not specify more than 1 volume type",
            paths=PATHS,
        ),
        {"name": [_REQUIRED, DNS_LABEL]},
    ]
)


def source_order(name: str) -> int:
    """Return the position of a volume source in the order of validation."""
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
