"""`GzipStream`: a streamed response with `Content-Encoding: gzip`, decompressed as it arrives."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final

from kubewright.client.errors import ConnectionFailed

from .interface import ResponseStream

MAX_CHUNK: Final = 256 * 1024
"""Maximum number of bytes that are decompressed before the reader gets them."""


class GzipStream:
    """A `ResponseStream` that decompresses another in chunks of at most `MAX_CHUNK` bytes.

    The stream can end without a gzip trailer: HTTP already reports an incomplete body, and a watch reports
    an incomplete event.
    """

    def __init__(self, stream: ResponseStream) -> None:
        self.status = stream.status
        self.headers = stream.headers.copy()
        self.headers.popall("Content-Encoding", None)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decompressor = zlib.decompressobj(wbits=31)
        async for data in self._stream:
            while True:
                if decompressor.eof and data:
                    decompressor = zlib.decompressobj(wbits=31)
                try:
                    plain = decompressor.decompress(data, MAX_CHUNK)
                except zlib.error as error:
                    raise ConnectionFailed(f"the response is not valid gzip: {error}") from None
                data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
                if plain:
                    yield plain
                # A full chunk can leave output in the decompressor after all input is consumed.
                if not data and len(plain) < MAX_CHUNK:
                    break

    async def aclose(self) -> None:
        """Stop reading and close the connection."""
        await self._stream.aclose()
