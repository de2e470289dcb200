"""Resource claims from templates, ServiceCIDRs, and unused tokens of service accounts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Pod, Secret
from kubewright.api.networking.v1 import ServiceCIDR
from kubewright.api.resources.v1 import ResourceClaim
from kubewright.client import patches
from kubewright.workloads.controllers.legacy_tokens import LegacyTokenCleaner

CLAIMS = "resourceclaim-controller"


def template(name: str = "gpu") -> dict[str, Any]:
    request = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request]}}},
    }


async def test_resource_claims(run: Any, pod: Any) -> None:
    async with run(CLAIMS) as cluster:
        client = cluster.client
        await client.create(template("other"))
        listed = [{"name": "card", "resourceClaimTemplateName": "gpu"}]
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "card"}]}}
        made = pod("train", node="", resourceClaims=listed, containers=[container])
        del made["spec"]["nodeName"]
        await client.create(made)
        await asyncio.sleep(1)
        text = 'resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found'
        assert ("FailedResourceClaimCreation", f"PodResourceClaim card: {text}") in await cluster.events()
        await client.create(template())

        async def created() -> Any:
            return list(await client.list(ResourceClaim, namespace="default"))

        (claim,) = await cluster.eventually(created)
        assert claim.name.startswith("train-card-")
        assert claim.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "card"}
        assert claim.metadata.labels == {"a": "b"}

        async def status() -> Any:
            found = await client.get(Pod, "train", namespace="default")
            return found.status.resource_claim_statuses

        (listed_status,) = await cluster.eventually(status)
        assert (listed_status.name, listed_status.resource_claim_name) == ("card", claim.name)
        await cluster.set_pod("train", phase="Succeeded")

        async def deleted() -> Any:
            return not list(await client.list(ResourceClaim, namespace="default"))

        await cluster.eventually(deleted)


async def test_service_cidr(run: Any) -> None:
    async with run("service-cidr-controller") as cluster:
        client = cluster.client
        await client.create(
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "ServiceCIDR",
                "metadata": {"name": "extra"},
                "spec": {"cidrs": ["10.99.0.0/24"]},
            }
        )

        async def ready() -> Any:
            return get_condition((await client.get(ServiceCIDR, "extra")).status, "Ready")

        condition = await cluster.eventually(ready)
        assert condition.message == "Kubernetes Service CIDR is ready"
        found = await client.get(ServiceCIDR, "extra")
        assert found.metadata.finalizers == ["networking.k8s.io/service-cidr-finalizer"]
        address = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IPAddress",
            "metadata": {
                "name": "10.99.0.7",
                "labels": {
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                    "ipaddress.kubernetes.io/ip-family": "IPv4",
                },
            },
            "spec": {"parentRef": {"resource": "services", "name": "x", "namespace": "default"}},
        }
        await client.create(address)
        await client.delete(ServiceCIDR, "extra")
        await asyncio.sleep(30)
        condition = await ready()
        assert (condition.status, condition.reason) == ("False", "Terminating")
        await client.delete("ipaddresses", "10.99.0.7")

        async def deleted() -> Any:
            return await client.get_or_none(ServiceCIDR, "extra") is None

        await cluster.eventually(deleted)


async def test_legacy_tokens(run: Any) -> None:
    async with run("resourceclaim-controller") as cluster:
        client, workloads = cluster.client, cluster.workloads
        account = await client.create(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "old", "namespace": "default"},
                "secrets": [{"name": "old-token"}],
            }
        )
        for name in ("old-token", "manual"):
            await client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "kubernetes.io/service-account-token",
                    "metadata": {
                        "name": name,
                        "namespace": "default",
                        "annotations": {
                            "kubernetes.io/service-account.name": "old",
                            "kubernetes.io/service-account.uid": account["metadata"]["uid"],
                        },
                    },
                }
            )
        tracking = "kube-apiserver-legacy-service-account-token-tracking"
        start = datetime.now(UTC)
        await client.patch(
            "configmaps",
            tracking,
            patches.merge_patch({"data": {"since": f"{start - timedelta(days=800):%Y-%m-%d}"}}),
            namespace="kube-system",
        )
        await client.create(template())
        await workloads.wait_until_started("resourceclaim-controller")
        component = workloads.components[0]
        manager = workloads.component_manager(component)
        cleaner = LegacyTokenCleaner(manager)
        await cleaner.clean()
        assert len(await client.list(Secret, namespace="default")) == 2, "too new"
        manager.now = lambda: start + timedelta(days=400)
        await cleaner.clean()
        found = await client.get(Secret, "old-token", namespace="default")
        assert "kubernetes.io/legacy-token-invalid-since" in found.metadata.labels
        manager.now = lambda: start + timedelta(days=800)
        await cleaner.clean()
        assert [secret.name for secret in await client.list(Secret, namespace="default")] == ["manual"]
