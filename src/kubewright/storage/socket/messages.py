"""Messages between `StorageServer` and `SocketStorage`, and their frames.

A frame is the length of its content (four bytes, big-endian) and a list of messages in MessagePack. All
messages that are due at the same time are one frame: one system call on each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from kubewright.storage.contract import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyValue,
    RequestTooLarge,
    RevisionMismatch,
    StorageError,
    StorageEvent,
)


class Request(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Base of the requests of a client; `number` is repeated in the result."""

    number: int


class Create(Request, frozen=True, tag=1):
    """See `Storage.create`."""

    key: str
    value: bytes
    ttl: int | None


class Update(Request, frozen=True, tag=2):
    """See `Storage.update`."""

    key: str
    value: bytes
    expected: int
    ttl: int | None


class Delete(Request, frozen=True, tag=3):
    """See `Storage.delete`."""

    key: str
    expected: int


class Compact(Request, frozen=True, tag=4):
    """See `Storage.compact`."""

    revision: int


class Size(Request, frozen=True, tag=5):
    """See `Storage.size`; the result of a storage without a file is -1."""


class Snapshot(msgspec.Struct, array_like=True, gc=False, frozen=True, tag=1):
    """A part of the state at the revision of the next `SnapshotEnd`."""

    items: list[KeyValue]


class SnapshotEnd(msgspec.Struct, array_like=True, gc=False, frozen=True, tag=2):
    """The parts since the last one are the state at `revision`; the events after it follow."""

    revision: int


class Events(msgspec.Struct, array_like=True, gc=False, frozen=True, tag=3):
    """Changes in revision order: revision, key, value (`None`: deleted), revision of the creation."""

    events: list[tuple[int, str, bytes | None, int]]


class Compaction(msgspec.Struct, array_like=True, gc=False, frozen=True, tag=4):
    """The history before `revision` is removed; lists before `oldest_list` are rejected."""

    revision: int
    oldest_list: int


class Result(msgspec.Struct, array_like=True, gc=False, frozen=True, tag=5):
    """A request has succeeded."""

    number: int
    value: int


class Failure(msgspec.Struct, array_like=True, gc=False, frozen=True, tag=6):
    """A request has failed, with an exception of the contract and its values."""

    number: int
    error: Literal["exists", "mismatch", "compacted", "future", "too large", "storage"]
    message: str = ""
    current: KeyValue | None = None
    revision: int = 0
    limit: int = 0

    @classmethod
    def of(cls, number: int, error: Exception) -> Failure:
        """Return the message of an exception."""
        match error:
            case KeyExists():
                return cls(number, "exists", current=error.current)
            case RevisionMismatch():
                return cls(number, "mismatch", str(error), error.current)
            case Compacted():
                return cls(number, "compacted", revision=error.revision, limit=error.oldest)
            case FutureRevision():
                return cls(number, "future", revision=error.revision, limit=error.current)
            case RequestTooLarge():
                return cls(number, "too large")
            case StorageError():
                return cls(number, "storage", str(error))
        return cls(number, "storage", f"{type(error).__name__}: {error}")

    def exception(self) -> Exception:
        """Return the exception."""
        if self.error == "exists" and self.current is not None:
            return KeyExists(self.current)
        if self.error == "mismatch":
            return RevisionMismatch(self.message, self.current)
        if self.error == "compacted":
            return Compacted(self.revision, self.limit)
        if self.error == "future":
            return FutureRevision(self.revision, self.limit)
        return RequestTooLarge() if self.error == "too large" else StorageError(self.message)


AnyRequest = Create | Update | Delete | Compact | Size
ServerMessage = Snapshot | SnapshotEnd | Events | Compaction | Result | Failure

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(list[AnyRequest])
_server_messages = msgspec.msgpack.Decoder(list[ServerMessage])


def encode_frame(messages: Sequence[AnyRequest | ServerMessage]) -> bytearray:
    """Return messages as one frame."""
    frame = bytearray(4)
    _encoder.encode_into(messages, frame, 4)
    frame[:4] = (len(frame) - 4).to_bytes(4)
    return frame


def decode_requests(frame: bytes) -> list[AnyRequest]:
    """Return the requests of a frame."""
    return _requests.decode(frame)


def decode_server_messages(frame: bytes) -> list[ServerMessage]:
    """Return the messages of a server's frame."""
    return _server_messages.decode(frame)


def to_events(events: Sequence[StorageEvent]) -> Events:
    """Return the message of events; the receiver knows the previous values."""
    return Events([(each.revision, each.key, each.value, each.create_revision) for each in events])


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the contents of the frames that are complete."""
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        at = 0
        while len(buffer) - at >= 4:
            end = at + 4 + int.from_bytes(buffer[at : at + 4])
            if end > len(buffer):
                break
            frames.append(bytes(buffer[at + 4 : end]))
            at = end
        if at:
            del buffer[:at]
        return frames
