"""Long lists and Tables in other formats than compact JSON, encoded in slices of their items.

A writer receives the list in parts, each a compact JSON list with some of the items (a Table with some of the
rows), and returns the body of the response: the same bytes as if the list were encoded in one step.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from kubewright.apiserver.http.messages import Pieces

from .negotiation import JSON, PROTOBUF, YAML, wants_pretty
from .representation import SLICE

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest

    from .representation import Representation

Object = dict[str, Any]

_decode = msgspec.json.Decoder().decode
_ITEMS_PER_SLICE: Final = 16


class ListWriter(Protocol):
    """Encodes one list."""

    media: str
    items_per_slice: int
    """The number of items of a part, at most."""

    def add(self, part: bytes) -> Generator[None]:
        """Add the items of the next part; pauses between slices."""

    def finish(self) -> Pieces:
        """Return the body."""


def list_writer(request: HTTPRequest, representation: Representation) -> ListWriter | None:
    """Return the writer of a list response; `None` for compact JSON and for Tables with an order of rows."""
    if representation.sorts:
        return None
    field = representation.list_field
    if representation.media == YAML:
        return YAMLListWriter(field)
    if representation.media == PROTOBUF:
        return ProtobufListWriter()
    return PrettyListWriter(field) if wants_pretty(request) else None


class YAMLListWriter:
    """Writes a list as YAML."""

    media = YAML
    items_per_slice = _ITEMS_PER_SLICE

    def __init__(self, field: str) -> None:
        from .yaml_output import YAMLWriter

        self._field = field
        self._writer = YAMLWriter()
        self._rest: Object | None = None

    def add(self, part: bytes) -> Generator[None]:
        """Add the items of the next part; pauses between slices."""
        writer, field = self._writer, self._field
        fields: Object = _decode(part)
        items = fields.pop(field)
        if self._rest is None:
            writer.begin_mapping()
            # Keys are sorted.
            for name in [name for name in sorted(fields) if name < field]:
                yield from writer.write(name)
                yield from writer.write(fields.pop(name))
            yield from writer.write(field)
            writer.begin_sequence()
            self._rest = fields
        for item in items or ():
            yield from writer.write(item)

    def finish(self) -> Pieces:
        """Return the body."""
        writer = self._writer
        writer.end_sequence()
        rest = self._rest or {}
        for name in sorted(rest):
            for value in (name, rest[name]):
                for _ in writer.write(value):
                    pass
        writer.end_mapping()
        return [writer.finish()]


class ProtobufListWriter:
    """Writes a list as protobuf: messages with parts of a repeated field can be concatenated."""

    media = PROTOBUF
    items_per_slice = _ITEMS_PER_SLICE

    def __init__(self) -> None:
        from .protobuf import builtin_codec

        self._codec = builtin_codec()
        self._parts: list[bytes] = []
        self._kind = ("", "")
        self._empty = b""

    def add(self, part: bytes) -> Generator[None]:
        """Add the items of the next part."""
        codec = self._codec
        fields: Object = _decode(part)
        if not self._parts:
            self._kind = (fields.get("apiVersion", ""), fields.get("kind", ""))
            self._empty = codec.encode_list_part(*self._kind, {"items": []})
            self._parts.append(codec.encode_list_part(*self._kind, fields))
        else:
            encoded = codec.encode_list_part(*self._kind, {"items": fields["items"]})
            self._parts.append(encoded.removeprefix(self._empty))
        yield

    def finish(self) -> Pieces:
        """Return the body."""
        return self._codec.join_list(*self._kind, self._parts)


class PrettyListWriter:
    """Writes a list or a Table as indented JSON."""

    media = JSON
    items_per_slice = SLICE

    def __init__(self, field: str) -> None:
        # Encoded strings have no line breaks, and only the fields of the list itself are indented by two.
        self._field = b'\n  "%b": ' % field.encode()
        self._head = self._empty = b""
        self._pieces: Pieces = []

    def add(self, part: bytes) -> Generator[None]:
        """Add the items of the next part."""
        text = msgspec.json.format(part, indent=2)
        start = text.index(self._field) + len(self._field)
        if not self._head:
            self._head = text[:start]
        # The list is the last field of the object.
        if text.endswith(_END_OF_ITEMS):
            self._pieces.append(b"," if self._pieces else self._head + b"[")
            self._pieces.append(memoryview(text)[start + 1 : -len(_END_OF_ITEMS)])
        else:
            self._empty = text[start:]
        yield

    def finish(self) -> Pieces:
        """Return the body."""
        return [*self._pieces, _END_OF_ITEMS] if self._pieces else [self._head, self._empty]


_END_OF_ITEMS: Final = b"\n  ]\n}"
