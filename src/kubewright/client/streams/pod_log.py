"""`PodLog`: the log of a container, as text or line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

from kubewright.client.errors import ResponseTooLarge
from kubewright.client.transport.interface import ResponseStream

MAX_LINE = 64 << 20
"""Maximum length of a log line in bytes."""


class PodLog:
    """A log request: `await` it for the text, or iterate it with `async for` for lines."""

    def __init__(self, open_stream: Callable[[], Awaitable[ResponseStream]]) -> None:
        self._open = open_stream

    def __await__(self) -> Generator[Any, None, str]:
        return self._text().__await__()

    async def _text(self) -> str:
        return "".join([f"{line}\n" async for line in self])

    async def __aiter__(self) -> AsyncIterator[str]:
        stream = await self._open()
        try:
            incomplete = bytearray()
            async for chunk in stream:
                *lines, last = chunk.split(b"\n")
                for line in lines:
                    yield (incomplete + line).decode(errors="replace")
                    incomplete.clear()
                incomplete += last
                if len(incomplete) > MAX_LINE:
                    raise ResponseTooLarge(f"the log has a line of more than {MAX_LINE >> 20} MiB")
            if incomplete:
                yield incomplete.decode(errors="replace")
        finally:
            await stream.aclose()
