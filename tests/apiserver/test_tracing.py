"""Tracing of requests: sampling, parents, and what a collector receives over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from kubewright.apiserver import APIServer, HTTPRequest, HTTPResponse, User
from kubewright.apiserver.tracing import (
    RequestTracer,
    SpanContext,
    TracingConfiguration,
    current_traceparent,
    otlp,
)
from kubewright.apiserver.tracing.otlp import METHOD
from kubewright.storage.memory import MemoryStorage

ADMIN = User("admin", ("system:masters", "system:authenticated"))
JANE = User("jane", ("system:authenticated",))
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


def fields(data: bytes) -> dict[int, list[Any]]:
    """Decode one protobuf message: numbers, and bytes for everything else."""
    found: dict[int, list[Any]] = {}

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    at = 0
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value: Any = varint()
        else:
            size = 8 if kind == 1 else varint()
            value = data[at : at + size]
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def attributes(span: dict[int, list[Any]]) -> dict[str, Any]:
    found = {}
    for encoded in span.get(9, []):
        pair = fields(encoded)
        value = fields(pair[2][0])
        found[pair[1][0].decode()] = value[3][0] if 3 in value else value[1][0].decode()
    return found


@pytest.fixture(autouse=True)
def long_export_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export all spans, however slow the machine is."""
    monkeypatch.setattr(otlp, "TIMEOUT", 60.0)
    monkeypatch.setattr(otlp, "STOP_TIMEOUT", 60.0)


class Collector:
    """A collector of spans."""

    def __init__(self) -> None:
        self.spans: list[dict[int, list[Any]]] = []
        self.port = 0

    async def export(self, data: bytes, context: Any) -> bytes:
        resource_spans = fields(fields(data)[1][0])
        resource = fields(fields(resource_spans[1][0])[1][0])
        assert resource[1][0] == b"service.name"
        self.spans += [fields(span) for span in fields(resource_spans[2][0])[2]]
        return b""


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector, server = Collector(), grpc.aio.server()
    service, _, method = METHOD.strip("/").partition("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(collector.export)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    collector.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)


async def trace(rate: int, *requests: HTTPRequest) -> tuple[list[dict[int, list[Any]]], list[str]]:
    """Send requests; return the exported spans, and the header for calls that they would make."""
    seen = []

    async def handle(request: HTTPRequest) -> HTTPResponse:
        seen.append(current_traceparent())
        return HTTPResponse(503 if request.path == "/fails" else 200)

    async with collecting() as collector:
        configuration = TracingConfiguration(
            endpoint=f"127.0.0.1:{collector.port}", sampling_rate_per_million=rate
        )
        async with APIServer(MemoryStorage(), tracer=RequestTracer(configuration)) as server:
            for path in ("/work", "/fails"):
                server.add_handler(path, handle)
            for request in requests:
                await server.handle(request)
            assert current_traceparent() == ""
    return collector.spans, seen


async def test_spans_of_trusted_clients_continue_their_trace() -> None:
    headers = {"traceparent": SAMPLED, "User-Agent": "tool/1", "Audit-Id": "id-1"}
    (span,), (seen,) = await trace(0, HTTPRequest("GET", "/work?a=b", user=ADMIN, headers=headers))
    assert (span[1][0].hex(), span[4][0].hex()) == (TRACE, PARENT)
    assert seen == f"00-{TRACE}-{span[2][0].hex()}-01"
    assert span[5] == [b"GET"]
    assert attributes(span) == {
        "http.request.method": "GET",
        "http.target": "/work?a=b",
        "url.path": "/work",
        "url.scheme": "https",
        "user_agent.original": "tool/1",
        "audit-id": "id-1",
        "http.response.status_code": 200,
    }
    started, ended = (int.from_bytes(span[number][0], "little") for number in (7, 8))
    assert 0 < started <= ended


async def test_headers_of_other_clients_are_links() -> None:
    request = HTTPRequest("GET", "/fails", user=JANE, headers={"traceparent": SAMPLED})
    assert await trace(0, request) == ([], [""])
    request = HTTPRequest("GET", "/fails", user=JANE, headers={"traceparent": SAMPLED})
    (span,), _ = await trace(1_000_000, request)
    assert span[1][0].hex() != TRACE
    assert 4 not in span
    assert fields(span[13][0])[1][0].hex() == TRACE
    assert fields(span[15][0])[3] == [2]  # STATUS_CODE_ERROR


async def test_the_rate_selects_requests() -> None:
    requests = [HTTPRequest("GET", "/work", user=JANE) for _ in range(300)]
    spans, seen = await trace(500_000, *requests)
    assert 90 < len(spans) < 210
    assert len(spans) == sum(map(bool, seen))


async def test_names_of_resource_spans_have_placeholders() -> None:
    request = HTTPRequest("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", user=JANE)
    (span,), _ = await trace(1_000_000, request)
    assert span[5] == [b"GET /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale"]


@pytest.mark.parametrize(
    "header", ["", "00", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"{SAMPLED}-x"]
)
def test_headers_that_are_not_valid_are_ignored(header: str) -> None:
    assert SpanContext.parse(header) is None


async def test_an_unreachable_collector_is_logged_once(
    unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    configuration = TracingConfiguration(
        endpoint=f"127.0.0.1:{unused_tcp_port}", sampling_rate_per_million=1_000_000
    )
    async with APIServer(MemoryStorage(), tracer=RequestTracer(configuration)) as server:
        response = await server.handle(HTTPRequest("GET", "/version", user=JANE))
    assert response.status == 200
    assert caplog.messages.count("cannot export spans") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Other", "expected kind TracingConfiguration and apiVersion apiserver.config.k8s.io/v1"),
        ("samplingRatePerMillion: -1", "sampling rate must be between 0 and one million"),
        ("endpoint: http://localhost:4317", "expected HOST:PORT without a scheme"),
        ("endpoints: x", "unknown fields endpoints"),
        ("a: {", "is not valid YAML"),
    ],
)
def test_configuration_errors_name_the_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tracing.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
    path.write_text(text if text.startswith("kind") else head + text)
    with pytest.raises(ValueError, match=message) as raised:
        TracingConfiguration.from_file(path)
    assert str(path) in str(raised.value)
