"""`kubewright bundle`: the ClusterServiceVersion contains what the deployment has, and clusters accept it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deployment_project import PROGRAM, ShopProject, make_project

from kubewright.api import Unstructured
from kubewright.api.core.v1 import Namespace
from kubewright.api.meta import ObjectMeta
from kubewright.manifests.bundle.overrides import override
from kubewright.testing.server import start_test_server

Manifest = dict[str, Any]
CONVERTED = PROGRAM.replace("Status, resource", "Status, WebhookConversion, resource").replace(
    'version="v1")', 'version="v1", conversion=WebhookConversion())'
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    project = make_project(tmp_path, monkeypatch)
    project.program(CONVERTED)
    return project


def bundle(project: ShopProject, *options: str) -> tuple[Manifest, list[Manifest]]:
    """Write a bundle, and return its ClusterServiceVersion and the other objects."""
    project.run("bundle", "--version", "1.2.3", *options)
    folder = project.directory / "bundle/manifests"
    objects = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    (csv,) = [each for each in objects if each["kind"] == "ClusterServiceVersion"]
    return csv, [each for each in objects if each is not csv]


def installed(csv: Manifest, namespace: str) -> list[Manifest]:
    """Return the objects that OLM creates for a ClusterServiceVersion."""
    group = "rbac.authorization.k8s.io"
    spec = csv["spec"]["install"]["spec"]
    objects: list[Manifest] = []
    for field, kind in (("permissions", "Role"), ("clusterPermissions", "ClusterRole")):
        for each in spec[field]:
            name = each["serviceAccountName"]
            place = {"namespace": namespace} if kind == "Role" else {}
            subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
            objects += [
                {
                    "apiVersion": f"{group}/v1",
                    "kind": kind,
                    "metadata": {"name": name, **place},
                    "rules": each["rules"],
                },
                {
                    "apiVersion": f"{group}/v1",
                    "kind": f"{kind}Binding",
                    "metadata": {"name": name, **place},
                    "roleRef": {"apiGroup": group, "kind": kind, "name": name},
                    "subjects": [subject],
                },
            ]
    for each in spec["deployments"]:
        objects.append(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": each["name"], "namespace": namespace, "labels": each["label"]},
                "spec": each["spec"],
            }
        )
    fields = ("admissionReviewVersions", "failurePolicy", "rules", "sideEffects")
    for each in csv["spec"].get("webhookdefinitions", ()):
        if each["type"] == "ConversionWebhook":
            continue
        service = {
            "name": f"{each['deploymentName']}-service",
            "namespace": namespace,
            "path": each["webhookPath"],
        }
        webhook = {name: each[name] for name in fields}
        webhook |= {"name": each["generateName"], "clientConfig": {"service": service}}
        kind = each["type"].replace("AdmissionWebhook", "WebhookConfiguration")
        objects.append(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": each["generateName"]},
                "webhooks": [webhook],
            }
        )
    return objects


async def test_a_cluster_accepts_all_objects(project: ShopProject) -> None:
    """The objects of the bundle, those that OLM creates from it, and the examples."""
    csv, objects = bundle(project)
    async with start_test_server("in-process", None, controllers=False) as server:
        client = server.client()
        await client.create(Namespace(metadata=ObjectMeta(name="operators")))
        for manifest in objects:
            if manifest["kind"] == "CustomResourceDefinition":
                # OLM sets the conversion once the operator runs.
                assert manifest["spec"].pop("conversion")["webhook"]["clientConfig"]["service"]["name"] == (
                    "shop-controller-manager-service"
                )
            if manifest["kind"] == "Service":
                manifest["metadata"]["namespace"] = "operators"
            await client.create(Unstructured(manifest), field_validation="Strict")
        for example in json.loads(csv["metadata"]["annotations"]["alm-examples"]):
            example["metadata"]["namespace"] = "default"
            await client.create(Unstructured(example), field_validation="Strict")
        for manifest in installed(csv, "operators"):
            await client.create(Unstructured(manifest), field_validation="Strict")


def test_permissions_are_those_of_the_deployment(project: ShopProject) -> None:
    project.settings('certificates = "cert-manager"')
    csv, objects = bundle(project)
    project.run("build-installer")
    text = (project.directory / "dist/install.yaml").read_text()
    by_key = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    install = csv["spec"]["install"]["spec"]
    (cluster,), (local,) = install["clusterPermissions"], install["permissions"]
    assert cluster["rules"] == [
        *by_key["ClusterRole", "shop-manager-role"]["rules"],
        *by_key["ClusterRole", "shop-metrics-auth-role"]["rules"],
    ]
    roles = [each for (kind, _), each in by_key.items() if kind == "Role"]
    assert local["rules"] == [rule for role in roles for rule in role["rules"]]
    kinds = {each["kind"] for each in objects}
    assert kinds == {"CustomResourceDefinition", "ClusterRole", "Service"}
    names = {each["metadata"]["name"] for each in objects if each["kind"] == "ClusterRole"}
    assert names == {
        "shop-metrics-reader",
        *(f"shop-shop-{each}-role" for each in ("admin", "editor", "viewer")),
    }
    assert not [each for each in objects if "namespace" in each["metadata"]]
    (definition,) = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert "annotations" not in definition["metadata"]


def test_the_manager_uses_the_certificate_of_olm(project: ShopProject) -> None:
    csv, _ = bundle(project, "--image", "registry.example.com/shop:1.2.3")
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == csv["metadata"]["annotations"]["containerImage"]
    assert "--webhook-certificates=/tmp/k8s-webhook-server/serving-certs" in container["args"]
    assert [each["name"] for each in pod["volumes"]] == ["tmp"]
    assert [each["name"] for each in container["volumeMounts"]] == ["tmp"]
    webhooks = {each["type"]: each for each in csv["spec"]["webhookdefinitions"]}
    assert sorted(webhooks) == ["ConversionWebhook", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"]
    assert webhooks["ConversionWebhook"]["conversionCRDs"] == ["shops.store.example.com"]
    assert {each["deploymentName"] for each in webhooks.values()} == {deployment["name"]}
    assert csv["spec"]["relatedImages"] == [{"name": "manager", "image": "registry.example.com/shop:1.2.3"}]


def modes(csv: Manifest) -> list[str]:
    return [each["type"] for each in csv["spec"]["installModes"] if each["supported"]]


def test_install_modes(project: ShopProject) -> None:
    csv, _ = bundle(project)
    assert modes(csv) == ["AllNamespaces"]
    project.settings(project="namespaced = true")
    result = project.run("bundle", "--version", "1.2.3")
    assert "only for all namespaces; namespaced = true is ignored" in result.stderr


def test_a_namespaced_operator_watches_the_target_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    project.settings(project="namespaced = true")
    csv, _ = bundle(project)
    assert modes(csv) == ["OwnNamespace", "SingleNamespace", "MultiNamespace"]
    install = csv["spec"]["install"]["spec"]
    (container,) = install["deployments"][0]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {
            "name": "KUBEWRIGHT_NAMESPACES",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}},
        }
    ]
    resources = {each for rule in install["permissions"][0]["rules"] for each in rule["resources"]}
    assert {"shops", "configmaps", "leases"} <= resources
    assert "namespaceSelector" not in csv["spec"]["webhookdefinitions"][0]


def test_kinds_are_described(project: ShopProject) -> None:
    csv, _ = bundle(project)
    (owned,) = csv["spec"]["customresourcedefinitions"]["owned"]
    assert (owned["name"], owned["version"], owned["description"]) == (
        "shops.store.example.com",
        "v1",
        "A shop.",
    )
    assert owned["resources"] == [{"kind": "ConfigMap", "name": "", "version": "v1"}]
    controls = {each["path"]: each.get("x-descriptors") for each in owned["specDescriptors"]}
    assert controls == {
        "owner": ["urn:alm:descriptor:com.tectonic.ui:text"],
        "replicas": ["urn:alm:descriptor:com.tectonic.ui:podCount"],
    }
    states = {each["path"]: each.get("x-descriptors") for each in owned["statusDescriptors"]}
    assert states["conditions"] == ["urn:alm:descriptor:io.kubernetes.conditions"]


def test_metadata_of_the_project(project: ShopProject) -> None:
    path = project.directory / "pyproject.toml"
    path.write_text(
        path.read_text() + "\n[project]\nname = 'shop'\nversion = '2.0.0'\ndescription = 'Opens shops'\n"
        "keywords = ['retail']\nauthors = [{name = 'Ann', email = 'ann@example.com'}]\n"
        "[project.urls]\nHomepage = 'https://example.com'\nSource = 'https://example.com/src'\n"
    )
    folder = project.directory / "config/bundle"
    folder.mkdir(parents=True)
    (folder / "icon.svg").write_text("<svg/>")
    project.run("bundle", "--channels", "fast,stable", "--default-channel", "stable", "--replaces", "1.9.0")
    csv = yaml.safe_load((project.directory / "bundle/manifests/shop.clusterserviceversion.yaml").read_text())
    spec = csv["spec"]
    assert (csv["metadata"]["name"], spec["version"], spec["replaces"]) == (
        "shop.v2.0.0",
        "2.0.0",
        "shop.v1.9.0",
    )
    assert spec["description"].startswith("Opens shops\n")
    assert spec["maintainers"] == [{"name": "Ann", "email": "ann@example.com"}]
    assert spec["provider"] == {"name": "Ann", "url": "https://example.com"}
    assert spec["links"][1] == {"name": "Source", "url": "https://example.com/src"}
    assert spec["icon"] == [{"mediatype": "image/svg+xml", "base64data": "PHN2Zy8+"}]
    annotations = yaml.safe_load((project.directory / "bundle/metadata/annotations.yaml").read_text())
    name = "operators.operatorframework.io.bundle.channel"
    assert annotations["annotations"][f"{name}s.v1"] == "fast,stable"
    assert annotations["annotations"][f"{name}.default.v1"] == "stable"
    assert f"LABEL {name}s.v1=fast,stable\n" in (project.directory / "bundle.Dockerfile").read_text()


def test_fields_and_files_of_the_user_are_kept(project: ShopProject) -> None:
    bundle(project)
    base = project.directory / "config/bundle/csv.yaml"
    assert base.read_text().startswith("# Fields of the ClusterServiceVersion. This file is yours")
    base.write_text(
        "metadata: {name: ignored, annotations: {capabilities: Deep Insights, containerImage: null}}\n"
        "spec:\n  displayName: Our shop\n  version: 9.9.9\n"
        "  customresourcedefinitions: {owned: [{name: shops.store.example.com, displayName: Our shops}]}\n"
    )
    sample = project.directory / "config/samples/store_v1_shop.yaml"
    sample.parent.mkdir(parents=True)
    sample.write_text(
        "apiVersion: store.example.com/v1\nkind: Shop\nmetadata: {name: mine}\nspec: {replicas: 7}\n"
    )
    folder = project.directory / "bundle/manifests"
    extra = folder / "mine_v1_configmap.yaml"
    extra.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n")
    stale = folder / "old_v1_service.yaml"
    stale.write_text("# Generated by `kubewright bundle`.\nkind: Service\n")
    csv, objects = bundle(project)
    assert extra.exists()
    assert not stale.exists()
    assert "ConfigMap" in [each["kind"] for each in objects]
    assert base.read_text().startswith("metadata: {name: ignored")
    annotations = csv["metadata"]["annotations"]
    assert (csv["metadata"]["name"], csv["spec"]["version"]) == ("shop.v1.2.3", "1.2.3")
    assert annotations["capabilities"] == "Deep Insights"
    assert "containerImage" not in annotations
    assert json.loads(annotations["alm-examples"])[0]["spec"] == {"replicas": 7}
    (owned,) = csv["spec"]["customresourcedefinitions"]["owned"]
    assert (owned["displayName"], owned["kind"]) == ("Our shops", "Shop")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "wrote" not in project.run("bundle", "--version", "1.2.3").stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--version", "1.2"), "version '1.2' is not a semantic version, which OLM requires"),
        ((), "the bundle has no version; set it with --version"),
        (("--version", "1.0.0", "--replaces", "v1"), "replaced version 'v1' is not a semantic version"),
        (("--version", "1.0.0", "--channels", ""), "needs at least one channel"),
        (("--version", "1.0.0", "--default-channel", "fast"), "'fast' is not one of stable"),
    ],
)
def test_wrong_options(project: ShopProject, options: tuple[str, ...], message: str) -> None:
    result = project.run("bundle", *options, exit_code=1)
    assert message in result.stderr
    assert not (project.directory / "bundle").exists()
    assert not (project.directory / "config").exists()


def test_lists_are_merged_by_their_names() -> None:
    generated = {
        "owned": [{"name": "a", "version": "v1", "x": 1}, {"name": "a", "version": "v2", "x": 1}],
        "permissions": [{"serviceAccountName": "m", "rules": [{"verbs": ["get"]}]}],
        "keywords": ["a"],
    }
    given = {
        "owned": [{"name": "a", "version": "v2", "x": 2}, {"name": "b", "version": "v1"}],
        "permissions": [{"serviceAccountName": "m", "rules": [{"verbs": ["list"]}]}],
        "keywords": ["b"],
    }
    assert override(generated, given) == {
        "owned": [
            {"name": "a", "version": "v1", "x": 1},
            {"name": "a", "version": "v2", "x": 2},
            {"name": "b", "version": "v1"},
        ],
        "permissions": [{"serviceAccountName": "m", "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]}],
        "keywords": ["b"],
    }
    both = override(generated, {"owned": [{"name": "a", "y": 3}]})["owned"]
    assert [each["y"] for each in both] == [3, 3]


def test_extension_api_servers_are_not_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = PROGRAM.replace(
        "import Context, Operator", "import Context, Operator\nfrom kubewright import APIServerApp"
    )
    project = make_project(tmp_path, monkeypatch, served + "\n\napp = APIServerApp('shop')\napp.add(Shop)\n")
    result = project.run("bundle", "--version", "1.0.0", exit_code=1)
    assert "a bundle with an extension API server is not supported" in result.stderr
    assert not (tmp_path / "bundle").exists()
    assert not (tmp_path / "config").exists()
