"""Long lists in other formats than compact JSON, encoded in slices of their items.

A writer receives the list in parts, each a decoded list object with some of the items, and returns the body
of the response.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from kubewright.apiserver.http.messages import Pieces

from .negotiation import JSON, PROTOBUF, YAML, ResponseFormat, encode, wants_pretty

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest

Object = dict[str, Any]

ITEMS_PER_SLICE: Final = 16


class ListWriter(Protocol):
    """Encodes one list."""

    media: str

    def add(self, part: Object) -> Generator[None]:
        """Add the items of the next part; pauses between slices."""

    def finish(self) -> Pieces:
        """Return the body."""


def list_writer(request: HTTPRequest, response_format: ResponseFormat) -> ListWriter | None:
    """Return the writer of a list response; `None` for compact JSON and for Tables."""
    if response_format.transform == "Table":
        return None
    if response_format.media == YAML:
        return YAMLListWriter()
    if response_format.media == PROTOBUF:
        return ProtobufListWriter()
    return PrettyListWriter() if wants_pretty(request) else None


class YAMLListWriter:
    """Writes a list as YAML."""

    media = YAML

    def __init__(self) -> None:
        from .yaml_output import YAMLWriter

        self._writer = YAMLWriter()
        self._rest: Object = {}

    def add(self, part: Object) -> Generator[None]:
        """Add the items of the next part; pauses between slices."""
        writer = self._writer
        items = part.pop("items")
        if not self._rest:
            writer.begin_mapping()
            # Keys are sorted.
            for name in [name for name in sorted(part) if name < "items"]:
                yield from writer.write(name)
                yield from writer.write(part.pop(name))
            yield from writer.write("items")
            writer.begin_sequence()
            self._rest = part
        for item in items or ():
            yield from writer.write(item)

    def finish(self) -> Pieces:
        """Return the body."""
        writer = self._writer
        writer.end_sequence()
        for name in sorted(self._rest):
            for value in (name, self._rest[name]):
                for _ in writer.write(value):
                    pass
        writer.end_mapping()
        return [writer.finish()]


class ProtobufListWriter:
    """Writes a list as protobuf: messages with parts of a repeated field can be concatenated."""

    media = PROTOBUF

    def __init__(self) -> None:
        from .protobuf import builtin_codec

        self._codec = builtin_codec()
        self._parts: list[bytes] = []
        self._kind = ("", "")
        self._empty = b""

    def add(self, part: Object) -> Generator[None]:
        """Add the items of the next part."""
        codec = self._codec
        if not self._parts:
            self._kind = (part.get("apiVersion", ""), part.get("kind", ""))
            self._empty = codec.encode_list_part(*self._kind, {"items": []})
            self._parts.append(codec.encode_list_part(*self._kind, part))
        else:
            encoded = codec.encode_list_part(*self._kind, {"items": part["items"]})
            self._parts.append(encoded.removeprefix(self._empty))
        yield

    def finish(self) -> Pieces:
        """Return the body."""
        return self._codec.join_list(*self._kind, self._parts)


class PrettyListWriter:
    """Writes a list as indented JSON."""

    media = JSON

    def __init__(self) -> None:
        self._pieces: Pieces = []
        self._end = b""

    def add(self, part: Object) -> Generator[None]:
        """Add the items of the next part."""
        text = msgspec.json.format(encode(part), indent=2)
        # The list is the last field of the object.
        start, end = text.index(b'"items": [') + len(b'"items": ['), text.rindex(b"\n  ]")
        self._pieces.append(text[:start] if not self._pieces else b",")
        self._pieces.append(memoryview(text)[start:end])
        self._end = text[end:]
        yield

    def finish(self) -> Pieces:
        """Return the body."""
        return [*self._pieces, self._end]


__all__ = ["ITEMS_PER_SLICE", "ListWriter", "list_writer"]
