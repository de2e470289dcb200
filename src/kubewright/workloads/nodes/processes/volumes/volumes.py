"""`PodVolumes`: the volumes of one pod as directories, which are updated with the objects they come from."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.api.errors import APIError
from kubewright.background import run_forever
from kubewright.workloads.nodes.containers.runtime import ContainerStartError
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.processes.cluster_reader import ClusterReader, DataKind, MissingReference
from kubewright.workloads.nodes.processes.environment import expand
from kubewright.workloads.nodes.processes.launch import BindMount

from .atomic_directory import AtomicDirectory
from .downward_api import UnsupportedField, field_value
from .volume_sources import VolumeSources, references, uses_pod_fields

logger = logging.getLogger(__name__)

MOUNT_RETRY_SECONDS = 2.0
"""From FailedMount to the next attempt."""
REFRESH_RETRY_SECONDS: Final = 10.0


@dataclass(slots=True)
class PodContext:
    """A pod, and the values of its downward API that are not part of it."""

    pod: Object
    pod_ip: str
    host_ip: str
    allocatable: Mapping[str, str]

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return str(self.pod["metadata"]["uid"])

    def field(self, path: str) -> str:
        """Return the value of a field of the downward API."""
        return field_value(self.pod, path, pod_ip=self.pod_ip, host_ip=self.host_ip)

    def find_container(self, name: str) -> Object | None:
        """Return the container of a name."""
        spec = self.pod.get("spec") or {}
        for part in ("containers", "initContainers"):
            for container in spec.get(part) or ():
                if container["name"] == name:
                    found: Object = container
                    return found
        return None


class PodVolumes:
    """The volumes of one pod."""

    def __init__(
        self,
        context: PodContext,
        reader: ClusterReader,
        directory: Path,
        claims: Path,
        published: Callable[[str], str | None] | None = None,
    ) -> None:
        """`directory` gets a directory per volume; `claims` has those of PersistentVolumeClaims.

        `published` returns the path of a volume that a CSI driver has mounted.
        """
        self._published = published
        self.context = context
        self._reader = reader
        self._sources = VolumeSources(reader)
        self._directory = directory
        self._claims = claims
        self._paths: dict[str, str] = {}
        self._atomic: dict[str, AtomicDirectory] = {}
        self._lock = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        self._due: float | None = None
        self._changed = asyncio.Event()
        volumes = (context.pod.get("spec") or {}).get("volumes") or ()
        self._volumes: dict[str, Object] = {volume["name"]: volume for volume in volumes}
        self.references: set[tuple[DataKind, str]] = set()
        """ConfigMaps and Secrets that files come from."""
        for volume in self._volumes.values():
            self.references |= references(volume)
        self.uses_pod_fields = any(uses_pod_fields(volume) for volume in self._volumes.values())

    async def set_up(self) -> None:
        """Create all volumes; raise `ContainerStartError` if one cannot be created."""
        async with self._lock:
            for name, volume in self._volumes.items():
                if name in self._paths:
                    continue
                try:
                    self._paths[name] = await self._set_up(name, volume)
                except (MissingReference, UnsupportedField, APIError, OSError) as error:
                    raise ContainerStartError(
                        f'MountVolume.SetUp failed for volume "{name}" : {error}',
                        reason="ContainerCreating",
                        event="FailedMount",
                        retry_after=MOUNT_RETRY_SECONDS,
                    ) from None
        if self._refreshing is None and self._atomic:
            self._refreshing = run_forever(self._refresh, name="volumes")

    async def _set_up(self, name: str, volume: Object) -> str:
        if self._published is not None and (mounted := self._published(name)) is not None:
            return mounted
        path = self._directory / name
        if await self._write(name, volume):
            return str(path)
        if (host := volume.get("hostPath")) is not None:
            return _host_path(host)
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return await self._claim(claim["claimName"])
        if volume.get("ephemeral") is not None:
            return await self._claim(f"{self.context.pod['metadata']['name']}-{name}")
        if "emptyDir" in volume:
            path.mkdir(mode=0o777, parents=True, exist_ok=True)
            path.chmod(0o777)
            return str(path)
        kind = next((key for key in volume if key != "name"), "")
        raise MissingReference(f"volumes of type {kind} are not supported for local processes")

    async def _claim(self, claim: str) -> str:
        known = await self._reader.volume_path(self.context.namespace, claim)
        path = Path(known) if known else self._claims / self.context.namespace / claim
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    async def _write(self, name: str, volume: Object) -> bool:
        """Write the files of a volume; return whether it consists of files."""
        found = await self._sources.read(self.context, volume)
        if found is None:
            return False
        self._atomic.setdefault(name, AtomicDirectory(self._directory / name)).write(found.files)
        if found.refresh_at is not None:
            self._due = found.refresh_at if self._due is None else min(found.refresh_at, self._due)
        return True

    # Updates

    def update(self, pod: Object) -> None:
        """Store a newer version of the pod, for files of the downward API."""
        self.context.pod = pod
        if self.uses_pod_fields:
            self.refresh()

    def refresh(self) -> None:
        """Update the files soon."""
        self._changed.set()

    async def _refresh(self) -> None:
        """Update the files after changes, and before tokens expire."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._due):
                    await self._changed.wait()
            self._changed.clear()
            renews = self._due is not None and loop.time() >= self._due
            if renews:
                self._due = None
            async with self._lock:
                for name in list(self._atomic):
                    volume = self._volumes[name]
                    try:
                        await self._write(name, volume)
                    except (MissingReference, UnsupportedField, APIError, OSError) as error:
                        logger.warning(
                            "could not update volume",
                            extra={
                                "pod": self.context.pod["metadata"]["name"],
                                "volume": name,
                                "error": str(error),
                            },
                        )
                        if renews:
                            self._due = loop.time() + REFRESH_RETRY_SECONDS

    async def close(self) -> None:
        """Stop to update the files."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    # Mounts

    def mounts(self, container: Object, variables: Mapping[str, str]) -> list[BindMount]:
        """Return the mounts of a container; raise `ContainerStartError` for a sub-path that is not valid."""
        found = []
        for mount in container.get("volumeMounts") or ():
            source = self._paths[mount["name"]]
            below = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
            if below:
                source = self._sub_path(mount["name"], source, below)
            is_projected = mount["name"] in self._atomic
            found.append(
                BindMount(source, mount["mountPath"], readonly=bool(mount.get("readOnly")) or is_projected)
            )
        return found

    def _sub_path(self, name: str, source: str, below: str) -> str:
        path = os.path.realpath(os.path.join(source, below))
        if not (path + "/").startswith(os.path.realpath(source) + "/"):
            raise ContainerStartError(
                f'failed to prepare subPath for volumeMount "{name}"', reason="CreateContainerConfigError"
            )
        if not os.path.lexists(path):
            os.makedirs(path, mode=0o755)
        return path


def _host_path(source: Object) -> str:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    checks = {"Directory": path.is_dir, "File": path.is_file, "Socket": path.is_socket}
    if kind in checks and not checks[kind]():
        raise MissingReference(f"hostPath type check failed: {path} is not a {kind.lower()}")
    if not path.exists():
        path.mkdir(parents=True)
    return str(path)
