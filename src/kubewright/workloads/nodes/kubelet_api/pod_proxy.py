"""HTTP requests to ports of simulated pods, for the pod and service proxies of the API server.

Simulated pods have no reachable address. The request is written to the stream that `kubectl port-forward`
would use, and the response is read from it.
"""

from __future__ import annotations

import asyncio
import http.client
import io
from collections.abc import Iterable
from typing import Final, NamedTuple

from kubewright.client.transport.headers import encode_head
from kubewright.workloads.nodes.containers.runtime import ContainerRuntime
from kubewright.workloads.nodes.objects import Object

RESPONSE_TIMEOUT: Final = 30.0
_DROPPED: Final = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "host")
)


class PodResponse(NamedTuple):
    """The response of a pod."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


async def send_to_pod(
    runtime: ContainerRuntime,
    pod: Object,
    port: int,
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
) -> PodResponse:
    """Send a request to a port of a pod; raise `ConnectionError` without a response."""
    address = (pod.get("status") or {}).get("podIP") or "127.0.0.1"
    pairs = [("Host", f"{address}:{port}"), ("Connection", "close")]
    pairs += [pair for pair in headers if pair[0].lower() not in _DROPPED]
    if body:
        pairs.append(("Content-Length", str(len(body))))
    request = encode_head(f"{method} {path} HTTP/1.1", pairs, escape=True) + body
    exchange = _Exchange(request, is_head=method == "HEAD")
    forwarding = asyncio.ensure_future(runtime.port_forward(pod, port, exchange))
    complete = asyncio.create_task(exchange.complete.wait())
    try:
        async with asyncio.timeout(RESPONSE_TIMEOUT):
            await asyncio.wait([forwarding, complete], return_when=asyncio.FIRST_COMPLETED)
        if not exchange.received and forwarding.done():
            forwarding.result()
    finally:
        for task in (forwarding, complete):
            task.cancel()
        await asyncio.gather(forwarding, complete, return_exceptions=True)
    response = exchange.parse()
    if response is None:
        raise ConnectionResetError("the pod closed the connection without a response")
    kept = [pair for pair in response.getheaders() if pair[0].lower() not in _DROPPED]
    return PodResponse(response.status, kept, response.read())


class _Exchange:
    """A byte stream with one request; it ends with the response."""

    def __init__(self, request: bytes, *, is_head: bool) -> None:
        self._request = request
        self._is_head = is_head
        self.received = bytearray()
        self.complete = asyncio.Event()

    async def receive(self) -> bytes:
        if self._request:
            data, self._request = self._request, b""
            return data
        await self.complete.wait()
        return b""

    async def send(self, data: bytes) -> None:
        self.received += data
        head, blank, body = bytes(self.received).partition(b"\r\n\r\n")
        if not blank:
            return
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        if self._is_head or head[9:12] in (b"204", b"304"):
            self.complete.set()
        elif b"content-length" in fields:
            if len(body) >= int(fields[b"content-length"]):
                self.complete.set()
        elif b"chunked" in fields.get(b"transfer-encoding", b"") and body.endswith(b"0\r\n\r\n"):
            self.complete.set()

    def parse(self) -> http.client.HTTPResponse | None:
        """Return the response, or `None` if the connection ended without one."""
        # Of a socket, only `makefile` is used.
        response = http.client.HTTPResponse(self)  # type: ignore[arg-type]
        try:
            response.begin()
        except http.client.HTTPException:
            return None
        return response

    def makefile(self, mode: str) -> io.BytesIO:
        """Called by `HTTPResponse`."""
        return io.BytesIO(bytes(self.received))
