"""Claims and volumes of Kubernetes in the terms of CSI: access modes, sizes, secrets and names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim, Secret, SecretReference
from kubewright.client import Client
from kubewright.node.errors import InvalidArgument

from .messages import AccessMode, AccessModeCapability, BlockVolume, MountVolume, VolumeCapability

PREFIX: Final = "csi.storage.k8s.io/"
"""Parameters of storage classes with this prefix are not for the driver."""
FS_TYPE: Final = f"{PREFIX}fstype"
_MODES: Final[Mapping[str, AccessMode]] = {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": AccessMode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_SINGLE_WRITER,
}


def access_mode(mode: str, *, separates_writers: bool) -> AccessMode:
    """Return the CSI mode of an access mode of Kubernetes.

    `separates_writers`: whether the driver distinguishes one and several pods on one node
    (`SINGLE_NODE_MULTI_WRITER`).
    """
    if mode == "ReadWriteOnce" and separates_writers:
        return AccessMode.SINGLE_NODE_MULTI_WRITER
    if mode == "ReadWriteOncePod" and not separates_writers:
        return AccessMode.SINGLE_NODE_WRITER
    found = _MODES.get(mode)
    if found is None:
        raise InvalidArgument(f"access mode {mode!r} is not known")
    return found


def volume_capability(
    mode: str,
    *,
    volume_mode: str | None,
    fs_type: str = "",
    mount_options: Sequence[str] = (),
    separates_writers: bool = False,
) -> VolumeCapability:
    """Return the capability of a volume for one access mode of Kubernetes."""
    access = AccessModeCapability(mode=access_mode(mode, separates_writers=separates_writers))
    if volume_mode == "Block":
        return VolumeCapability(block=BlockVolume(), access_mode=access)
    mount = MountVolume(fs_type=fs_type, mount_flags=list(mount_options))
    return VolumeCapability(mount=mount, access_mode=access)


def capability_of(volume: PersistentVolume, *, separates_writers: bool) -> VolumeCapability:
    """Return the capability of an existing volume, with its most general access mode."""
    spec = volume.spec
    assert spec is not None
    modes = spec.access_modes or ["ReadWriteOnce"]
    order = ("ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod")
    return volume_capability(
        next((mode for mode in order if mode in modes), modes[0]),
        volume_mode=spec.volume_mode,
        fs_type=(spec.csi.fs_type if spec.csi is not None else None) or "",
        mount_options=spec.mount_options or (),
        separates_writers=separates_writers,
    )


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    """Return the requested size of a claim."""
    resources = claim.spec.resources if claim.spec is not None else None
    size = ((resources.requests if resources is not None else None) or {}).get("storage")
    return size.as_int() if size is not None else 0


def driver_of(volume: PersistentVolume | None) -> str:
    """Return the CSI driver of a volume; empty for other volumes."""
    csi = volume.spec.csi if volume is not None and volume.spec is not None else None
    return (csi.driver or "") if csi is not None else ""


ATTACHMENT_PREFIX = "csi-"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name of the VolumeAttachment of a volume on a node."""
    return f"{ATTACHMENT_PREFIX}{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def unique_name(driver: str, handle: str) -> str:
    """Return the name of a volume in the status of nodes."""
    return f"kubernetes.io/csi/{driver}^{handle}"


def secret_reference(
    parameters: Mapping[str, str], purpose: str, values: Mapping[str, str]
) -> SecretReference | None:
    """Return the secret of a purpose (`provisioner`, `node-publish`) that a storage class declares.

    `values` replace variables in its name and namespace, such as `${pvc.namespace}`.
    """
    name = parameters.get(f"{PREFIX}{purpose}-secret-name")
    namespace = parameters.get(f"{PREFIX}{purpose}-secret-namespace")
    if not name or not namespace:
        return None
    for variable, value in values.items():
        name = name.replace(f"${{{variable}}}", value)
        namespace = namespace.replace(f"${{{variable}}}", value)
    return SecretReference(name=name, namespace=namespace)


async def read_secret(client: Client, reference: SecretReference | None) -> dict[str, str]:
    """Return the data of a secret; empty without a reference. Raises `NotFound`.

    It is not read from the cache, so that drivers do not watch the secrets of the cluster.
    """
    if reference is None or not reference.name:
        return {}
    uncached: Client = getattr(client, "uncached", client)
    secret = await uncached.get(Secret, reference.name, namespace=reference.namespace)
    return {key: value.decode() for key, value in (secret.data or {}).items()}
