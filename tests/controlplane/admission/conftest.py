"""A control plane in process, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver import HTTPRequest, User
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

Object = dict[str, Any]
POLICIES = "/apis/admissionregistration.k8s.io/v1"


class Cluster:
    """A control plane and a client, with short methods for tests."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.client = PathClient(plane.server, SYSTEM, user_agent="test")
        self.core = "/api/v1/namespaces/ns"

    async def policy(self, kind: str, name: str, spec: Object, binding: Object | None = None) -> None:
        """Create a policy and, unless `binding` is None, its binding."""
        plural = {"Validating": "validatingadmissionpolicies", "Mutating": "mutatingadmissionpolicies"}[kind]
        metadata = {"name": name}
        version = "admissionregistration.k8s.io/v1"
        await self.client.create(
            f"{POLICIES}/{plural}",
            {"apiVersion": version, "kind": f"{kind}AdmissionPolicy", "metadata": metadata, "spec": spec},
        )
        if binding is not None:
            await self.client.create(
                f"{POLICIES}/{plural.replace('policies', 'policybindings')}",
                {
                    "apiVersion": version,
                    "kind": f"{kind}AdmissionPolicyBinding",
                    "metadata": metadata,
                    "spec": {"policyName": name, **binding},
                },
            )

    async def config_map(self, name: str, data: Object | None = None, **metadata: Any) -> Object:
        """Create a config map."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
        if data is not None:
            body["data"] = data
        return await self.client.create(f"{self.core}/configmaps", body)

    async def pod(
        self, name: str, *, spec: Object | None = None, namespace: str = "ns", **metadata: Any
    ) -> Object:
        """Create a pod with one container."""
        base = {"containers": [{"name": "c", "image": "i"}]}
        return await self.client.create(
            f"/api/v1/namespaces/{namespace}/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, **metadata},
                "spec": {**base, **(spec or {})},
            },
        )

    async def make(self, path: str, kind: str, name: str, **rest: Any) -> Object:
        """Create an object."""
        group = path.split("/apis/")[1].split("/")[0:2] if path.startswith("/apis/") else ["v1"]
        body = {"apiVersion": "/".join(group), "kind": kind, "metadata": {"name": name}, **rest}
        return await self.client.create(path, body)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        user: User = SYSTEM,
        media: str = "application/json",
    ) -> Any:
        """A raw response, for its headers."""
        headers = {"Content-Type": media, "User-Agent": "test"}
        return await self.plane.server.handle(
            HTTPRequest(method, path, headers=headers, body=body, user=user)
        )


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with ControlPlane(port=None) as plane:
        made = Cluster(plane)
        await made.client.create(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": {"team": "a"}}},
        )
        await plane.wait_until_idle()
        yield made
