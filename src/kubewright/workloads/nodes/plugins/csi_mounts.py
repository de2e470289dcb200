"""`CSIMounts`: mounts the CSI volumes of the pods of one simulated node, as a kubelet does.

    stage    plugins/kubernetes.io/csi/DRIVER/HASH/globalmount      once per volume
    publish  pods/UID/volumes/kubernetes.io~csi/VOLUME/mount        once per pod

A file `vol_data.json` beside each published volume describes it, so that a restarted kubelet can unmount it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubewright.api.core.v1 import PersistentVolume
from kubewright.api.encoding import codec
from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupVersion
from kubewright.api.values.quantity import Quantity
from kubewright.client.patches import strategic_merge_patch
from kubewright.node.csi.client import CSIClient
from kubewright.node.csi.messages import (
    CapacityRange,
    NodeCall,
    NodeExpandVolumeRequest,
    NodePublishVolumeRequest,
    NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest,
    VolumeCapability,
)
from kubewright.node.csi.services import (
    NODE_EXPAND_VOLUME,
    NODE_PUBLISH_VOLUME,
    NODE_STAGE_VOLUME,
    NODE_UNPUBLISH_VOLUME,
    NODE_UNSTAGE_VOLUME,
)
from kubewright.node.csi.volumes import attachment_name, capability_of, unique_name, volume_capability
from kubewright.node.errors import RPCError
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.processes.cluster_reader import (
    CLAIMS,
    VOLUMES,
    ClusterReader,
    MissingReference,
)

from .csi_drivers import CSIDrivers

if TYPE_CHECKING:
    from kubewright.client.client import Client

logger = logging.getLogger(__name__)

STORAGE: Final = GroupVersion("storage.k8s.io", "v1")
DATA_FILE: Final = "vol_data.json"
_POD_VOLUMES: Final = "volumes/kubernetes.io~csi"
_POD_INFO: Final = "csi.storage.k8s.io/"

Report = Callable[[str, str, str, str], None]
"""Records an event about a pod: its uid, type, reason and message."""


class MountError(Exception):
    """A volume could not be mounted or unmounted; the message is that of a kubelet."""


class VolumeNotAttached(Exception):
    """A volume is not attached to the node yet."""


class MountedVolume(msgspec.Struct, kw_only=True, rename="camel"):
    """A volume that is published for a pod; stored beside it."""

    pod: str
    pod_volume: str
    """Name of the volume in the pod."""
    name: str
    """Name of the PersistentVolume, or of the volume in the pod."""
    driver_name: str
    volume_handle: str
    target: str
    staging: str = ""
    claim: str = ""
    """Namespace and name of the claim."""
    attachable: bool = False
    publish_context: dict[str, str] = {}


class _Source(msgspec.Struct, kw_only=True):
    """A CSI volume of a pod, before it is mounted."""

    pod_volume: str
    name: str
    driver: str
    handle: str
    context: dict[str, str]
    capability: VolumeCapability
    readonly: bool
    secrets: dict[str, dict[str, str]]
    claim: str = ""
    ephemeral: bool = False


class CSIMounts:
    """The mounted CSI volumes of one node."""

    def __init__(
        self,
        node: str,
        directory: Path,
        client: Client,
        drivers: CSIDrivers,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._node = node
        self._directory = directory
        self._client = client
        self._reader = ClusterReader(client)
        self._drivers = drivers
        self._on_change = on_change
        self._mounted: dict[tuple[str, str], MountedVolume] = {}
        """Volumes by uid of the pod and name of the volume in the pod."""
        self._pending: dict[tuple[str, str], str] = {}
        """Attachable volumes that are being mounted."""
        self._staged: set[tuple[str, str]] = set()
        self._locks: dict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    # State

    def read_volumes(self) -> None:
        """Read the volumes that an earlier kubelet has mounted."""
        for path in self._directory.glob(f"pods/*/{_POD_VOLUMES}/*/{DATA_FILE}"):
            try:
                volume = msgspec.json.decode(path.read_bytes(), type=MountedVolume)
            except (OSError, msgspec.MsgspecError) as error:
                logger.warning("could not read volume", extra={"path": str(path), "error": str(error)})
                continue
            self._mounted[volume.pod, volume.pod_volume] = volume
            if volume.staging:
                self._staged.add((volume.driver_name, volume.volume_handle))

    def path(self, uid: str, volume: str) -> str | None:
        """Return the path of a mounted volume of a pod."""
        found = self._mounted.get((uid, volume))
        return found.target if found is not None else None

    def has_volumes(self, uid: str) -> bool:
        """Whether a pod has mounted volumes."""
        return any(pod == uid for pod, _ in self._mounted)

    def is_mounted(self, claim: Object) -> bool:
        """Whether the volume of a claim is mounted."""
        return bool(self._of_claim(claim))

    def in_use(self) -> list[str]:
        """Return the attachable volumes that pods of the node use."""
        mounted = {
            unique_name(each.driver_name, each.volume_handle)
            for each in self._mounted.values()
            if each.attachable
        }
        return sorted(mounted.union(self._pending.values()))

    @staticmethod
    def is_needed(spec: Object) -> bool:
        """Whether a pod may have CSI volumes."""
        return any(
            volume.get(kind) is not None
            for volume in spec.get("volumes") or ()
            for kind in ("persistentVolumeClaim", "ephemeral", "csi")
        )

    # Mounting

    async def mount(self, pod: Object) -> None:
        """Mount all CSI volumes of a pod; raise `MountError` or `VolumeNotAttached`."""
        uid = pod["metadata"]["uid"]
        for volume in pod["spec"].get("volumes") or ():
            if (uid, volume["name"]) in self._mounted:
                continue
            name = volume["name"]
            try:
                source = await self._source(pod, volume)
                if source is not None:
                    name = source.name
                    async with self._locks[source.driver, source.handle]:
                        await self._mount(pod, source)
            except (RPCError, APIError, MissingReference, OSError) as error:
                raise MountError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from None

    async def _mount(self, pod: Object, source: _Source) -> None:
        driver = self._driver(source.driver, "mounter.SetUpAt failed to get CSI client")
        settings = await self._settings(source.driver)
        uid = pod["metadata"]["uid"]
        attachable = not source.ephemeral and settings.get("attachRequired", True)
        if attachable:
            self._pending[uid, source.pod_volume] = unique_name(source.driver, source.handle)
            self._on_change()
        context = await self._publish_context(source) if attachable else {}
        modes = settings.get("volumeLifecycleModes") or ["Persistent"]
        if source.ephemeral and "Ephemeral" not in modes:
            shown = json.dumps(modes).replace(", ", " ")
            raise MissingReference(
                f'volume mode "Ephemeral" not supported by driver {source.driver} (only supports {shown})'
            )
        staging = ""
        if not source.ephemeral and driver.supports_on_node(NodeCall.STAGE_UNSTAGE_VOLUME):
            staging = await self._stage(driver, source, context)
        if settings.get("podInfoOnMount"):
            source.context.update(_pod_info(pod, source.ephemeral))
        folder = self._directory / "pods" / uid / _POD_VOLUMES / source.name
        record = MountedVolume(
            pod=uid,
            pod_volume=source.pod_volume,
            name=source.name,
            driver_name=source.driver,
            volume_handle=source.handle,
            target=str(folder / "mount"),
            staging=staging,
            claim=source.claim,
            attachable=attachable,
            publish_context=context,
        )
        os.makedirs(folder, mode=0o750, exist_ok=True)
        (folder / DATA_FILE).write_bytes(msgspec.json.encode(record))
        # Recorded first: a call that times out may have mounted the volume.
        request = NodePublishVolumeRequest(
            volume_id=source.handle,
            publish_context=context,
            staging_target_path=staging,
            target_path=record.target,
            volume_capability=source.capability,
            readonly=source.readonly,
            secrets=source.secrets.get("nodePublishSecretRef", {}),
            volume_context=source.context,
        )
        await driver.call(NODE_PUBLISH_VOLUME, request)
        self._mounted[uid, source.pod_volume] = record
        self._pending.pop((uid, source.pod_volume), None)
        self._on_change()

    async def _stage(self, driver: CSIClient, source: _Source, context: dict[str, str]) -> str:
        digest = hashlib.sha256(source.handle.encode()).hexdigest()
        path = self._directory / "plugins/kubernetes.io/csi" / source.driver / digest / "globalmount"
        if (source.driver, source.handle) not in self._staged:
            os.makedirs(path, mode=0o750, exist_ok=True)
            request = NodeStageVolumeRequest(
                volume_id=source.handle,
                publish_context=context,
                staging_target_path=str(path),
                volume_capability=source.capability,
                secrets=source.secrets.get("nodeStageSecretRef", {}),
                volume_context=source.context,
            )
            await driver.call(NODE_STAGE_VOLUME, request)
            self._staged.add((source.driver, source.handle))
        return str(path)

    async def _publish_context(self, source: _Source) -> dict[str, str]:
        name = attachment_name(source.handle, source.driver, self._node)
        try:
            attachment = await self._client.get(STORAGE.resource("volumeattachments"), name)
        except NotFound:
            raise VolumeNotAttached(name) from None
        status = attachment.get("status") or {}
        if not status.get("attached"):
            raise VolumeNotAttached(name)
        return dict(status.get("attachmentMetadata") or {})

    async def _settings(self, driver: str) -> Object:
        """Return the spec of the CSIDriver object; empty without one."""
        try:
            found = await self._client.get(STORAGE.resource("csidrivers"), driver)
        except NotFound:
            return {}
        spec: Object = found.get("spec") or {}
        return spec

    def _driver(self, driver: str, what: str) -> CSIClient:
        client = self._drivers.get(driver)
        if client is None:
            raise MissingReference(
                f"kubernetes.io/csi: {what}: driver name {driver} not found in the list of registered CSI "
                "drivers"
            )
        return client

    # Sources

    async def _source(self, pod: Object, volume: Object) -> _Source | None:
        """Return the CSI volume of a volume of a pod; `None` if it is of another type."""
        metadata = pod["metadata"]
        if (inline := volume.get("csi")) is not None:
            digest = hashlib.sha256(f"{metadata['uid']}{volume['name']}".encode()).hexdigest()
            reference = inline.get("nodePublishSecretRef")
            secrets = {}
            if reference is not None:
                secrets["nodePublishSecretRef"] = await self._secret(metadata["namespace"], reference["name"])
            return _Source(
                pod_volume=volume["name"],
                name=volume["name"],
                driver=inline["driver"],
                handle=f"csi-{digest}",
                context={
                    **(inline.get("volumeAttributes") or {}),
                    f"{_POD_INFO}ephemeral": "true",
                },
                capability=volume_capability(
                    "ReadWriteOnce", volume_mode=None, fs_type=inline.get("fsType") or ""
                ),
                readonly=bool(inline.get("readOnly")),
                secrets=secrets,
                ephemeral=True,
            )
        claim_source = volume.get("persistentVolumeClaim")
        if claim_source is not None:
            name = claim_source["claimName"]
        elif volume.get("ephemeral") is not None:
            name = f"{metadata['name']}-{volume['name']}"
        else:
            return None
        return await self._claimed(
            metadata["namespace"], name, volume["name"], bool((claim_source or {}).get("readOnly"))
        )

    async def _claimed(self, namespace: str, claim: str, pod_volume: str, readonly: bool) -> _Source | None:
        found, volume = await self._claim_and_volume(namespace, claim)
        if not volume:
            raise MissingReference(f'persistentvolumeclaim "{claim}" is not bound')
        csi = volume["spec"].get("csi")
        if csi is None:
            return None
        driver = self._driver(csi["driver"], "mounter.SetUpAt failed to get CSI client")
        secrets = {}
        for field in ("nodeStageSecretRef", "nodePublishSecretRef"):
            if reference := csi.get(field):
                secrets[field] = await self._secret(reference["namespace"], reference["name"])
        return _Source(
            pod_volume=pod_volume,
            name=volume["metadata"]["name"],
            driver=csi["driver"],
            handle=csi["volumeHandle"],
            context=dict(csi.get("volumeAttributes") or {}),
            capability=_capability(volume, driver),
            readonly=readonly or bool(csi.get("readOnly")),
            secrets=secrets,
            claim=f"{namespace}/{found['metadata']['name']}",
        )

    async def _claim_and_volume(self, namespace: str, claim: str) -> tuple[Object, Object]:
        """Return a claim and its volume, which is empty if the claim is not bound."""
        try:
            found = (await self._client.get(CLAIMS, claim, namespace=namespace)).raw
        except NotFound:
            raise MissingReference(f'persistentvolumeclaim "{claim}" not found') from None
        name = (found.get("spec") or {}).get("volumeName")
        if not name or (found.get("status") or {}).get("phase") != "Bound":
            return found, {}
        return found, (await self._client.get(VOLUMES, name)).raw

    async def _secret(self, namespace: str, name: str) -> dict[str, str]:
        data = await self._reader.data("secret", namespace, name)
        return {key: value.decode() for key, value in data.items()}

    # Unmounting

    async def unmount(self, uid: str) -> None:
        """Unmount all CSI volumes of a pod; raise `MountError`."""
        self.read_volumes()
        for key in [key for key in self._pending if key[0] == uid]:
            del self._pending[key]
        for key in [key for key in self._mounted if key[0] == uid]:
            volume = self._mounted[key]
            try:
                async with self._locks[volume.driver_name, volume.volume_handle]:
                    await self._unmount(volume)
            except (RPCError, OSError, MissingReference) as error:
                text = f'UnmountVolume.TearDown failed for volume "{volume.name}" : {error}'
                raise MountError(text) from None
            self._mounted.pop(key, None)
            self._on_change()
        shutil.rmtree(self._directory / "pods" / uid, ignore_errors=True)
        self._on_change()

    async def _unmount(self, volume: MountedVolume) -> None:
        driver = self._driver(volume.driver_name, "unmounter.TearDownAt failed to get CSI client")
        request = NodeUnpublishVolumeRequest(volume_id=volume.volume_handle, target_path=volume.target)
        await driver.call(NODE_UNPUBLISH_VOLUME, request)
        folder = Path(volume.target).parent
        key = (volume.driver_name, volume.volume_handle)
        others = any(
            (each.driver_name, each.volume_handle) == key and each is not volume
            for each in self._mounted.values()
        )
        if volume.staging and not others:
            await driver.call(
                NODE_UNSTAGE_VOLUME,
                NodeUnstageVolumeRequest(volume_id=volume.volume_handle, staging_target_path=volume.staging),
            )
            self._staged.discard(key)
            shutil.rmtree(Path(volume.staging).parent, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)

    # Expansion

    def _of_claim(self, claim: Object) -> list[MountedVolume]:
        metadata = claim["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        return [each for each in self._mounted.values() if each.claim == key]

    async def expand_pending(self, uid: str, report: Report) -> None:
        """Expand the file systems of volumes that were expanded while no pod used them."""
        for mounted in [each for each in self._mounted.values() if each.pod == uid and each.claim]:
            namespace, _, name = mounted.claim.partition("/")
            await self.expand({"metadata": {"namespace": namespace, "name": name}}, report)

    async def expand(self, claim: Object, report: Report) -> None:
        """Expand the file system of a mounted volume to the size of the volume, and update its claim."""
        metadata = claim["metadata"]
        for mounted in self._of_claim(claim)[:1]:
            async with self._locks[mounted.driver_name, mounted.volume_handle]:
                current, volume = await self._claim_and_volume(metadata["namespace"], metadata["name"])
                pending = any(
                    each["type"] == "FileSystemResizePending"
                    for each in (current.get("status") or {}).get("conditions") or ()
                )
                if not volume or not pending:
                    return
                size = volume["spec"]["capacity"]["storage"]
                try:
                    await self._expand(mounted, volume, size)
                except (RPCError, MissingReference) as error:
                    text = f'MountVolume.NodeExpandVolume failed for volume "{mounted.name}" : {error}'
                    report(mounted.pod, "Warning", "FileSystemResizeFailed", text)
                    return
                await self._finish_expansion(current, size)
            text = f'MountVolume.NodeExpandVolume succeeded for volume "{mounted.name}" {self._node}'
            report(mounted.pod, "Normal", "FileSystemResizeSuccessful", text)

    async def _expand(self, mounted: MountedVolume, volume: Object, size: str) -> None:
        driver = self._driver(mounted.driver_name, "expander.NodeExpand failed to get CSI client")
        if not driver.supports_on_node(NodeCall.EXPAND_VOLUME):
            return
        reference = volume["spec"]["csi"].get("nodeExpandSecretRef")
        request = NodeExpandVolumeRequest(
            volume_id=mounted.volume_handle,
            volume_path=mounted.target,
            capacity_range=CapacityRange(required_bytes=Quantity(size).as_int()),
            staging_target_path=mounted.staging,
            volume_capability=_capability(volume, driver),
            secrets=await self._secret(reference["namespace"], reference["name"]) if reference else {},
        )
        await driver.call(NODE_EXPAND_VOLUME, request)

    async def _finish_expansion(self, claim: Object, size: str) -> None:
        metadata = claim["metadata"]
        change: dict[str, Any] = {
            "status": {
                "capacity": {"storage": size},
                "conditions": [{"type": "FileSystemResizePending", "$patch": "delete"}],
            }
        }
        await self._client.patch(
            CLAIMS,
            metadata["name"],
            strategic_merge_patch(change),
            namespace=metadata["namespace"],
            subresource="status",
        )


def _capability(volume: Object, driver: CSIClient) -> VolumeCapability:
    typed = codec.decode(codec.encode(volume), PersistentVolume)
    return capability_of(typed, separates_writers=driver.supports_on_node(NodeCall.SINGLE_NODE_MULTI_WRITER))


def _pod_info(pod: Object, ephemeral: bool) -> dict[str, str]:
    metadata = pod["metadata"]
    return {
        f"{_POD_INFO}pod.name": metadata["name"],
        f"{_POD_INFO}pod.namespace": metadata["namespace"],
        f"{_POD_INFO}pod.uid": metadata["uid"],
        f"{_POD_INFO}serviceAccount.name": pod["spec"].get("serviceAccountName") or "",
        f"{_POD_INFO}ephemeral": "true" if ephemeral else "false",
    }
