"""The files of recordings: lines of JSON, compressed with gzip, readable by their owner only.

| line | content |
|---|---|
| the first | `{"recording": 1, "start": TIME, "source": ..., "operator": ..., ...}` |
| `{"object": {...}}` | an object at the start |
| `{"change": {"at": 1.5, "type": "MODIFIED", "object": {...}, "own": true}}` | a change |
| `{"reconcile": {...}}` | a reconcile of the operator |
| the last | `{"end": 600.0, "notes": [...]}` |

A recorder writes the lines as things happen. A file without the last line, because its recorder was killed,
is read up to where it ends. Secret values are replaced before a line is written.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from .recording import Object, RecordedChange, Recording
from .redaction import Redactor

FORMAT: Final = 1
MAX_BYTES: Final = 2 << 30
"""Largest size of a file, after decompression."""
SUFFIX: Final = ".recording.gz"


class RecordingError(Exception):
    """A recording cannot be read or written; the message names the file and the remedy."""


class _Header(msgspec.Struct, rename="camel", kw_only=True):
    recording: int = FORMAT
    start: datetime
    source: str = ""
    operator: str = ""
    kubernetes_version: str = ""
    redacted: bool = True


class _Line(msgspec.Struct, omit_defaults=True):
    object: Object | None = None
    change: RecordedChange | None = None
    reconcile: dict[str, Any] | None = None
    end: float | None = None
    notes: list[str] = []


_decode_line = msgspec.json.Decoder(_Line).decode


class RecordingWriter:
    """Writes the lines of a recording; use it in `with`.

    The file is written under a temporary name (`.NAME.writing`) and renamed at the end, also if the block
    fails: then it has what was recorded until then.
    """

    def __init__(self, path: Path, redactor: Redactor | None) -> None:
        """Without a redactor nothing is replaced: what is written has been redacted before."""
        self.path = path
        self.bytes = 0
        """Size of the lines before they are compressed."""
        self.duration = 0.0
        self.notes: list[str] = []
        self._redactor = redactor
        self._temporary = path.with_name(f".{path.name}.writing")

    def __enter__(self) -> Self:
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._temporary, flags, 0o600)
        self._raw = os.fdopen(descriptor, "wb")
        self._file = gzip.GzipFile(filename="", fileobj=self._raw, mode="wb", compresslevel=6, mtime=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._errors():
            try:
                self._write(_Line(end=self.duration, notes=self.notes))
                self._file.close()
            finally:
                self._raw.close()
            self._temporary.replace(self.path)

    def header(
        self, *, start: datetime, source: str = "", operator: str = "", kubernetes_version: str = ""
    ) -> None:
        """Write the first line."""
        self._write(
            _Header(start=start, source=source, operator=operator, kubernetes_version=kubernetes_version)
        )

    def objects(self, objects: Iterable[Object]) -> None:
        """Write the objects that exist at the start."""
        for each in objects:
            self._write(_Line(object=self._redacted(each)))

    def change(self, change: RecordedChange) -> None:
        """Write a change."""
        self.duration = max(self.duration, change.at)
        self._write(_Line(change=msgspec.structs.replace(change, object=self._redacted(change.object))))

    def reconcile(self, span: dict[str, Any]) -> None:
        """Write a reconcile."""
        self._write(_Line(reconcile=span if self._redactor is None else self._redactor.texts(span)))

    def flush(self) -> None:
        """Write what is buffered: a file whose recorder is killed has everything until then."""
        with self._errors():
            self._file.flush()
            self._raw.flush()

    def _redacted(self, obj: Object) -> Object:
        return obj if self._redactor is None else self._redactor.redact(obj)

    def _write(self, line: msgspec.Struct) -> None:
        encoded = msgspec.json.encode(line)
        self.bytes += len(encoded) + 1
        with self._errors():
            self._file.write(encoded + b"\n")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordingError(f"cannot write {self.path}: {error.strerror}") from None


def write_recording(recording: Recording, path: str | Path, *, redactor: Redactor | None = None) -> None:
    """Write a recording; without a redactor, of one that is redacted already, or of no real cluster."""
    with RecordingWriter(Path(path), redactor) as writer:
        writer.header(
            start=recording.start,
            source=recording.source,
            operator=recording.operator,
            kubernetes_version=recording.kubernetes_version,
        )
        writer.objects(recording.objects)
        for change in recording.changes:
            writer.change(change)
        for span in recording.reconciles:
            writer.reconcile(span)
        writer.duration = max(writer.duration, recording.duration)
        writer.notes = list(recording.notes)


def read_recording(path: str | Path) -> Recording:
    """Return the recording of a file; raise `RecordingError`."""
    path = Path(path)
    lines = _lines(path)
    try:
        header = msgspec.json.decode(next(lines), type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordingError(f"{path} is not a recording; write one with kubewright record") from None
    except StopIteration:
        what = "is not a recording; write one with kubewright record" if path.stat().st_size else "is empty"
        raise RecordingError(f"{path} {what}") from None
    if header.recording > FORMAT:
        raise RecordingError(
            f"{path} was written by a newer version of Kubewright (format {header.recording}); upgrade it"
        )
    found = Recording(
        start=header.start.astimezone(UTC),
        source=header.source,
        operator=header.operator,
        kubernetes_version=header.kubernetes_version,
        is_redacted=header.redacted,
    )
    is_complete = False
    for number, text in enumerate(lines, 2):
        try:
            line = _decode_line(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RecordingError(f"{path}, line {number}: not valid: {error}") from None
        obj = line.object if line.change is None else line.change.object
        if obj is not None and not isinstance(obj.get("metadata"), dict):
            raise RecordingError(f"{path}, line {number}: not valid: an object has no metadata")
        if line.object is not None:
            found.objects.append(line.object)
        elif line.change is not None:
            found.changes.append(line.change)
            found.duration = max(found.duration, line.change.at)
        elif line.reconcile is not None:
            found.reconciles.append(line.reconcile)
        elif line.end is not None:
            found.duration, is_complete = max(found.duration, line.end), True
            found.notes += line.notes
    if not is_complete:
        found.notes.append("the end of the file is missing")
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """Return the complete lines of a file, also of one that ends early."""
    size = 0
    try:
        with path.open("rb") as raw:
            is_compressed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_compressed else path.open("rb") as file:
            while True:
                try:
                    line = file.readline(MAX_BYTES)
                except (EOFError, zlib.error):
                    return
                size += len(line)
                if size > MAX_BYTES:
                    raise RecordingError(f"{path} is larger than {MAX_BYTES >> 20} MiB; record fewer kinds")
                if not line.endswith(b"\n"):
                    return
                yield line
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from None
