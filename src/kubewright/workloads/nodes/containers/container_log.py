"""`ContainerLog`: the output of one run of a container, and the selection of lines that log requests make.

`MemoryLog` is that of simulated containers. It is bounded in lines and in bytes: declared logs,
tests and attached clients write to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

MAX_LINES: Final = 10_000
MAX_BYTES: Final = 1024 * 1024
"""Bytes of the lines of a log in memory; of a longer line, the end is kept."""
LINE_COST: Final = 128
"""Bytes that a line takes in memory in addition to its text."""


class LogLine(NamedTuple):
    """One line, without its line break."""

    date: datetime
    text: bytes
    stream: str = "stdout"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of a log request, as in PodLogOptions."""

    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = "All"


class ContainerLog(Protocol):
    """Lines that a container has written; the oldest are dropped above a limit."""

    def write(self, text: str | bytes, date: datetime, stream: str = "stdout") -> None:
        """Append text; each line gets the date."""

    def last_lines(self, count: int) -> list[bytes]:
        """Return the last lines, without line breaks."""

    def close(self) -> None:
        """End the log: clients that follow it receive the remaining lines and stop."""

    def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the selected lines; with `follow`, also those that are written later."""


class MemoryLog:
    """A `ContainerLog` in memory, for simulated containers."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque()
        self._bytes = 0
        self._written = 0
        self._closed = False
        self._changed: asyncio.Event | None = None

    def write(self, text: str | bytes, date: datetime, stream: str = "stdout") -> None:
        """Append text; each line gets the date."""
        data = text.encode() if isinstance(text, str) else text
        if not data:
            return
        # Before the split, which takes more memory than the text.
        for line in data.removesuffix(b"\n")[-MAX_BYTES:].split(b"\n")[-MAX_LINES:]:
            self._lines.append(LogLine(date, line, stream))
            self._bytes += len(line) + LINE_COST
            self._written += 1
        while len(self._lines) > MAX_LINES or (self._bytes > MAX_BYTES and len(self._lines) > 1):
            self._bytes -= len(self._lines.popleft().text) + LINE_COST
        self._notify()

    def last_lines(self, count: int) -> list[bytes]:
        """Return the last lines, without line breaks."""
        return [line.text for line in list(self._lines)[-count:]]

    def close(self) -> None:
        """End the log: clients that follow it receive the remaining lines and stop."""
        self._closed = True
        self._notify()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the selected lines; with `follow`, also those that are written later."""
        left = options.limit_bytes
        selected = [line for line in self._lines if _is_selected(line, options)]
        if options.tail_lines is not None:
            selected = selected[max(0, len(selected) - options.tail_lines) :]
        position = self._written
        while True:
            for line in selected:
                data = _formatted(line, options.timestamps)
                if left is not None:
                    data, left = data[:left], left - len(data)
                if data:
                    yield data
                if left is not None and left <= 0:
                    return
            if not options.follow or (self._closed and position == self._written):
                return
            if position == self._written:
                if self._changed is None:
                    self._changed = asyncio.Event()
                await self._changed.wait()
            new = min(self._written - position, len(self._lines))
            position = self._written
            selected = [
                line for line in list(self._lines)[len(self._lines) - new :] if _is_selected(line, options)
            ]


def _is_selected(line: LogLine, options: LogOptions) -> bool:
    if options.since is not None and line.date < options.since:
        return False
    return options.stream == "All" or options.stream.lower() == line.stream


def _formatted(line: LogLine, timestamps: bool) -> bytes:
    if not timestamps:
        return line.text + b"\n"
    date = line.date.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{date}000Z ".encode() + line.text + b"\n"


Clock = Callable[[], datetime]
