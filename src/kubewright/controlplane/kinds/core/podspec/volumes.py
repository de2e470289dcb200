"""Volumes of pods: one source each, and unique names.

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
from kubewright.controlplane.kinds.validation.formats import descending_path, qualified_name
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

from .disks import DISKS, PATHS, check_driver_name
from .projections import KEY_TO_PATH, MODE, check_downward_file, check_projections

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


_SOURCES: dict[str, Any] = {
    **DISKS,
    "persistentVolumeClaim": {"claimName": _REQUIRED},
    "emptyDir": {"sizeLimit": _check_size_limit},
    "gitRepo": {"repository": _REQUIRED, "directory": descending_path},
    "secret": {"secretName": _REQUIRED, "defaultMode": FILE_MODE, "items[*]": KEY_TO_PATH},
    "configMap": {"name": _REQUIRED, "defaultMode": FILE_MODE, "items[*]": KEY_TO_PATH},
    "downwardAPI": {
        "defaultMode": FILE_MODE,
        "items[*]": ReportAt(".", [check_downward_file, MODE]),
    },
    "projected": {"defaultMode": FILE_MODE, "sources": check_projections},
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
