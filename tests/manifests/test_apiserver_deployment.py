"""The deployment of an extension API server, and that its permissions are sufficient."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deployment_project import PROGRAM, ShopProject, make_project

from kubewright import ObjectMeta
from kubewright.api.apiregistration.v1 import APIService
from kubewright.api.core.v1 import Namespace
from kubewright.api.errors import Forbidden
from kubewright.client import condition
from kubewright.testing import TestServer, run_app

Manifest = dict[str, Any]

KITCHEN = """
from kubewright import APIServerApp, CustomResource, Denied, Operator, Spec, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.extension import ObjectReader


class DishSpec(Spec):
    size: int = 1


@resource(group="kitchen.example.com", version="v1")
class Dish(CustomResource[DishSpec, None]):
    pass


operator = Operator("kitchen")
app = APIServerApp("kitchen")
app.add(Dish)


@app.admit(Dish, reads=(ConfigMap,))
async def check_hours(dish: Dish, objects: ObjectReader) -> None:
    if await objects.exists(ConfigMap, "closed", namespace=dish.metadata.namespace):
        raise Denied("the kitchen is closed")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    return make_project(tmp_path, monkeypatch, KITCHEN)


def generate(project: ShopProject) -> dict[tuple[str, str], Manifest]:
    """Write the manifests and return the objects by kind and name."""
    project.run("manifests")
    config = project.directory / "config"
    names = yaml.safe_load((config / "kustomization.yaml").read_text())["resources"]
    objects = [each for name in names for each in yaml.safe_load_all((config / name).read_text())]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_objects(project: ShopProject) -> None:
    objects = generate(project)
    assert sorted(objects) == [
        ("APIService", "v1.kitchen.example.com"),
        ("ClusterRole", "shop-apiserver-role"),
        ("ClusterRole", "shop-dish-admin-role"),
        ("ClusterRole", "shop-dish-editor-role"),
        ("ClusterRole", "shop-dish-viewer-role"),
        ("ClusterRoleBinding", "shop-apiserver-auth-delegator"),
        ("ClusterRoleBinding", "shop-apiserver-rolebinding"),
        ("Deployment", "shop-apiserver"),
        ("Namespace", "shop-system"),
        ("Role", "shop-apiserver-role"),
        ("RoleBinding", "shop-apiserver-auth-reader"),
        ("RoleBinding", "shop-apiserver-rolebinding"),
        ("Service", "kitchen"),
        ("ServiceAccount", "shop-apiserver"),
    ]
    reader = objects["RoleBinding", "shop-apiserver-auth-reader"]
    assert reader["metadata"]["namespace"] == "kube-system"
    assert reader["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    assert objects["ClusterRoleBinding", "shop-apiserver-auth-delegator"]["roleRef"]["name"] == (
        "system:auth-delegator"
    )
    container = objects["Deployment", "shop-apiserver"]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["kubewright", "run", f"{project.module}:app"]
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "https", "scheme": "HTTPS"}
    assert (project.directory / "config/samples/kitchen_v1_dish.yaml").exists()


def test_storage_in_a_file_gets_a_volume_and_memory_a_warning(project: ShopProject) -> None:
    assert "stores objects in memory" in project.run("manifests").output
    project.settings('replicas = 3\nenv = {KUBEWRIGHT_STORAGE = "sqlite:/data/kitchen.db"}')
    spec = generate(project)["Deployment", "shop-apiserver"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert {"name": "data", "mountPath": "/data"} in spec["template"]["spec"]["containers"][0]["volumeMounts"]
    assert ("PersistentVolumeClaim", "shop-apiserver-data") in generate(project)
    for storage in ("etcd://etcd:2379", "postgresql://db/shop"):
        project.settings(f'replicas = 3\nenv = {{KUBEWRIGHT_STORAGE = "{storage}"}}')
        assert generate(project)["Deployment", "shop-apiserver"]["spec"]["replicas"] == 3


def test_cert_manager(project: ShopProject) -> None:
    project.settings('certificates = "cert-manager"\nnetwork-policy = true\nmonitor = true')
    objects = generate(project)
    annotations = objects["APIService", "v1.kitchen.example.com"]["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "shop-system/shop-apiserver-serving-cert"}
    certificate = objects["Certificate", "shop-apiserver-serving-cert"]["spec"]
    assert certificate["dnsNames"][0] == "kitchen.shop-system.svc"
    pod = objects["Deployment", "shop-apiserver"]["spec"]["template"]["spec"]
    assert {"name": "certificates", "secret": {"secretName": "shop-apiserver-cert"}} in pod["volumes"]
    assert ("Role", "shop-apiserver-role") not in objects  # no Secret is written
    assert ("NetworkPolicy", "shop-allow-apiserver-traffic") in objects
    assert ("ServiceMonitor", "shop-apiserver-metrics-monitor") in objects


def test_operator_and_api_server_in_one_project(project: ShopProject) -> None:
    program = PROGRAM + KITCHEN.replace('operator = Operator("kitchen")', "")
    project.program(program.replace("from kubewright import", "from kubewright import", 1))
    objects = generate(project)
    assert ("Deployment", "shop-controller-manager") in objects
    assert ("Deployment", "shop-apiserver") in objects
    assert ("CustomResourceDefinition", "shops.store.example.com") in objects
    assert not [name for kind, name in objects if kind == "CustomResourceDefinition" and "dish" in name]
    assert "Error: Helm charts with an API server" in project.run("helm", exit_code=1).output
    project.run("docs", "--output", "api.md")
    reference = (project.directory / "api.md").read_text()
    assert "Dish" in reference
    assert "Shop" in reference


@pytest.mark.control_plane(controllers=False)
async def test_permissions_are_sufficient(
    project: ShopProject, control_plane: TestServer, reserved_port: int
) -> None:
    client, port = control_plane.client(), reserved_port
    objects = generate(project)
    await client.create(Namespace(metadata=ObjectMeta(name="shop-system")))
    for (kind, _), each in objects.items():
        if kind not in ("Namespace", "Deployment"):
            await client.apply_yaml(yaml.safe_dump(each))
    control_plane.plane.service_resolver.overrides["kitchen.shop-system"] = f"https://127.0.0.1:{port}"
    module = importlib.import_module(project.module)
    account = client.with_impersonation("system:serviceaccount:shop-system:shop-apiserver")
    async with run_app(
        module.app, account, development=False, namespace="shop-system", host="127.0.0.1", port=port
    ):
        await client.wait(APIService, "v1.kitchen.example.com", until=condition("Available"), timeout=60)
        metadata = ObjectMeta(name="soup", namespace="default")
        await client.create(module.Dish(metadata=metadata, spec=module.DishSpec()))
        with pytest.raises(Forbidden):
            await account.list(module.Dish)
