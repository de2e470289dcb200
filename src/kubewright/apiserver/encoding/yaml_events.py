"""Long YAML documents, decoded in slices on the event loop.

`decode_in_slices` builds a document from the events of libyaml, which parses step by step, and pauses after a
number of them, so that other requests are served in between. A worker thread would not help: composing a
document in libyaml's Python binding holds the interpreter lock until it is complete.

Anchors, aliases, tags, merge keys and keys that are not text are left to the other decoder
(`UnsupportedEvents`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator
from typing import Any, Final

import yaml

EVENTS_PER_SLICE: Final = 500
"""About two milliseconds."""

TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
NULLS: Final = ("", "~", "null", "Null", "NULL")
MERGE: Final = "<<"
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(NULLS),
    **dict.fromkeys(TRUE, True),
    **dict.fromkeys(FALSE, False),
}
_INTEGER = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-fA-FxXoO_.+-]*\Z|\.[0-9]+(?:[eE][-+]?[0-9]+)?\Z")
_FIRST_OF_NUMBER: Final = frozenset("+-.0123456789")


class UnsupportedEvents(Exception):
    """The document needs the other decoder."""


class TooDeep(Exception):
    """The document has more than the allowed levels."""


def number(text: str) -> int | float | None:
    """Return the number of a plain scalar, or `None`."""
    plain = text if text[:1] == "." else text.replace("_", "")
    if _INTEGER.match(plain):
        digits = plain.lstrip("+-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8) if octal else int(digits, 0 if digits[0] == "0" else 10)
        value = -value if plain[0] == "-" else value
        if -(1 << 63) <= value < 1 << 64:
            return value
    if not _FLOAT.match(plain):
        return None
    fraction = float(plain)
    if math.isinf(fraction):
        return None
    return int(fraction) if fraction.is_integer() and abs(fraction) < 1e21 else fraction


def plain_number(text: str) -> int | float | None:
    """Return the number that a plain scalar stands for, or `None` if it is text."""
    return number(text) if _NUMBER.match(text) else None


def duplicate_key(line: int, key: str) -> str:
    """Return the strict decoding error for a repeated key; lines count from 0."""
    return f'line {line + 1}: key "{key}" already set in map'


def decode_in_slices(
    get_event: Callable[[], Any], duplicates: list[str], *, depth: int
) -> Generator[None, None, Any]:
    """Decode the first document; the generator returns it (`StopIteration.value`) and pauses between slices.

    Errors for duplicate keys are added to `duplicates`. Raises `UnsupportedEvents`, `TooDeep` and what
    `get_event` raises.
    """
    document: list[Any] = []
    container: Any = document
    above: list[tuple[Any, bool, str | None]] = []
    is_map, key = False, None
    remaining = EVENTS_PER_SLICE
    while True:
        remaining -= 1
        if not remaining:
            yield
            remaining = EVENTS_PER_SLICE
        event = get_event()
        kind = type(event)
        if kind is yaml.ScalarEvent:
            if event.tag is not None or event.anchor is not None:
                raise UnsupportedEvents
            text: str = event.value
            is_plain = event.implicit[0]
            if is_map and key is None:
                key = _key(text) if is_plain else text
                if key in container:
                    duplicates.append(duplicate_key(event.start_mark.line, key))
                continue
            value: Any = text
            if is_plain:
                if text in _WORDS:
                    value = _WORDS[text]
                elif text[0] in _FIRST_OF_NUMBER:
                    found = plain_number(text)
                    value = text if found is None else found
                elif text == MERGE:
                    raise UnsupportedEvents
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if event.tag is not None or event.anchor is not None or (is_map and key is None):
                raise UnsupportedEvents
            if len(above) == depth:
                raise TooDeep
            above.append((container, is_map, key))
            is_map, key = kind is yaml.MappingStartEvent, None
            container = {} if is_map else []
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            value = container
            container, is_map, key = above.pop()
        elif kind is yaml.StreamStartEvent or kind is yaml.DocumentStartEvent:
            continue
        elif kind is yaml.DocumentEndEvent or kind is yaml.StreamEndEvent:
            return document[0] if document else None
        else:
            raise UnsupportedEvents
        if is_map:
            container[key] = value
            key = None
        else:
            container.append(value)


def _key(text: str) -> str:
    """Return a plain key as text."""
    word = _WORDS.get(text, "")
    if word is None or text == MERGE:
        raise UnsupportedEvents
    if word is True or word is False:
        return "true" if word else "false"
    found = plain_number(text) if text[0] in _FIRST_OF_NUMBER else None
    return text if found is None else str(found)
