"""Rules of volumes whose contents lie elsewhere: on a disk, on a file server, behind a driver.

Pods and persistent volumes name them in the same way, so the rules are the same for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kubewright.api import names
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    dns_label,
    dns_subdomain,
    in_range,
    no_backsteps,
)
from kubewright.schema import field_errors as fe

Object = dict[str, Any]

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
_INITIATORS = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+"),
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}"),
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}"),
}
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def disk_errors(kind: str, source: Object, path: str) -> Errors:
    """What is wrong with a source of the kind; nothing about kinds that are not disks."""
    if kind == "gcePersistentDisk":
        path = f"{path.removesuffix(kind)}persistentDisk"
    check = _CHECKS.get(kind)
    if check is not None:
        return check(source, path)
    return _missing(source, path, *_REQUIRED.get(kind, ()))


def driver_errors(name: str, path: str) -> Errors:
    """The name of a storage driver."""
    if not name:
        return [fe.required(path, "")]
    errors = [fe.too_long(path, 63)] if len(name) > 63 else []
    return errors + [fe.invalid(path, name, text) for text in names.check_dns_subdomain(name.lower())]


def _missing(source: Object, path: str, *fields: str) -> Errors:
    return [fe.required(f"{path}.{field}", "") for field in fields if not source.get(field)]


def _host_path(source: Object, path: str) -> Errors:
    if not source.get("path"):
        return [fe.required(f"{path}.path", "")]
    errors = no_backsteps(source["path"], f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(fe.not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return errors


def _nfs(source: Object, path: str) -> Errors:
    errors = _missing(source, path, "server", "path")
    if source.get("path") and not source["path"].startswith("/"):
        errors.append(fe.invalid(f"{path}.path", source["path"], "must be an absolute path"))
    return errors


def _partitioned(field: str) -> Callable[[Object, str], Errors]:
    def check(source: Object, path: str) -> Errors:
        errors, partition = _missing(source, path, field), source.get("partition") or 0
        if not 0 <= partition <= 255:
            errors += in_range(partition, 1, 255, f"{path}.partition")
        return errors

    return check


def _iscsi(source: Object, path: str) -> Errors:
    errors = _missing(source, path, "targetPortal", "iqn")
    if source.get("iqn"):
        errors += _initiator_errors(source["iqn"], f"{path}.iqn")
    errors += in_range(source.get("lun") or 0, 0, 255, f"{path}.lun")
    if source.get("chapAuthDiscovery") or source.get("chapAuthSession"):
        errors += [fe.required(f"{path}.secretRef", "")] if source.get("secretRef") is None else []
    if source.get("initiatorName") is not None:
        errors += _initiator_errors(source["initiatorName"], f"{path}.initiatorname")
    return errors


def _initiator_errors(name: str, path: str) -> Errors:
    shape = _INITIATORS.get(name[:3])
    if shape is None:
        return [fe.invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if shape.fullmatch(name) else [fe.invalid(path, name, "must be valid format")]


def _quobyte(source: Object, path: str) -> Errors:
    errors: Errors = []
    registry = source.get("registry") or ""
    if not registry:
        errors.append(fe.required(f"{path}.registry", _PAIRS))
    elif len(source.get("tenant") or "") > 64:
        text = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(fe.required(f"{path}.tenant", text))
    else:
        errors += [
            fe.invalid(f"{path}.registry", registry, _PAIRS)
            for pair in registry.split(",")
            if not re.fullmatch(r"([^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*", pair)
        ]
    return errors + _missing(source, path, "volume")


def _flocker(source: Object, path: str) -> Errors:
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


def _fibre_channel(source: Object, path: str) -> Errors:
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


def _flex(source: Object, path: str) -> Errors:
    errors = _missing(source, path, "driver")
    for key in sorted(source.get("options") or {}):
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(fe.invalid(f"{path}.options[{key}]", key, text))
    return errors


def _azure_disk(source: Object, path: str) -> Errors:
    errors = _missing(source, path, "diskName", "diskURI")
    for field, allowed in (
        ("cachingMode", ("None", "ReadOnly", "ReadWrite")),
        ("kind", ("Dedicated", "Managed", "Shared")),
    ):
        if source.get(field) is not None and source[field] not in allowed:
            errors.append(fe.not_supported(f"{path}.{field}", source[field], allowed))
    address, kind = source.get("diskURI") or "", source.get("kind")
    start, shape = ("/subscriptions/", _MANAGED) if kind == "Managed" else ("https://", _BLOB)
    if kind is not None and not address.startswith(start):
        errors.append(fe.not_supported(f"{path}.diskURI", address, (shape,)))
    return errors


def _storage_os(source: Object, path: str) -> Errors:
    errors = _missing(source, path, "volumeName")
    for field in ("volumeName", "volumeNamespace"):
        if source.get(field):
            errors += dns_label(source[field], f"{path}.{field}")
    return errors + _secret_name(source, path)


def _cinder(source: Object, path: str) -> Errors:
    return _missing(source, path, "volumeID") + _secret_name(source, path)


def _secret_name(source: Object, path: str) -> Errors:
    reference = source.get("secretRef")
    return [] if reference is None else _missing(reference, f"{path}.secretRef", "name")


def secret_reference_errors(reference: Object, path: str) -> Errors:
    """A secret by name and namespace, as persistent volumes name them."""
    errors: Errors = []
    for field, check in (("name", dns_subdomain), ("namespace", dns_label)):
        value = reference.get(field) or ""
        errors += check(value, f"{path}.{field}") if value else [fe.required(f"{path}.{field}", "")]
    return errors


_CHECKS: dict[str, Callable[[Object, str], Errors]] = {
    "hostPath": _host_path,
    "nfs": _nfs,
    "gcePersistentDisk": _partitioned("pdName"),
    "awsElasticBlockStore": _partitioned("volumeID"),
    "iscsi": _iscsi,
    "quobyte": _quobyte,
    "flocker": _flocker,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "cinder": _cinder,
}
_REQUIRED: dict[str, tuple[str, ...]] = {
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "scaleIO": ("gateway", "system", "volumeName"),
}
