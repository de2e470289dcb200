"""Which server wins when two define the same group version, and the order of groups."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from kubewright.apiserver import SYSTEM, HTTPRequest
from kubewright.apiserver.discovery import AGGREGATED
from kubewright.controlplane import ControlPlane
from kubewright.tls.certificates import CertificateAuthority, server_context

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(group: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"widgets.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def api_service(group: str, priority: int) -> dict[str, Any]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": priority,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "none"},
        },
    }


async def test_precedence() -> None:
    async with ControlPlane(port=None, controllers=False) as plane:

        async def send(method: str, path: str, body: Any = None, accept: str = "application/json") -> Any:
            data = msgspec.json.encode(body) if body is not None else b""
            request = HTTPRequest(method, path, body=data, headers={"Accept": accept}, user=SYSTEM)
            response = await plane.server.handle(request)
            body = response.body
            return response.status, msgspec.json.decode(body) if body[:1] == b"{" else body

        for group in ("networking.k8s.io", "both.example.com"):
            assert (await send("POST", CRDS, crd(group)))[0] == 201
        for service in (api_service("both.example.com", 100), api_service("first.example.com", 20000)):
            status, created = await send("POST", "/apis/apiregistration.k8s.io/v1/apiservices", service)
            assert status == 201, created
        await plane.wait_until_idle()
        _, document = await send("GET", "/apis", accept=AGGREGATED)
        names = [item["metadata"]["name"] for item in document["items"]]
        assert names[:2] == ["apiregistration.k8s.io", "first.example.com"]
        groups = {item["metadata"]["name"]: item for item in document["items"]}
        # A built-in group version hides custom resources.
        assert "widgets" not in [
            each["resource"] for each in groups["networking.k8s.io"]["versions"][0]["resources"]
        ]
        assert (await send("GET", "/apis/networking.k8s.io/v1/namespaces/default/widgets"))[0] == 404
        # An APIService with a service replaces a custom group version.
        assert groups["both.example.com"]["versions"] == [{"version": "v1", "freshness": "Stale"}]
        # So does its OpenAPI document.
        for path in ("/openapi/v3/apis/networking.k8s.io/v1", "/openapi/v2"):
            _, document = await send("GET", path)
            served = [each for each in document["paths"] if "/networking.k8s.io/v1/" in each]
            assert any("ingresses" in each for each in served)
            assert not any("widgets" in each for each in served)


async def test_resource_without_a_response_kind() -> None:
    """A server that omits responseKind in aggregated discovery is shown with an empty one."""
    entry = {
        "version": "v1",
        "freshness": "Current",
        "resources": [
            {"resource": "toys", "scope": "Namespaced", "singularResource": "toy", "verbs": ["get"]}
        ],
    }
    listed = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{"metadata": {"name": "toys.example.com"}, "versions": [entry]}],
    }

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/apis":
            return web.Response(body=msgspec.json.encode(listed), headers={"Content-Type": AGGREGATED})
        return web.json_response({"kind": "APIResourceList", "resources": []})

    authority = CertificateAuthority.create()
    pair = authority.issue("toys", hosts=("127.0.0.1",), server=True)
    app = web.Application()
    app.router.add_route("GET", "/{tail:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(pair)).start()
    try:
        url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        async with ControlPlane(port=None, webhook_resolve={"none.default": url}) as plane:

            async def send(method: str, path: str, body: Any = None, **headers: str) -> Any:
                data = msgspec.json.encode(body) if body is not None else b""
                request = HTTPRequest(method, path, body=data, headers=headers, user=SYSTEM)
                return msgspec.json.decode((await plane.server.handle(request)).body)

            services = "/apis/apiregistration.k8s.io/v1/apiservices"
            await send("POST", services, api_service("toys.example.com", 1000))
            async with asyncio.timeout(60):
                while True:
                    document = await send("GET", "/apis", Accept=AGGREGATED)
                    groups = {item["metadata"]["name"]: item for item in document["items"]}
                    version = groups.get("toys.example.com", {"versions": [{}]})["versions"][0]
                    if version.get("freshness") == "Current":
                        break
                    await asyncio.sleep(0.01)
            assert version["resources"][0]["responseKind"] == {"group": "", "version": "", "kind": ""}
    finally:
        await runner.cleanup()
