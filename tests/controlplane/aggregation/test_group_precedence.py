"""Which server wins when two define the same group version, and the order of groups."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.apiserver import SYSTEM, HTTPRequest
from kubewright.apiserver.discovery import AGGREGATED
from kubewright.controlplane import ControlPlane

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
