"""Volume sources that pods and persistent volumes share: disks, file servers, storage drivers."""

from __future__ import annotations

import re
from typing import Any

from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    Enum,
    Errors,
    Range,
    Required,
    Rules,
    When,
)
from kubewright.controlplane.kinds.validation.formats import in_range, no_backsteps
from kubewright.schema import field_errors as fe

_INITIATORS = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+"),
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}"),
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}"),
}
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def check_driver_name(name: str, path: str) -> Errors:
    """Check the name of a CSI driver."""
    if not name:
        return [fe.required(path, "")]
    errors = [fe.too_long(path, 63)] if len(name) > 63 else []
    return errors + [fe.invalid(path, name, text) for text in names.check_dns_subdomain(name.lower())]


def _check_absolute(value: str, path: str) -> Errors:
    return [] if value.startswith("/") else [fe.invalid(path, value, "must be an absolute path")]


def _check_initiator(name: str, path: str) -> Errors:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        return [fe.invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if pattern.fullmatch(name) else [fe.invalid(path, name, "must be valid format")]


def _check_iscsi(source: Object, path: str) -> Errors:
    errors: Errors = []
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(fe.required(f"{path}.secretRef", ""))
    if source.get("initiatorName") is not None:
        errors += _check_initiator(source["initiatorName"], f"{path}.initiatorname")
    return errors


def _check_quobyte(source: Object, path: str) -> Errors:
    registry = source.get("registry") or ""
    if not registry:
        return [fe.required(f"{path}.registry", _PAIRS)]
    if len(source.get("tenant") or "") > 64:
        text = "must be a UUID and may not exceed a length of 64 characters"
        return [fe.required(f"{path}.tenant", text)]
    return [
        fe.invalid(f"{path}.registry", registry, _PAIRS)
        for pair in registry.split(",")
        if not re.fullmatch(r"([^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*", pair)
    ]


def _check_flocker(source: Object, path: str) -> Errors:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    errors: Errors = []
    if not name and not uid:
        errors.append(fe.required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(fe.invalid(path, "resource", text))
    if "/" in name:
        errors.append(fe.invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _check_fibre_channel(source: Object, path: str) -> Errors:
    targets, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    errors: Errors = []
    where = f"{path}.targetWWNs"
    if not targets and not ids:
        errors.append(fe.required(where, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(fe.invalid(where, targets, text))
    if targets and lun is None:
        errors.append(fe.required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets and lun is not None:
        errors += in_range(lun, 0, 255, f"{path}.lun")
    return errors


def _check_flex_options(options: Object, path: str) -> Errors:
    text = "kubernetes.io and k8s.io namespaces are reserved"
    return [
        fe.invalid(f"{path}[{key}]", key, text)
        for key in sorted(options)
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io"))
    ]


def _check_disk_uri(source: Object, path: str) -> Errors:
    uri, kind = source.get("diskURI") or "", source.get("kind")
    prefix, form = ("/subscriptions/", _MANAGED) if kind == "Managed" else ("https://", _BLOB)
    if kind is None or uri.startswith(prefix):
        return []
    return [fe.not_supported(f"{path}.diskURI", uri, (form,))]


_REQUIRED = Required()
_PARTITION = Range(0, 255, detail="must be between 1 and 255, inclusive")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
DISKS: dict[str, Any] = {
    "hostPath": [
        {"path": [_REQUIRED, no_backsteps]},
        When(lambda source: source.get("path"), {"type": Enum(*_HOST_PATH_TYPES)}),
    ],
    "nfs": {"server": _REQUIRED, "path": [_REQUIRED, _check_absolute]},
    "gcePersistentDisk": {"pdName": _REQUIRED, "partition": _PARTITION},
    "awsElasticBlockStore": {"volumeID": _REQUIRED, "partition": _PARTITION},
    "iscsi": [
        {
            "targetPortal": _REQUIRED,
            "iqn": [_REQUIRED, _check_initiator],
            "lun": Range(0, 255),
        },
        _check_iscsi,
    ],
    "quobyte": [_check_quobyte, {"volume": _REQUIRED}],
    "flocker": _check_flocker,
    "fc": _check_fibre_channel,
    "flexVolume": {"driver": _REQUIRED, "options": _check_flex_options},
    "azureDisk": [
        {
            "diskName": _REQUIRED,
            "diskURI": _REQUIRED,
            "cachingMode": Enum("None", "ReadOnly", "ReadWrite"),
            "kind": Enum("Dedicated", "Managed", "Shared"),
        },
        _check_disk_uri,
    ],
    "storageos": {
        "volumeName": [_REQUIRED, DNS_LABEL],
        "volumeNamespace": DNS_LABEL,
        "secretRef?.name": _REQUIRED,
    },
    "cinder": {"volumeID": _REQUIRED, "secretRef?.name": _REQUIRED},
    "glusterfs": {"endpoints": _REQUIRED, "path": _REQUIRED},
    "rbd": {"monitors": _REQUIRED, "image": _REQUIRED},
    "cephfs": {"monitors": _REQUIRED},
    "azureFile": {"secretName": _REQUIRED, "shareName": _REQUIRED},
    "vsphereVolume": {"volumePath": _REQUIRED},
    "photonPersistentDisk": {"pdID": _REQUIRED},
    "portworxVolume": {"volumeID": _REQUIRED},
    "scaleIO": {"gateway": _REQUIRED, "system": _REQUIRED, "volumeName": _REQUIRED},
}
"""Rules by volume source."""
PATHS = {"gcePersistentDisk": "persistentDisk"}
"""Sources that errors name differently."""
SECRET_REFERENCE = Rules({"name": [_REQUIRED, DNS_SUBDOMAIN], "namespace": [_REQUIRED, DNS_LABEL]})
"""A reference to a secret in any namespace, as persistent volumes have."""
