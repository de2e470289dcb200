"""The deployment of a project: what the settings switch on is generated, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deployment_project import PROGRAM, ShopProject, make_project

Manifest = dict[str, Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    return make_project(tmp_path, monkeypatch)


def generate(project: ShopProject) -> dict[tuple[str, str], Manifest]:
    """Write the manifests and return the objects of `config/kustomization.yaml` by kind and name."""
    project.run("manifests")
    config = project.directory / "config"
    kustomization = yaml.safe_load((config / "kustomization.yaml").read_text())
    objects = [
        document
        for name in kustomization["resources"]
        for document in yaml.safe_load_all((config / name).read_text())
    ]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def files(project: ShopProject) -> list[str]:
    config = project.directory / "config"
    return sorted(str(path.relative_to(config)) for path in config.rglob("*") if path.is_file())


def test_files_are_few_and_short(project: ShopProject) -> None:
    objects = generate(project)
    assert files(project) == [
        "crd/kustomization.yaml",
        "crd/store.example.com_shops.yaml",
        "grafana/dashboard.json",
        "kustomization.yaml",
        "manager/manager.yaml",
        "prometheus/alerts.yaml",
        "rbac/role.yaml",
        "samples/store_v1_shop.yaml",
        "webhook/manifests.yaml",
    ]
    config = project.directory / "config"
    assert sum(len((config / name).read_text().splitlines()) for name in files(project)) <= 350
    assert sorted(objects) == [
        ("ClusterRole", "shop-manager-role"),
        ("ClusterRole", "shop-metrics-auth-role"),
        ("ClusterRole", "shop-metrics-reader"),
        ("ClusterRole", "shop-shop-admin-role"),
        ("ClusterRole", "shop-shop-editor-role"),
        ("ClusterRole", "shop-shop-viewer-role"),
        ("ClusterRoleBinding", "shop-manager-rolebinding"),
        ("ClusterRoleBinding", "shop-metrics-auth-rolebinding"),
        ("CustomResourceDefinition", "shops.store.example.com"),
        ("Deployment", "shop-controller-manager"),
        ("MutatingWebhookConfiguration", "shop-mutating-webhook-configuration"),
        ("Namespace", "shop-system"),
        ("Role", "shop-leader-election-role"),
        ("Role", "shop-manager-role"),
        ("RoleBinding", "shop-leader-election-rolebinding"),
        ("RoleBinding", "shop-manager-rolebinding"),
        ("Service", "shop-controller-manager-metrics-service"),
        ("Service", "shop-webhook-service"),
        ("ServiceAccount", "shop-controller-manager"),
        ("ValidatingWebhookConfiguration", "shop-validating-webhook-configuration"),
    ]


def test_pod_satisfies_the_restricted_standard_and_runs_the_operator(project: ShopProject) -> None:
    project.settings('image = "registry.example.com/shop:2"\nreplicas = 2\nenv = {SHOP_COLOR = "red"}')
    deployment = generate(project)["Deployment", "shop-controller-manager"]
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/shop:2"
    assert container["command"] == ["kubewright", "run", project.module]
    assert container["args"] == [
        *("--production", "--probe-port=8081", "--leader-elect", "--metrics-port=8443"),
    ]
    assert container["env"] == [{"name": "SHOP_COLOR", "value": "red"}]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"probes": 8081, "metrics": 8443, "webhooks": 9443}


def test_network_policies_and_services_match_the_ports_of_the_pod(project: ShopProject) -> None:
    project.settings("network-policy = true")
    objects = generate(project)
    pod = objects["Deployment", "shop-controller-manager"]["spec"]["template"]
    ports = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
    for policy, port in (("metrics", "metrics"), ("webhook", "webhooks")):
        spec = objects["NetworkPolicy", f"shop-allow-{policy}-traffic"]["spec"]
        assert spec["ingress"][0]["ports"] == [{"port": ports[port], "protocol": "TCP"}]
        assert spec["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
    for service in ("shop-webhook-service", "shop-controller-manager-metrics-service"):
        spec = objects["Service", service]["spec"]
        assert spec["selector"] == pod["metadata"]["labels"]
        assert spec["ports"][0]["targetPort"] in ports
    for kind in ("Mutating", "Validating"):
        configuration = objects[f"{kind}WebhookConfiguration", f"shop-{kind.lower()}-webhook-configuration"]
        service = configuration["webhooks"][0]["clientConfig"]["service"]
        assert (service["name"], service["namespace"]) == ("shop-webhook-service", "shop-system")


def test_everything_optional_can_be_switched_off(project: ShopProject) -> None:
    generate(project)
    project.settings("metrics = false\nwebhooks = false\nleader-election = false")
    result = project.run("manifests", "--check", exit_code=1)
    assert "webhook/manifests.yaml" in result.output
    result = project.run("manifests")
    assert "removed config/webhook/manifests.yaml" in result.output
    assert "removed config/grafana/dashboard.json" in result.output
    assert [name for name in files(project) if name.startswith(("webhook", "grafana"))] == []
    project.run("manifests", "--check")
    objects = generate(project)
    assert {kind for kind, _ in objects} == {
        *("Namespace", "CustomResourceDefinition", "ServiceAccount", "Deployment"),
        *("ClusterRole", "ClusterRoleBinding"),
    }
    (container,) = objects["Deployment", "shop-controller-manager"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--production", "--probe-port=8081"]
    assert container["env"] == [{"name": "KUBEWRIGHT_WEBHOOKS", "value": "false"}]
    resources = [rule["resources"] for rule in objects["ClusterRole", "shop-manager-role"]["rules"]]
    assert ["secrets"] not in resources


def test_cert_manager_issues_and_injects(project: ShopProject) -> None:
    project.settings('certificates = "cert-manager"\nmonitor = true')
    objects = generate(project)
    certificate = objects["Certificate", "shop-serving-cert"]["spec"]
    assert certificate["dnsNames"][0] == "shop-webhook-service.shop-system.svc"
    assert certificate["issuerRef"]["name"] == "shop-selfsigned-issuer"
    assert objects["Issuer", "shop-selfsigned-issuer"]["spec"] == {"selfSigned": {}}
    configuration = objects["MutatingWebhookConfiguration", "shop-mutating-webhook-configuration"]
    annotation = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert annotation == "shop-system/shop-serving-cert"
    pod = objects["Deployment", "shop-controller-manager"]["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each.get("secret", {}).get("secretName") for each in pod["volumes"]}
    assert f"--webhook-certificates={mounts['webhook-certificates']}" in pod["containers"][0]["args"]
    assert volumes["webhook-certificates"] == certificate["secretName"]
    assert volumes["metrics-certificates"] == "metrics-server-cert"
    monitor = objects["ServiceMonitor", "shop-controller-manager-metrics-monitor"]
    assert monitor["spec"]["endpoints"][0]["tlsConfig"]["ca"]["secret"]["name"] == "metrics-server-cert"
    # The operator does not issue certificates, so that it needs no access to Secrets.
    assert ("Role", "shop-manager-role") not in objects


def test_namespaced_operators_get_roles(project: ShopProject) -> None:
    project.settings(project="namespaced = true")
    objects = generate(project)
    role = objects["Role", "shop-manager-role"]
    assert role["metadata"]["namespace"] == "shop-system"
    resources = [each for rule in role["rules"] for each in rule["resources"]]
    assert {"shops", "shops/status", "configmaps", "events", "secrets"} <= set(resources)
    cluster_wide = objects["ClusterRole", "shop-manager-role"]["rules"]
    assert {each for rule in cluster_wide for each in rule["resources"]} == {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    }
    (container,) = objects["Deployment", "shop-controller-manager"]["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["name"] == "KUBEWRIGHT_NAMESPACES"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    configuration = objects["MutatingWebhookConfiguration", "shop-mutating-webhook-configuration"]
    selector = configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]
    assert selector["values"] == ["shop-system"]


@pytest.mark.parametrize("namespaced", ["true", "false"])
def test_the_operator_can_have_another_name_than_the_project(project: ShopProject, namespaced: str) -> None:
    project.program(PROGRAM.replace('Operator("shop")', 'Operator("boutique")'))
    project.settings(project=f"namespaced = {namespaced}")
    objects = generate(project)
    # The operator looks for these names.
    assert ("Service", "boutique-webhook-service") in objects
    configuration = objects["MutatingWebhookConfiguration", "boutique-mutating-webhook-configuration"]
    service = configuration["webhooks"][0]["clientConfig"]["service"]
    assert (service["name"], service["namespace"]) == ("boutique-webhook-service", "shop-system")
    rules = objects["Role", "shop-manager-role"]["rules"]
    assert ["boutique-webhook-certificates"] in [rule.get("resourceNames") for rule in rules]
    (subject,) = objects["RoleBinding", "shop-manager-rolebinding"]["subjects"]
    assert subject["name"] == "shop-controller-manager"


def test_conversion_calls_the_service_of_the_deployment(project: ShopProject) -> None:
    program = PROGRAM.replace("Status, resource", "Status, WebhookConversion, resource").replace(
        'version="v1")', 'version="v1", conversion=WebhookConversion())'
    )
    project.program(program)
    definition = generate(project)["CustomResourceDefinition", "shops.store.example.com"]
    service = definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert service == {"name": "shop-webhook-service", "namespace": "shop-system", "path": "/convert"}
    project.settings("webhooks = false")
    result = project.run("manifests")
    assert "Warning: shops.store.example.com: versions are served without conversion" in result.output


def test_sample_is_written_once(project: ShopProject) -> None:
    generate(project)
    path = project.directory / "config/samples/store_v1_shop.yaml"
    written = yaml.safe_load(path.read_text())
    assert written["spec"] == {"replicas": 1}
    path.write_text("# mine\n")
    project.run("manifests")
    project.run("manifests", "--check")
    assert path.read_text() == "# mine\n"


def test_objects_are_printed_as_one_stream(project: ShopProject) -> None:
    printed = list(yaml.safe_load_all(project.run("manifests", "-o", "-").stdout))
    project.run("build-installer")
    assert printed == list(yaml.safe_load_all((project.directory / "dist/install.yaml").read_text()))


def test_dashboard_is_valid(project: ShopProject) -> None:
    generate(project)
    dashboard = json.loads((project.directory / "config/grafana/dashboard.json").read_text())
    assert len(dashboard["panels"]) == 16
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in dashboard["panels"]]
    assert len(set(places)) == 16
    assert all(
        'job="shop-controller-manager-metrics-service"' in each["targets"][0]["expr"]
        for each in dashboard["panels"]
    )


def test_a_deployment_needs_one_operator(project: ShopProject) -> None:
    project.program(PROGRAM.split("operator = ", 1)[0])
    result = project.run("manifests", exit_code=1)
    assert "the deployment needs an operator" in result.output


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_the_same_objects_with_another_image(project: ShopProject) -> None:
    objects = generate(project)
    overlay = project.directory / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(
        "resources: [../config]\nimages: [{name: shop, newName: registry.example.com/shop, newTag: '3'}]\n"
    )
    built = subprocess.run(
        ["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=True
    ).stdout
    documents = list(yaml.safe_load_all(built))
    assert {(each["kind"], each["metadata"]["name"]) for each in documents} == set(objects)
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/shop:3"
