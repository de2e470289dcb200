"""YAML output in slices.

The emitter receives the events of an object one by one, and the writer pauses after a number of them. The
output is that of `negotiation.to_yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

import yaml

from .negotiation import YAMLDumper

EVENTS_PER_SLICE: Final = 500
"""About two milliseconds."""
_TEXT: Final = "tag:yaml.org,2002:str"
_MAP: Final = "tag:yaml.org,2002:map"
_SEQUENCE: Final = "tag:yaml.org,2002:seq"


class YAMLWriter:
    """Writes one document."""

    def __init__(self) -> None:
        self._output = BytesIO()
        self._remaining = EVENTS_PER_SLICE
        """Events until the next pause."""
        self._dumper: Any = YAMLDumper(
            self._output, default_flow_style=False, allow_unicode=True, width=1_000_000, encoding="utf-8"
        )
        self._emit(yaml.StreamStartEvent(encoding="utf-8"))
        self._emit(yaml.DocumentStartEvent(explicit=False))

    def _emit(self, event: yaml.Event) -> None:
        self._dumper.emit(event)

    def begin_mapping(self) -> None:
        """Begin an object; its keys and values follow."""
        self._emit(yaml.MappingStartEvent(None, _MAP, True, flow_style=False))

    def end_mapping(self) -> None:
        """End an object."""
        self._emit(yaml.MappingEndEvent())

    def begin_sequence(self) -> None:
        """Begin a list; its items follow."""
        self._emit(yaml.SequenceStartEvent(None, _SEQUENCE, True, flow_style=False))

    def end_sequence(self) -> None:
        """End a list."""
        self._emit(yaml.SequenceEndEvent())

    def write(self, value: Any) -> Generator[None]:
        """Write a value; pauses between slices."""
        emit = self._dumper.emit
        for event in self._events(value):
            emit(event)
            self._remaining -= 1
            if self._remaining <= 0:
                yield
                self._remaining = EVENTS_PER_SLICE

    def finish(self) -> bytes:
        """End the document and return it."""
        self._emit(yaml.DocumentEndEvent(explicit=False))
        self._emit(yaml.StreamEndEvent())
        self._dumper.dispose()
        return self._output.getvalue()

    def _events(self, value: Any) -> Iterator[yaml.Event]:
        pending: list[Iterator[Any]] = [iter((value,))]
        ends: list[yaml.Event] = []
        while pending:
            for item in pending[-1]:
                if type(item) is str:
                    yield yaml.ScalarEvent(None, _TEXT, (_is_text(item), True), item)
                elif type(item) is dict:
                    yield yaml.MappingStartEvent(None, _MAP, True, flow_style=False)
                    pending.append(_flat(sorted(item.items())))
                    ends.append(yaml.MappingEndEvent())
                    break
                elif type(item) is list:
                    yield yaml.SequenceStartEvent(None, _SEQUENCE, True, flow_style=False)
                    pending.append(iter(item))
                    ends.append(yaml.SequenceEndEvent())
                    break
                else:
                    node = self._dumper.represent_data(item)
                    yield yaml.ScalarEvent(None, node.tag, (True, False), node.value)
            else:
                pending.pop()
                if ends and pending:
                    yield ends.pop()


def _flat(entries: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    for key, value in entries:
        yield key
        yield value


_resolve: Callable[..., str] = yaml.resolver.Resolver().resolve


@lru_cache(maxsize=8192)
def _short_is_text(text: str) -> bool:
    return _resolve(yaml.ScalarNode, text, (True, False)) == _TEXT


def _is_text(text: str) -> bool:
    """Whether a plain scalar with this text is read as text."""
    if len(text) > 100:
        return _resolve(yaml.ScalarNode, text, (True, False)) == _TEXT
    return _short_is_text(text)


def yaml_in_slices(value: Any) -> Generator[None, None, bytes]:
    """Encode a value; pauses between slices and returns the document."""
    writer = YAMLWriter()
    yield from writer.write(value)
    return writer.finish()
