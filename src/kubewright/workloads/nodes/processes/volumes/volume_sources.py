"""The files of volumes of ConfigMaps, Secrets, the downward API and service account tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.processes.cluster_reader import ClusterReader, DataKind, MissingReference

from .atomic_directory import FileContent
from .downward_api import resource_value

if TYPE_CHECKING:
    from .volumes import PodContext

DEFAULT_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600
ROTATION_SHARE: Final = 0.8
"""Tokens are renewed after this share of their lifetime, as kubelets do."""
_MISSING_KEY: Final[Mapping[DataKind, str]] = {
    "configmap": "configmap references non-existent config key: {}",
    "secret": "references non-existent secret key: {}",
}


class VolumeFiles:
    """The files of one volume, and what they depend on."""

    def __init__(self) -> None:
        self.files: dict[str, FileContent] = {}
        self.refresh_at: float | None = None
        """Time of the event loop at which a token has to be renewed."""


class VolumeSources:
    """Reads the sources of volumes."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self._tokens: dict[tuple[str, str, int], tuple[str, float]] = {}
        """Tokens and when to renew them, by account, audience and lifetime."""

    async def read(self, context: PodContext, volume: Object) -> VolumeFiles | None:
        """Return the files of a volume, `None` if it is of another kind; raise `MissingReference`."""
        result = VolumeFiles()
        if (source := volume.get("configMap")) is not None:
            await self._data(context, result, "configmap", source.get("name") or "", source, _mode(source))
        elif (source := volume.get("secret")) is not None:
            await self._data(context, result, "secret", source.get("secretName") or "", source, _mode(source))
        elif (source := volume.get("downwardAPI")) is not None:
            self._downward(context, result, source, _mode(source))
        elif (source := volume.get("projected")) is not None:
            for part in source.get("sources") or ():
                await self._projection(context, result, part, _mode(source))
        else:
            return None
        return result

    async def _projection(self, context: PodContext, result: VolumeFiles, part: Object, mode: int) -> None:
        if (source := part.get("configMap")) is not None:
            await self._data(context, result, "configmap", source.get("name") or "", source, mode)
        elif (source := part.get("secret")) is not None:
            await self._data(context, result, "secret", source.get("name") or "", source, mode)
        elif (source := part.get("downwardAPI")) is not None:
            self._downward(context, result, source, mode)
        elif (source := part.get("serviceAccountToken")) is not None:
            seconds = int(source.get("expirationSeconds") or TOKEN_SECONDS)
            account = (context.pod.get("spec") or {}).get("serviceAccountName") or "default"
            token, due = await self._token(context, account, source.get("audience") or "", seconds)
            result.files[source["path"]] = FileContent(token.encode(), mode)
            result.refresh_at = due if result.refresh_at is None else min(due, result.refresh_at)

    async def _token(
        self, context: PodContext, account: str, audience: str, seconds: int
    ) -> tuple[str, float]:
        """Return a token and when to renew it."""
        key = (account, audience, seconds)
        known = self._tokens.get(key)
        now = asyncio.get_running_loop().time()
        if known is None or now >= known[1]:
            new = await self._reader.request_token(context.pod, account, audience, seconds)
            known = self._tokens[key] = (new.token, now + new.lifetime * ROTATION_SHARE)
        return known

    async def _data(
        self, context: PodContext, result: VolumeFiles, kind: DataKind, name: str, source: Object, mode: int
    ) -> None:
        optional = bool(source.get("optional"))
        try:
            data = await self._reader.data(kind, context.namespace, name)
        except MissingReference:
            if optional:
                return
            raise
        items = source.get("items")
        if not items:
            result.files.update({key: FileContent(value, mode) for key, value in data.items()})
            return
        for item in items:
            if item["key"] in data:
                found = FileContent(data[item["key"]], _item_mode(item, mode))
                result.files[item["path"]] = found
            elif not optional:
                raise MissingReference(_MISSING_KEY[kind].format(item["key"]))

    def _downward(self, context: PodContext, result: VolumeFiles, source: Object, mode: int) -> None:
        for item in source.get("items") or ():
            if reference := item.get("fieldRef"):
                value = context.field(reference["fieldPath"])
            else:
                reference = item.get("resourceFieldRef") or {}
                container = context.find_container(reference.get("containerName") or "") or {}
                value = resource_value(container, reference, context.allocatable)
            result.files[item["path"]] = FileContent(value.encode(), _item_mode(item, mode))


def references(volume: Object) -> set[tuple[DataKind, str]]:
    """Return the ConfigMaps and Secrets that a volume depends on."""
    found: set[tuple[DataKind, str]] = set()
    parts = [volume, *((volume.get("projected") or {}).get("sources") or ())]
    for part in parts:
        if source := part.get("configMap"):
            found.add(("configmap", source.get("name") or ""))
        if source := part.get("secret"):
            found.add(("secret", source.get("secretName") or source.get("name") or ""))
    return found


def uses_pod_fields(volume: Object) -> bool:
    """Whether a volume has files of the downward API."""
    parts = (volume.get("projected") or {}).get("sources") or ()
    return "downwardAPI" in volume or any("downwardAPI" in part for part in parts)


def _mode(source: Object) -> int:
    mode = source.get("defaultMode")
    return DEFAULT_MODE if mode is None else int(mode)


def _item_mode(item: Object, default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)
