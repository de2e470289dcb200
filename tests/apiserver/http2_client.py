"""An HTTP/2 client for tests: sends single frames, and reads what the server sends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    PingReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings

from .test_http import context


class Reply:
    """What the client has received of one stream."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.ended = False
        self.reset: int | None = None

    def json(self) -> Any:
        return json.loads(self.body)


class HTTP2Client:
    """A connection. `window` is the initial window of responses; with `acknowledges=False` it never grows."""

    def __init__(self, reader: Any, writer: Any, *, window: int, acknowledges: bool) -> None:
        self.reader, self.writer = reader, writer
        self.acknowledges = acknowledges
        self.replies: dict[int, Reply] = {}
        self.goaway: int | None = None
        self.pings: list[object] = []
        self.closed = False
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.local_settings = Settings(
            client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: window}
        )
        self.h2.initiate_connection()
        if window > 65535:
            self.h2.increment_flow_control_window(1 << 30)
        self.flush()

    @classmethod
    async def connect(
        cls, front: Any, *, window: int = 4 << 20, acknowledges: bool = True, certificate: bool = True
    ) -> HTTP2Client:
        tls = context(front, client=certificate)
        tls.set_alpn_protocols(["h2", "http/1.1"])
        reader, writer = await asyncio.open_connection(front.host, front.port, ssl=tls)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        return cls(reader, writer, window=window, acknowledges=acknowledges)

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def request(self, method: str, path: str, body: bytes = b"", *, end: bool = True, **headers: str) -> int:
        """Send a request; returns its stream."""
        number = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "localhost")]
        fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.h2.send_headers(number, fields, end_stream=end and not body)
        for start in range(0, len(body), 16384):
            part = body[start : start + 16384]
            self.h2.send_data(number, part, end_stream=end and start + 16384 >= len(body))
        self.replies[number] = Reply()
        self.flush()
        return number

    async def receive(self) -> None:
        """Process the next received bytes."""
        try:
            data = await self.reader.read(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return
        for event in self.h2.receive_data(data):
            reply = self.replies.get(getattr(event, "stream_id", None) or 0, Reply())
            if isinstance(event, ResponseReceived):
                reply.headers = dict(event.headers)
                reply.status = int(reply.headers[":status"])
            elif isinstance(event, DataReceived):
                reply.body += event.data
                if self.acknowledges:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                reply.ended = True
            elif isinstance(event, StreamReset):
                reply.reset = int(event.error_code)
            elif isinstance(event, ConnectionTerminated):
                self.goaway = int(event.error_code)
            elif isinstance(event, (PingReceived, PingAckReceived)):
                self.pings.append(event)
        self.flush()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not condition() and not self.closed:
                await self.receive()

    async def reply(self, number: int) -> Reply:
        """Return the complete response of a stream."""
        reply = self.replies[number]
        await self.until(lambda: reply.ended or reply.reset is not None)
        return reply

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.reply(self.request("GET", path, **headers))

    async def wait_closed(self) -> None:
        await self.until(lambda: self.closed)

    def close(self) -> None:
        self.writer.close()
