"""Export of spans: the protobuf messages of OTLP, sent to a collector over gRPC in batches.

The messages are encoded here, so that no generated code is needed; the field numbers are those of
`opentelemetry/proto/trace/v1/trace.proto`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from contextvars import Token
from typing import Any, Final

from kubewright.apiserver.encoding.protobuf_wire import VARINT, put_bytes, put_key, put_varint
from kubewright.background import run_forever
from kubewright.tracing.spans import Span

from .context import SpanContext

logger = logging.getLogger("kubewright.apiserver.tracing")

SERVICE: Final = "apiserver"
METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MAX_QUEUE: Final = 2048
MAX_BATCH: Final = 512
INTERVAL: Final = 5.0
"""Seconds between exports."""
TIMEOUT: Final = 10.0
STOP_TIMEOUT: Final = 2.0
"""Seconds to send what is queued when the server stops."""
_SERVER: Final = 2
_ERROR: Final = 2


class RequestSpan(Span):
    """A request to the API server."""

    __slots__ = ("attributes", "identity", "link", "name", "parent_id", "status", "token")

    def __init__(
        self,
        name: str,
        identity: SpanContext,
        *,
        parent_id: bytes,
        link: SpanContext | None,
        attributes: dict[str, str | int],
    ) -> None:
        super().__init__()
        self.name = name
        self.identity = identity
        self.parent_id = parent_id
        self.link = link
        self.attributes = attributes
        self.status = 0
        """Status code of the response; 0 without one."""
        self.token: Token[SpanContext | None] | None = None
        """Restores the span of the task when this one ends."""


class SpanExporter:
    """Queues spans and sends them every few seconds. Spans that do not fit in the queue are dropped."""

    def __init__(self, endpoint: str) -> None:
        """Raises `ValueError` if the gRPC library is not installed."""
        try:
            import grpc.aio
        except ImportError:
            raise ValueError("tracing needs grpcio: pip install 'kubewright[tracing]'") from None
        self._grpc: Any = grpc.aio
        self._endpoint = endpoint
        self._queue: list[RequestSpan] = []
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._channel: Any = None
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    async def start(self) -> None:
        """Connect when the first span is sent."""
        self._channel = self._grpc.insecure_channel(self._endpoint)
        self._task = run_forever(self._run, name="export of spans", required=False)

    async def stop(self) -> None:
        """Send what is queued, for at most `STOP_TIMEOUT` seconds."""
        self._is_stopping = True
        self._wake.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT):
                    await self._task
        if self._channel is not None:
            await self._channel.close()

    def add(self, span: RequestSpan) -> None:
        """Queue a finished span."""
        if len(self._queue) < MAX_QUEUE:
            self._queue.append(span)
            if len(self._queue) == MAX_BATCH:
                self._wake.set()

    async def _run(self) -> None:
        while not (self._is_stopping and not self._queue):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._wake.wait()
            if not self._is_stopping:
                self._wake.clear()
            batch, self._queue = self._queue[:MAX_BATCH], self._queue[MAX_BATCH:]
            if batch:
                await self._send(encode_request(batch))

    async def _send(self, data: bytes) -> None:
        call = self._channel.unary_unary(METHOD)
        try:
            await call(data, timeout=TIMEOUT)
            self._has_failed = False
        except self._grpc.AioRpcError as error:
            if not self._has_failed:
                logger.error(
                    "cannot export spans", extra={"endpoint": self._endpoint, "error": error.details()}
                )
            self._has_failed = True


def encode_request(spans: Iterable[RequestSpan]) -> bytes:
    """Return an `ExportTraceServiceRequest` with spans of this server."""
    resource = put_bytes(1, _attribute("service.name", SERVICE))
    scope = put_bytes(1, b"kubewright.apiserver")
    scope_spans = put_bytes(1, scope) + b"".join(put_bytes(2, encode_span(span)) for span in spans)
    return put_bytes(1, put_bytes(1, resource) + put_bytes(2, scope_spans))


def encode_span(span: RequestSpan) -> bytes:
    """Return a `Span`."""
    started = int(span.started * 1e9)
    attributes = {**span.attributes, "http.response.status_code": span.status or ""}
    parts = [
        put_bytes(1, span.identity.trace_id),
        put_bytes(2, span.identity.span_id),
        put_bytes(4, span.parent_id) if span.parent_id else b"",
        put_bytes(5, span.name.encode()),
        _put_integer(6, _SERVER),
        b"\x39" + started.to_bytes(8, "little"),
        b"\x41" + (started + int(span.duration * 1e9)).to_bytes(8, "little"),
        *(put_bytes(9, _attribute(name, value)) for name, value in attributes.items() if value != ""),
    ]
    if span.link is not None:
        parts.append(put_bytes(13, put_bytes(1, span.link.trace_id) + put_bytes(2, span.link.span_id)))
    if span.status >= 500:
        parts.append(put_bytes(15, _put_integer(3, _ERROR)))
    return b"".join(parts)


def _attribute(name: str, value: str | int) -> bytes:
    encoded = _put_integer(3, value) if isinstance(value, int) else put_bytes(1, value.encode())
    return put_bytes(1, name.encode()) + put_bytes(2, encoded)


def _put_integer(number: int, value: int) -> bytes:
    return put_key(number, VARINT) + put_varint(value)
