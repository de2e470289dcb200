"""`install`, `deploy`, `undeploy`, `uninstall` and `build-installer` on a control plane over TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from tests.deployment_project import ShopProject, make_project

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Namespace, Pod, ServiceAccount
from kubewright.client import Client, merge_patch
from kubewright.testing.server import TestServer, start_test_server

CRD_LINE = "customresourcedefinition.apiextensions.k8s.io/shops.store.example.com"


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("tls", None, controllers=False) as made:
        yield made


@pytest.fixture
def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: TestServer) -> ShopProject:
    monkeypatch.setenv("KUBECONFIG", str(server.plane.kubeconfig))
    project = make_project(tmp_path, monkeypatch)
    project.settings("webhooks = false")
    return project


async def run(project: ShopProject, *arguments: str, exit_code: int = 0) -> Result:
    return await asyncio.to_thread(project.run, *arguments, exit_code=exit_code)


async def create_shop(client: Client, namespace: str = "default") -> None:
    metadata = {"name": "corner", "namespace": namespace}
    shop = {"apiVersion": "store.example.com/v1", "kind": "Shop", "metadata": metadata, "spec": {}}
    await client.create(Unstructured(shop))


async def test_deploy_prunes_what_is_switched_off(project: ShopProject, client: Client) -> None:
    result = await run(project, "deploy", "--no-wait", "--image", "shop:1")
    lines = result.stdout.splitlines()
    assert lines[0] == "namespace/shop-system created"
    assert lines[1] == f"{CRD_LINE} created"
    assert lines[-1] == "deployment.apps/shop-controller-manager created"
    assert "kubectl apply -f config/samples" in result.stderr
    deployed = await client.get(Deployment, "shop-controller-manager", namespace="shop-system")
    assert deployed.spec.template.spec.containers[0].image == "shop:1"
    again = await run(project, "deploy", "--no-wait", "--image", "shop:1")
    assert {line.rpartition(" ")[2] for line in again.stdout.splitlines()} == {"unchanged"}

    project.settings("webhooks = false\nmetrics = false")
    shown = await run(project, "deploy", "--dry-run")
    assert "--- Deployment.apps/shop-system/shop-controller-manager (cluster)" in shown.stdout
    assert "-        image: shop:1\n+        image: shop:latest\n" in shown.stdout
    assert "# ClusterRole.rbac.authorization.k8s.io/shop-metrics-reader would be deleted" in shown.stdout
    found = await client.get(Deployment, "shop-controller-manager", namespace="shop-system")
    assert found.spec.template.spec.containers[0].image == "shop:1"

    pruned = json.loads((await run(project, "deploy", "--no-wait", "-o", "json")).stdout)
    deleted = sorted(each["name"] for each in pruned["changes"] if each["action"] == "deleted")
    assert deleted == [
        "shop-controller-manager-metrics-service",
        "shop-metrics-auth-role",
        "shop-metrics-auth-rolebinding",
        "shop-metrics-reader",
    ]
    assert pruned["ready"] is None
    assert await client.get_or_none("clusterroles", "shop-metrics-reader") is None


async def test_deploy_waits_until_the_manager_is_ready(project: ShopProject, client: Client) -> None:
    await run(project, "deploy", "--no-wait")
    deployed = await client.get("deployments.apps", "shop-controller-manager", namespace="shop-system")
    template = deployed["spec"]["template"]
    metadata = {**template["metadata"], "name": "shop-controller-manager-a", "namespace": "shop-system"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    await client.create(Unstructured(pod))
    failed = await run(project, "deploy", "--timeout", "0.5", exit_code=1)
    assert "pod/shop-controller-manager-a: InProgress: phase Pending" in failed.stderr
    assert "deployment.apps/shop-controller-manager: InProgress: the Deployment has not been" in failed.stderr
    assert (
        "Error: not ready after 0.5 s: deployment.apps/shop-controller-manager: InProgress" in failed.stderr
    )
    ready = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
    ready |= {"availableReplicas": 1, "readyReplicas": 1}
    await client.patch(
        Deployment,
        "shop-controller-manager",
        merge_patch({"status": ready}),
        namespace="shop-system",
        subresource="status",
    )
    result = await run(project, "deploy", "--timeout", "120")
    assert "unchanged; ready after" in result.stderr


async def test_deploy_rolls_out_on_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, monkeypatch)
    project.settings("webhooks = false\nreplicas = 2")
    async with start_test_server("tls", None, nodes=1) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.plane.kubeconfig))
        result = await run(project, "deploy", "--timeout", "120")
        assert "deployment.apps/shop-controller-manager: Current\n" in result.stderr
        assert "; ready after " in result.stderr
        result = await run(project, "deploy", "--timeout", "120", "--image", "shop:2")
        assert "1 configured, 14 unchanged; ready after " in result.stderr
        pods = await server.client().list(Pod, namespace="shop-system")
        assert [each.spec.containers[0].image for each in pods if not each.metadata.deletion_timestamp] == [
            "shop:2",
            "shop:2",
        ]


async def test_undeploy_keeps_definitions_with_objects(project: ShopProject, client: Client) -> None:
    await run(project, "deploy", "--no-wait")
    await create_shop(client)
    result = await run(project, "undeploy", "--yes")
    assert f"{CRD_LINE} kept (1 object of this kind exist)" in result.stdout.splitlines()
    assert "Warning: kept shops.store.example.com; without the operator" in result.stderr
    assert await client.get_or_none(Deployment, "shop-controller-manager", namespace="shop-system") is None
    assert await client.get("shops.store.example.com", "corner", namespace="default")
    rejected = await run(project, "uninstall", exit_code=1)
    assert "Error: objects of shops.store.example.com exist; delete them, or run" in rejected.stderr
    result = await run(project, "uninstall", "--delete-objects")
    assert result.stdout.splitlines() == [f"{CRD_LINE} deleted"]
    assert await client.get_or_none("customresourcedefinitions", "shops.store.example.com") is None


async def test_undeploy_keeps_the_namespace_of_objects(project: ShopProject, client: Client) -> None:
    await run(project, "deploy", "--no-wait")
    await create_shop(client, "shop-system")
    result = await run(project, "undeploy", "--yes")
    assert "namespace/shop-system kept (1 object of the project exist in it)" in result.stdout
    assert (await client.get(Namespace, "shop-system")).metadata.deletion_timestamp is None
    nothing_left = await run(project, "undeploy", "--yes", "--delete-objects")
    assert "namespace/shop-system deleted" in nothing_left.stdout
    empty = await run(project, "undeploy", "--yes")
    assert "Warning: nothing to delete" in empty.stderr


async def test_undeploy_deletes_nothing_that_existed_before(project: ShopProject, client: Client) -> None:
    """The namespace, its content, and an object with the name of a generated one are of another user."""
    metadata = ObjectMeta(name="shop-system", labels={"team": "store"})
    await client.create(Namespace(metadata=metadata))
    await client.create(ConfigMap(metadata=ObjectMeta(name="theirs", namespace="shop-system")))
    await client.create(
        ServiceAccount(metadata=ObjectMeta(name="shop-controller-manager", namespace="shop-system"))
    )
    for _ in range(2):
        await run(project, "deploy", "--no-wait")
    unconfirmed = await run(project, "undeploy", exit_code=1)
    assert "deployment.apps/shop-controller-manager in shop-system will be deleted" in unconfirmed.stderr
    assert "Error: nothing was deleted; confirm the list above with --yes" in unconfirmed.stderr
    assert await client.get(Deployment, "shop-controller-manager", namespace="shop-system")
    lines = (await run(project, "undeploy", "--yes")).stdout.splitlines()
    assert "namespace/shop-system released (existed before it was applied)" in lines
    assert "serviceaccount/shop-controller-manager released (existed before it was applied)" in lines
    assert "deployment.apps/shop-controller-manager deleted" in lines
    found = await client.get(Namespace, "shop-system")
    assert found.metadata.deletion_timestamp is None
    assert found.metadata.labels["team"] == "store"
    assert not [name for name in found.metadata.labels if name.startswith("applyset")]
    assert await client.get(ConfigMap, "theirs", namespace="shop-system")
    assert await client.get(ServiceAccount, "shop-controller-manager", namespace="shop-system")
    assert await client.get_or_none(Deployment, "shop-controller-manager", namespace="shop-system") is None
    assert "Warning: nothing to delete" in (await run(project, "undeploy", "--yes")).stderr


async def test_install_applies_only_definitions(project: ShopProject, client: Client) -> None:
    result = await run(project, "install")
    assert result.stdout.splitlines() == ["namespace/shop-system created", f"{CRD_LINE} created"]
    assert (await client.get(ConfigMap, "shop-inventory", namespace="shop-system")).metadata.labels
    await run(project, "deploy", "--no-wait")
    # Installing again changes nothing of the deployment.
    await run(project, "install")
    assert await client.get(Deployment, "shop-controller-manager", namespace="shop-system")
    result = await run(project, "uninstall")
    assert result.stdout.splitlines() == [f"{CRD_LINE} deleted"]
    assert await client.get(Deployment, "shop-controller-manager", namespace="shop-system")


async def test_definitions_of_a_development_run_are_taken_over(project: ShopProject, client: Client) -> None:
    project.run("manifests")
    definition: dict[str, Any] = yaml.safe_load(
        (project.directory / "config/crd/store.example.com_shops.yaml").read_text()
    )
    definition["spec"]["names"]["shortNames"] = ["sh"]
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "An older description."
    await client.apply(Unstructured(definition), field_manager="shop")
    result = await run(project, "install")
    assert f"{CRD_LINE} configured" in result.stdout.splitlines()


async def test_a_missing_kind_is_reported_before_anything_is_applied(
    project: ShopProject, client: Client
) -> None:
    project.settings('certificates = "cert-manager"')
    result = await run(project, "deploy", exit_code=1)
    assert result.stderr.endswith(
        "Error: the cluster does not serve Certificate.cert-manager.io; install cert-manager, or set "
        'certificates = "self-signed"\n'
    )
    assert await client.get_or_none(Namespace, "shop-system") is None


def test_a_project_without_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, monkeypatch)
    (tmp_path / "pyproject.toml").write_text(f'[tool.kubewright]\nmodules = ["{project.module}"]\n')
    result = project.run("deploy", exit_code=1)
    assert result.stderr.startswith(
        "Error: pyproject.toml has no deployment; add the table [tool.kubewright.dep"
    )
