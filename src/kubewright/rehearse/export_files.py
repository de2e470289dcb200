"""Files and directories with the objects of a cluster.

    snapshot = read_export("cluster.json")

What can be read:

| source | form |
|---|---|
| `kubewright export` | JSON: a `List` with the field `export` (version, time), or compressed (`.gz`) |
| `kubectl get -o yaml`, `-o json` | a `List`, an object, or several YAML documents |
| a directory, also that of a Velero backup | its `.json`, `.yaml` and `.yml` files, below all directories |

A directory `metadata` and `velero-backup.json` beside the resources of a Velero backup are not read, nor the
copies of other versions in directories such as `v1-preferredversion`.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kubewright.client.errors import ManifestError
from kubewright.client.manifest_files import parse_documents

from .snapshot import ClusterSnapshot, SnapshotError

MAX_BYTES = 512 << 20
"""Largest size of a file, after decompression."""
SUFFIXES = (".json", ".yaml", ".yml", ".json.gz")
_VELERO = re.compile(r"v\d\w*-preferredversion")
_VELERO_COPY = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")


class _Header(msgspec.Struct, rename="camel"):
    kubernetes_version: str = ""
    time: str = ""
    redacted: bool = False


class _List(msgspec.Struct, rename="camel"):
    """A list whose items are not decoded."""

    kind: str = ""
    api_version: str = ""
    items: list[msgspec.Raw] = []
    export: _Header | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    owner_references: list[dict[str, Any]] | None = None
    managed_fields: list[dict[str, Any]] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Type(msgspec.Struct, rename="camel"):
    """What is needed to load any object."""

    kind: str = ""
    api_version: str = ""
    metadata: _Metadata | None = None
    items: msgspec.Raw = msgspec.Raw()


class _Names(msgspec.Struct):
    plural: str
    kind: str


class _Version(msgspec.Struct):
    name: str
    storage: bool = False


class _DefinitionSpec(msgspec.Struct):
    group: str
    names: _Names
    versions: list[_Version]


class _Definition(msgspec.Struct):
    """What is needed to load a CRD."""

    spec: _DefinitionSpec


_decode_list = msgspec.json.Decoder(_List).decode
_decode_type = msgspec.json.Decoder(_Type).decode
_decode_definition = msgspec.json.Decoder(_Definition).decode


def read_export(path: str | Path) -> ClusterSnapshot:
    """Return the objects of a file or directory; raise `SnapshotError` if one of them is not valid."""
    path = Path(path)
    if not path.exists():
        raise SnapshotError(f"{path} does not exist; write it with: kubewright export -o {path}")
    snapshot = ClusterSnapshot(objects=[], source=str(path))
    for file in _files(path) if path.is_dir() else (path,):
        _read_file(file, snapshot)
    if not snapshot.objects:
        raise SnapshotError(f"{path} contains no objects")
    return snapshot


def write_export(snapshot: ClusterSnapshot, path: Path) -> None:
    """Write a snapshot as a `List` in JSON, one object per line; readable by its owner only.

    The file is complete or does not exist: it is renamed when it is written.
    """
    header = _Header(snapshot.kubernetes_version, snapshot.moment().isoformat(), snapshot.is_redacted)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as compressed:
                    _write_list(compressed, header, snapshot.objects)
            else:
                _write_list(raw, header, snapshot.objects)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_list(target: Any, header: _Header, objects: Iterable[bytes]) -> None:
    buffer = io.BufferedWriter(target) if isinstance(target, io.RawIOBase) else target
    buffer.write(b'{"apiVersion":"v1","kind":"List","metadata":{},"export":%b,"items":[' % _encode(header))
    separator = b"\n"
    for each in objects:
        buffer.write(separator)
        buffer.write(each)
        separator = b",\n"
    buffer.write(b"\n]}\n")


def _encode(header: _Header) -> bytes:
    return msgspec.json.encode(header)


def _files(directory: Path) -> Iterator[Path]:
    """Return the files of objects below a directory, in alphabetical order."""
    for root, directories, names in os.walk(directory):
        # A Velero backup has each object once below `cluster` or `namespaces`, and again in each version.
        has_copies = any(_VELERO.fullmatch(each) for each in directories)
        directories[:] = sorted(
            each
            for each in directories
            if not each.startswith(".")
            and not (each == "metadata" and Path(root) == directory)
            and not (has_copies and (_VELERO.fullmatch(each) or _VELERO_COPY.fullmatch(each)))
        )
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not name.startswith(".") and name != "velero-backup.json":
                yield Path(root) / name


def _read_file(path: Path, snapshot: ClusterSnapshot) -> None:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SnapshotError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise SnapshotError(f"{path} is larger than {MAX_BYTES >> 20} MiB; export fewer kinds")
    if content.lstrip()[:1] == b"{":
        _read_json(path, content, snapshot)
        return
    try:
        documents = parse_documents(str(path), content)
    except ManifestError as error:
        raise SnapshotError(str(error)) from None
    for document in documents:
        if document is not None:
            _read_json(path, msgspec.json.encode(document), snapshot)


def _read_json(path: Path, content: bytes, snapshot: ClusterSnapshot) -> None:
    try:
        found = _decode_type(content)
        if not bytes(found.items).startswith(b"["):
            _add(path, content, "", "", snapshot)
            return
        listed = _decode_list(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_valid(path, error) from None
    if listed.export is not None:
        snapshot.kubernetes_version = listed.export.kubernetes_version or snapshot.kubernetes_version
        snapshot.is_redacted = listed.export.redacted
        if listed.export.time:
            try:
                snapshot.time = datetime.fromisoformat(listed.export.time).astimezone(UTC)
            except ValueError:
                raise SnapshotError(f"{path}: export.time {listed.export.time!r} is not a time") from None
    kind = listed.kind.removesuffix("List")  # items of a typed list have no kind of their own
    for each in listed.items:
        _add(path, bytes(each), listed.api_version if kind else "", kind, snapshot)


def _add(path: Path, content: bytes, version: str, kind: str, snapshot: ClusterSnapshot) -> None:
    try:
        found = _decode_type(content)
        if not found.kind or not found.api_version:
            if not kind:
                raise SnapshotError(f"{path}: an object has no apiVersion or no kind")
            content = msgspec.json.encode(
                {"apiVersion": version, "kind": kind, **msgspec.json.decode(content)}
            )
        if (found.kind or kind) == "CustomResourceDefinition":
            versions = _decode_definition(content).spec.versions
            if not any(each.storage for each in versions):
                raise SnapshotError(f"{path}: a CustomResourceDefinition has no storage version")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_valid(path, error) from None
    snapshot.objects.append(content)


def _not_valid(path: Path, error: Exception) -> SnapshotError:
    what = "an object is not valid" if isinstance(error, msgspec.ValidationError) else "not valid JSON"
    return SnapshotError(f"{path}: {what}: {error}")
