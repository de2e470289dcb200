"""A toy API server behind an APIService, over TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.controlplane.aggregation.toy_server import GROUP, SERVICES, register, until
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import NotFound
from kubewright.apiserver import (
    HTTPRequest,
    Resource,
    User,
    Version,
)
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.server import HTTPServer
from kubewright.controlplane import ControlPlane
from kubewright.tls.certificates import CertificateAuthority, server_context

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_objects_of_the_extension_server_are_served(aggregated: PathClient) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/default/toys"
    toy = {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "bear"}}
    made = await aggregated.create(path, toy)
    assert made["metadata"]["uid"]
    assert [item["metadata"]["name"] for item in (await aggregated.get(path))["items"]] == ["bear"]
    await aggregated.delete(f"{path}/bear")
    with pytest.raises(NotFound, match=r'toys.toys.example.com "bear" not found'):
        await aggregated.get(f"{path}/bear")


async def test_identity_is_forwarded_to_the_extension_server(
    plane: ControlPlane, aggregated: PathClient
) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/default/toys"
    await aggregated.create(path, {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    user = User("jane", ("system:masters", "people"), "1", {"example.com/floor": ("2",)})
    request = HTTPRequest(
        "GET",
        f"{path}/bear/whoami",
        user=user,
        headers={"X-Remote-User": "root", "Authorization": "Bearer secret"},
    )
    response = await plane.server.handle(request)
    body = response.body or b"".join([chunk async for chunk in response.stream or _nothing()])
    seen = json.loads(body)["user"]
    assert seen["username"] == "jane"
    assert set(seen["groups"]) >= {"system:masters", "people"}
    assert seen["extra"] == {"example.com/floor": ["2"]}


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def test_watches_are_proxied(plane: ControlPlane, aggregated: PathClient) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/default/toys"
    response = await plane.server.handle(HTTPRequest("GET", path, query="watch=1", user=SYSTEM))
    assert response.status == 200
    assert response.stream is not None
    await aggregated.create(path, {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    async with asyncio.timeout(60):
        chunk = await anext(response.stream)
    assert json.loads(chunk)["type"] == "ADDED"
    await response.stream.aclose()  # type: ignore[attr-defined]


async def test_websockets_are_proxied(plane: ControlPlane, aggregated: PathClient) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/default/toys"
    await aggregated.create(path, {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    context = ssl.create_default_context(cadata=plane.ca.decode())
    token = (
        await aggregated.create(
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
    )["status"]["token"]
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    await aggregated.create(
        rbac,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "all"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
        },
    )
    as_browsers_do = (
        "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(token.encode()).decode()
    )
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{plane.url}{path}/bear/echo", ssl=context, protocols=("echo", as_browsers_do.rstrip("="))
        ) as socket,
    ):
        assert socket.protocol == "echo"
        assert (await socket.receive()).data == "echo", "the token stays here"
        await socket.send_bytes(b"hello")
        async with asyncio.timeout(60):
            assert (await socket.receive()).data == b"hello"


async def test_discovery_and_openapi_are_merged(plane: ControlPlane, aggregated: PathClient) -> None:
    groups = {group["name"]: group for group in (await aggregated.get("/apis"))["groups"]}
    assert groups[GROUP]["preferredVersion"]["groupVersion"] == f"{GROUP}/v1"
    assert "apps" in groups
    assert (await aggregated.get(f"/apis/{GROUP}"))["name"] == GROUP
    resources = (await aggregated.get(f"/apis/{GROUP}/v1"))["resources"]
    assert "toys" in [resource["name"] for resource in resources]
    response = await plane.server.handle(
        HTTPRequest("GET", "/apis", headers={"Accept": AGGREGATED}, user=SYSTEM)
    )
    shown = {item["metadata"]["name"]: item for item in json.loads(response.body)["items"]}
    (version,) = shown[GROUP]["versions"]
    assert version["freshness"] == "Current"
    assert version["resources"][0]["resource"] == "toys"
    paths = (await aggregated.get("/openapi/v3"))["paths"]
    assert paths[f"apis/{GROUP}/v1"]["serverRelativeURL"].startswith(f"/openapi/v3/apis/{GROUP}/v1")
    document = await plane.server.handle(HTTPRequest("GET", f"/openapi/v3/apis/{GROUP}/v1", user=SYSTEM))
    assert document.status == 200


async def test_stopped_server_is_unavailable_and_stale(
    plane: ControlPlane, toy: HTTPServer, aggregated: PathClient
) -> None:
    await toy.stop(0.1)
    (controller,) = plane.aggregator.availability.controllers
    assert controller.queue is not None
    controller.queue.add(f"v1.{GROUP}")
    message = await until(aggregated, "FailedDiscoveryCheck")
    assert message.startswith("failing or missing response from https://")
    await plane.wait_until_idle()
    response = await plane.server.handle(HTTPRequest("GET", f"/apis/{GROUP}/v1/toys", user=SYSTEM))
    assert (response.status, response.body) == (503, b"service unavailable\n")
    response = await plane.server.handle(
        HTTPRequest("GET", "/apis", headers={"Accept": AGGREGATED}, user=SYSTEM)
    )
    shown = {item["metadata"]["name"]: item for item in json.loads(response.body)["items"]}
    assert shown[GROUP]["versions"][0]["freshness"] == "Stale"


async def test_certificates_are_verified(plane: ControlPlane, toy: HTTPServer, client: PathClient) -> None:
    plane.service_resolver.overrides["toy.default"] = toy.url
    await register(client, caBundle=base64.b64encode(plane.ca).decode())
    message = await until(client, "FailedDiscoveryCheck")
    assert "certificate" in message


@pytest.mark.parametrize(
    ("ports", "slices", "reason"),
    [
        (None, False, "ServiceNotFound"),
        ([{"port": 80}], False, "ServicePortError"),
        ([{"port": 443}], False, "EndpointsNotFound"),
        ([{"port": 443}], True, "MissingEndpoints"),
    ],
)
async def test_reasons_of_unavailability(
    plane: ControlPlane, client: PathClient, ports: Any, slices: bool, reason: str
) -> None:
    core = "/api/v1/namespaces/default"
    if ports is not None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "toy"},
            "spec": {"ports": ports},
        }
        await client.create(f"{core}/services", service)
    if slices:
        await client.create(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": "toy-1", "labels": {"kubernetes.io/service-name": "toy"}},
                "addressType": "IPv4",
                "endpoints": [],
                "ports": [],
            },
        )
    await register(client, insecureSkipTLSVerify=True)
    assert await until(client, reason)


async def test_local_services_match_the_served_versions(plane: ControlPlane, client: PathClient) -> None:
    apps = await client.get(f"{SERVICES}/v1.apps")
    assert apps["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert apps["spec"] == {
        "group": "apps",
        "version": "v1",
        "groupPriorityMinimum": 17800,
        "versionPriority": 15,
    }
    plane.server.add(
        Resource(group="things.example.com", kind="Thing", plural="things", versions=[Version(name="v1")])
    )
    await plane.wait_until_idle()
    made = await client.get(f"{SERVICES}/v1.things.example.com")
    assert made["status"]["conditions"][0]["reason"] == "Local"
    plane.server.remove("things.example.com", "things")
    await plane.wait_until_idle()
    with pytest.raises(NotFound):
        await client.get(f"{SERVICES}/v1.things.example.com")


async def test_authentication_config_map_for_extension_servers(
    plane: ControlPlane, client: PathClient
) -> None:
    found = await client.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
    data = found["data"]
    assert data["client-ca-file"] == plane.authentication.client_authorities.decode()
    assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]
    assert json.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]


class Caller:
    """An administrator on a raw connection to the control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def __call__(self, method: str, path: str, **headers: str) -> tuple[bytes, Any, Any]:
        """Send a request; return the head of the response and the connection."""
        assert self._plane.port is not None
        pair = self._plane.authority.issue("admin", groups=["system:masters"])
        context = ssl.create_default_context(cadata=self._plane.ca.decode())
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(pair.certificate + pair.key)
            file.flush()
            context.load_cert_chain(file.name)
        host, port = self._plane.url.removeprefix("https://").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "X-Remote-User: another-user"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(60):
            return await reader.readuntil(b"\r\n\r\n"), reader, writer


@pytest.fixture
async def bear(plane: ControlPlane, aggregated: PathClient) -> str:
    """The path of a toy."""
    path = f"/apis/{GROUP}/v1/namespaces/default/toys"
    await aggregated.create(path, {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    return f"{path}/bear"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_spdy_is_tunnelled_as_bytes(plane: ControlPlane, bear: str, method: str) -> None:
    head, reader, writer = await Caller(plane)(
        method,
        f"{bear}/shell?command=a%20b&stdin=true",
        Connection="Upgrade",
        Upgrade="SPDY/3.1",
        X_Stream_Protocol_Version="v4.channel.k8s.io",
    )
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    names = {line.split(b":")[0].lower(): line.split(b": ")[1] for line in head.split(b"\r\n")[1:-2]}
    assert (names[b"upgrade"], names[b"x-stream-protocol-version"]) == (b"SPDY/3.1", b"v4.channel.k8s.io")
    assert b"content-length" not in names
    async with asyncio.timeout(60):
        assert await reader.readline() == b"hello admin\n"
        long = b"GET / HTTP/1.1\r\n\r\n" * 200_000
        writer.write(long)
        assert await reader.readexactly(len(long)) == long.upper()
        writer.write(b"bye")
        assert await reader.read() == b"BYE"
    writer.close()


async def test_tunnel_ends_when_the_client_disconnects(plane: ControlPlane, bear: str) -> None:
    for _ in range(3):
        _, reader, writer = await Caller(plane)(
            "POST", f"{bear}/shell", Connection="Upgrade", Upgrade="SPDY/3.1"
        )
        assert await reader.readline() == b"hello admin\n"
        writer.transport.abort()
    async with asyncio.timeout(60):
        while any("_carry" in repr(task) or "handle_tunnel" in repr(task) for task in asyncio.all_tasks()):
            await asyncio.sleep(0)


async def test_denied_upgrade(plane: ControlPlane, bear: str) -> None:
    head, reader, writer = await Caller(plane)(
        "POST", f"{bear}/shell", Connection="Upgrade", Upgrade="SPDY/3.1", X_Deny="yes"
    )
    assert head.startswith(b"HTTP/1.1 403")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert json.loads(await reader.readexactly(length))["message"] == "not today"
    writer.write(f"GET {bear}/whoami HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"), "it is still HTTP"
    writer.close()


async def test_only_spdy_is_tunnelled(plane: ControlPlane, bear: str) -> None:
    head, _, writer = await Caller(plane)(
        "GET", f"{bear}/shell", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c"
    )
    assert head.startswith(b"HTTP/1.1 400")
    writer.close()


@asynccontextmanager
async def discovery_server(requests: list[tuple[str, str | None]]) -> AsyncIterator[str]:
    """Serve aggregated discovery v2beta1 at all paths of APIs, and nothing else; record path and `Accept`."""
    media = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    resource = {"resource": "toys", "scope": "Namespaced", "verbs": ["list"]}
    version = {"version": "v1", "resources": [resource], "freshness": "Current"}
    body = {"items": [{"metadata": {"name": GROUP}, "versions": [version]}]}

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        accept = request.headers.get("Accept")
        requests.append((request.path, accept))
        if not request.path.startswith("/apis"):
            return web.Response(status=404)
        if accept is not None and media not in accept:
            return web.Response(status=406)
        return web.Response(body=json.dumps(body).encode(), headers={"Content-Type": media})

    pair = CertificateAuthority.create("toy").issue("toy", hosts=("127.0.0.1",), server=True)
    server = web.Server(respond)
    listener = await asyncio.get_running_loop().create_server(
        server, "127.0.0.1", 0, ssl=server_context(pair)
    )
    try:
        yield f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await server.shutdown(0.1)


async def test_a_server_with_aggregated_discovery_alone(plane: ControlPlane, client: PathClient) -> None:
    """As kube-apiserver, the availability check accepts anything, and v2beta1 is enough."""
    requests: list[tuple[str, str | None]] = []
    async with discovery_server(requests) as url:
        plane.service_resolver.overrides["toy.default"] = url
        await register(client, insecureSkipTLSVerify=True)
        await until(client, "Passed")
        await plane.wait_until_idle()
        assert (f"/apis/{GROUP}/v1", None) in requests
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        found = await plane.server.handle(
            HTTPRequest("GET", "/apis", headers={"Accept": accept}, user=SYSTEM)
        )
        groups = {each["metadata"]["name"]: each for each in json.loads(found.body)["items"]}
        (version,) = groups[GROUP]["versions"]
        assert (version["freshness"], version["resources"][0]["resource"]) == ("Current", "toys")
        assert version["resources"][0]["responseKind"] == {"group": "", "version": "", "kind": ""}
        assert f"/apis/{GROUP}" in (await client.get("/"))["paths"]
        await client.delete(f"{SERVICES}/v1.{GROUP}")
        await plane.wait_until_idle()
        assert f"/apis/{GROUP}" not in (await client.get("/"))["paths"]
