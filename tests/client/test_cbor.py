"""CBOR between the client and the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from multidict import CIMultiDict

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.encoding import cbor, codec
from kubewright.api.errors import NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.client import (
    APIResponse,
    Client,
    ClusterConfig,
    ConnectionFailed,
    HTTPTransport,
    RetryPolicy,
    WebSocketConnection,
)
from kubewright.client.transport.cbor import CBORTransport
from kubewright.client.transport.interface import Headers

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"},
    "data": {"key": "v\u00e4lue"},
}
RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {
            "name": "configmaps",
            "singularName": "",
            "namespaced": True,
            "kind": "ConfigMap",
            "verbs": ["get", "create", "update", "patch", "watch"],
        }
    ],
}


class Chunks:
    """A response stream of fixed chunks."""

    def __init__(self, status: int, content_type: str, data: bytes) -> None:
        self.status = status
        self.headers = CIMultiDict({"Content-Type": content_type})
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), 7):
            yield self._data[at : at + 7]

    async def aclose(self) -> None:
        self._data = b""


class Server:
    """A transport to a server that may offer CBOR, and the requests it received."""

    def __init__(self, *, sends: bool = True, accepts: bool = True) -> None:
        self.sends = sends
        self.accepts = accepts
        self.requests: list[tuple[str, str, str, bytes]] = []
        self.events: list[bytes] = []
        self.damaged = False

    def respond(self, status: int, value: Any, accept: str) -> APIResponse:
        if self.sends and "application/cbor" in accept:
            body = b"\xff" if self.damaged else cbor.encode(value)
            return APIResponse(status, CIMultiDict({"Content-Type": "application/cbor"}), body)
        return APIResponse(status, CIMultiDict({"Content-Type": "application/json"}), codec.encode(value))

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        headers = headers or {}
        accept, content_type = headers.get("Accept", ""), headers.get("Content-Type", "")
        if path in ("/api", "/apis"):
            return APIResponse(404, CIMultiDict(), b"")
        if path == "/api/v1":
            return APIResponse(
                200, CIMultiDict({"Content-Type": "application/json"}), codec.encode(RESOURCES)
            )
        self.requests.append((method, accept, content_type, body))
        if content_type == "application/cbor" and not self.accepts:
            return APIResponse(415, CIMultiDict({"Content-Type": "text/plain"}), b"unsupported media type")
        if path.endswith("/missing"):
            status = {
                "kind": "Status",
                "status": "Failure",
                "reason": "NotFound",
                "code": 404,
                "message": "no",
            }
            return self.respond(404, status, accept)
        return self.respond(201 if method == "POST" else 200, CONFIG_MAP, accept)

    async def stream(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> Chunks:
        self.requests.append((method, (headers or {}).get("Accept", ""), "", body))
        return Chunks(200, "application/cbor-seq", b"".join(self.events))

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        raise NotImplementedError

    def invalidate_credentials(self) -> bool:
        return False

    async def aclose(self) -> None:
        pass


def client_of(server: Server) -> Client:
    return Client.from_transport(CBORTransport(server), retries=RetryPolicy(transient_attempts=0))


async def test_responses_are_decoded_by_content_type() -> None:
    for sends in (True, False):
        server = Server(sends=sends)
        obj = await client_of(server).get(ConfigMap, "web")
        assert obj.data == {"key": "v\u00e4lue"}
        assert server.requests[0][1] == "application/cbor, application/json"


async def test_each_clause_of_accept_gets_cbor() -> None:
    server = Server()
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    await CBORTransport(server).send("GET", "/x", headers={"Accept": accept})
    await CBORTransport(server).send("GET", "/x", headers={"Accept": "text/plain, */*"})
    assert [request[1] for request in server.requests] == [
        "application/cbor;as=Table;g=meta.k8s.io;v=v1, application/json;as=Table;g=meta.k8s.io;v=v1, "
        "application/cbor, application/json",
        "text/plain, */*",
    ]


async def test_errors_are_decoded() -> None:
    with pytest.raises(NotFound, match="no"):
        await client_of(Server()).get(ConfigMap, "missing")


async def test_bodies_are_cbor_after_a_response_in_cbor() -> None:
    server = Server()
    client = client_of(server)
    for _ in range(2):
        await client.create(ConfigMap(metadata=ObjectMeta(name="web"), data={"key": "value"}))
    assert [request[2] for request in server.requests] == ["application/json", "application/cbor"]
    assert cbor.decode(server.requests[1][3]) == codec.loads(server.requests[0][3])


async def test_json_after_415() -> None:
    server = Server(accepts=False)
    client = client_of(server)
    await client.get(ConfigMap, "web")
    for _ in range(2):
        await client.create(ConfigMap(metadata=ObjectMeta(name="web")))
    types = [request[2] for request in server.requests]
    assert types == ["", "application/cbor", "application/json", "application/json"]


async def test_integers_beyond_64_bits_are_sent_as_json() -> None:
    server = Server()
    transport = CBORTransport(server)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    await transport.send("GET", "/x", headers=headers)
    await transport.send("PUT", "/x", headers=headers, body=b'{"a": 18446744073709551615}')
    assert server.requests[1][2:] == ("application/json", b'{"a": 18446744073709551615}')
    assert headers == {"Accept": "application/json", "Content-Type": "application/json"}


async def test_watch() -> None:
    server = Server()
    server.events = [cbor.encode({"type": kind, "object": CONFIG_MAP}) for kind in ("ADDED", "MODIFIED")]
    async with client_of(server).watch(ConfigMap, resource_version="1", resume=False) as watch:
        events = [(event.type, event.object.data) async for event in watch]
    assert events == [("ADDED", {"key": "v\u00e4lue"}), ("MODIFIED", {"key": "v\u00e4lue"})]
    assert server.requests[0][1] == "application/cbor, application/json"


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (cbor.encode({"type": "ADDED", "object": CONFIG_MAP})[:-1], "closed within an event"),
        (b"\xff", "cannot decode a watch event"),
    ],
)
async def test_watch_with_invalid_data(events: bytes, message: str) -> None:
    server = Server()
    server.events = [events]
    async with client_of(server).watch(ConfigMap, resource_version="1", resume=False) as watch:
        with pytest.raises(ConnectionFailed, match=message):
            await anext(watch)


async def test_invalid_response() -> None:
    server = Server()
    server.damaged = True
    with pytest.raises(ConnectionFailed, match="cannot decode the response"):
        await client_of(server).get(ConfigMap, "web")


async def test_off_by_default() -> None:
    config = ClusterConfig(server="http://127.0.0.1:1")
    async with Client.connect(config, metrics=False) as client:
        assert isinstance(client.rest.transport, HTTPTransport)
    async with Client.connect(config, metrics=False, cbor=True) as client:
        assert isinstance(client.rest.transport, CBORTransport)
