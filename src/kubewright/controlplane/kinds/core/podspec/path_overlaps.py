"""Warnings about overlapping file paths in a volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubewright.apiserver.resources.objects import Object


class _File(NamedTuple):
    path: str
    origin: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.origin})' if self.origin else f'"{self.path}"'


def overlap_warnings(volumes: list[Object]) -> Iterator[str]:
    """Yield a warning for each pair of overlapping paths."""
    for volume in volumes:
        name = volume.get("name") or ""
        for kind, field, label in (("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret")):
            source: Object = volume.get(kind) or {}
            shown = f'{label} "{source.get(field) or ""}"'
            yield from _clashes(_files(source, ""), name, shown)
        yield from _clashes(_files(volume.get("downwardAPI") or {}, ""), name, "DownwardAPI")
        projected: list[_File] = []
        for source in (volume.get("projected") or {}).get("sources") or ():
            if not any(value is not None for value in source.values()):
                yield f'volume "{name}" (Projected) has no sources provided'
            projected += _projected_files(source)
        yield from _clashes(projected, name, "Projected")


def _files(source: Object, origin: str) -> list[_File]:
    return [_File((item.get("path") or "").rstrip("/"), origin) for item in source.get("items") or ()]


def _projected_files(source: Object) -> list[_File]:
    for kind, label in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if (source.get(kind) or {}).get("items"):
            return _files(source[kind], f'{label} "{source[kind].get("name") or ""}"')
    if (source.get("downwardAPI") or {}).get("items"):
        return _files(source["downwardAPI"], "DownwardAPI")
    if source.get("serviceAccountToken") is not None:
        return [_File((source["serviceAccountToken"].get("path") or "").rstrip("/"), "ServiceAccountToken")]
    return []


def _clashes(files: list[_File], volume: str, source: str) -> Iterator[str]:
    for position, file in enumerate(files):
        for other in files[:position]:
            if not file.path or not other.path:
                continue
            mine, theirs = f"{file.path}/", f"{other.path}/"
            if mine.startswith(theirs) or theirs.startswith(mine):
                yield f'volume "{volume}" ({source}): overlapping paths: {file} with {other}'
