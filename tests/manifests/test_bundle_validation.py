"""`kubewright bundle validate`: a broken bundle for each class of error."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner
from tests.deployment_project import PROGRAM, make_project

from kubewright.cli import main
from kubewright.manifests.bundle import BundleFinding, validate_bundle

CSV: Final = "manifests/shop.clusterserviceversion.yaml"
CRD: Final = "manifests/store.example.com_shops.yaml"
SERVICE: Final = "manifests/shop-controller-manager-metrics-service_v1_service.yaml"
ANNOTATIONS: Final = "metadata/annotations.yaml"
BUNDLE: Final = "operators.operatorframework.io.bundle"
DELETE: Final = object()
DEPLOYMENT: Final = "spec.install.spec.deployments[0]"
POD: Final = f"{DEPLOYMENT}.spec.template.spec"
OWNED: Final = "spec.customresourcedefinitions.owned[0]"
WEBHOOK: Final = "spec.webhookdefinitions[0]"
CONVERSION: Final = "spec.webhookdefinitions[2]"
RULES: Final = "spec.install.spec.permissions[0].rules"
EXAMPLES: Final = "metadata.annotations.alm-examples"


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bundle without errors and warnings, with a conversion webhook."""
    directory = tmp_path_factory.mktemp("valid")
    with pytest.MonkeyPatch.context() as patch:
        project = make_project(directory, patch)
        project.program(
            PROGRAM.replace("Status, resource", "Status, WebhookConversion, resource").replace(
                'version="v1")', 'version="v1", conversion=WebhookConversion())'
            )
        )
        path = directory / "pyproject.toml"
        path.write_text(
            path.read_text() + "\n[project]\nname = 'shop'\nversion = '1.0.0'\ndescription = 'Opens shops'\n"
            "keywords = ['retail']\nauthors = [{name = 'Ann', email = 'ann@example.com'}]\n"
            "[project.urls]\nHomepage = 'https://example.com'\n"
        )
        folder = directory / "config/bundle"
        folder.mkdir(parents=True)
        (folder / "icon.svg").write_text("<svg/>")
        (folder / "csv.yaml").write_text("spec: {minKubeVersion: 1.30.0}\n")
        project.run("bundle", "--image", "registry.example.com/shop:1.0.0")
        yield directory


@pytest.fixture
def bundle(valid: Path, tmp_path: Path) -> Path:
    shutil.copytree(valid / "bundle", tmp_path / "bundle")
    shutil.copy(valid / "bundle.Dockerfile", tmp_path)
    return tmp_path / "bundle"


def change(file: Path, path: str, value: Any) -> None:
    """Set or delete the field of a YAML file; a function changes the present value."""
    document = yaml.load(file.read_text(), yaml.CSafeLoader)
    parts: list[str | int] = [
        int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)
    ]
    if path.startswith("annotations."):
        parts = ["annotations", path.removeprefix("annotations.")]
    target = document
    for part in parts[:-1]:
        target = target[part]
    if value is DELETE:
        del target[parts[-1]]
    elif callable(value):
        target[parts[-1]] = value(target[parts[-1]])
    else:
        target[parts[-1]] = value
    file.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper))


def test_a_generated_bundle_is_valid(bundle: Path) -> None:
    assert validate_bundle(bundle) == []


def example(**fields: Any) -> Callable[[str], str]:
    """Return a function that changes the only example."""
    return lambda text: json.dumps([{**json.loads(text)[0], **fields}])


BROKEN: list[tuple[str, str, Any, str, str]] = [
    # file, field, value, field of the finding, message
    (CSV, "apiVersion", "v1", "apiVersion", "must be operators.coreos.com/v1alpha1"),
    (CSV, "metadata.name", "shop", "metadata.name", "must have the form <operator>.v<semantic version>"),
    (CSV, "metadata.name", "Shop.v1.0.0", "metadata.name", "must have the form"),
    (
        CSV,
        "metadata.name",
        "shop.v1.0.1",
        "metadata.name",
        "has the version 1.0.1, and spec.version is 1.0.0",
    ),
    (CSV, "spec.version", "1.0", "spec.version", "'1.0' is not a semantic version"),
    (CSV, "spec.replaces", "shop-0.9", "spec.replaces", "must have the form"),
    (CSV, "spec.replaces", "shop.v1.0.0", "spec.replaces", "is the ClusterServiceVersion itself"),
    (CSV, "spec.minKubeVersion", "1.30", "spec.minKubeVersion", "is not a semantic version"),
    (CSV, "spec.installModes", [], "spec.installModes", "is missing"),
    (CSV, "spec.installModes[3].supported", False, "spec.installModes", "no mode is supported"),
    (
        CSV,
        "spec.installModes[0].type",
        "Everywhere",
        "spec.installModes[0].type",
        "must be one of OwnNamespace",
    ),
    (CSV, "spec.installModes[0].type", "AllNamespaces", "spec.installModes[3].type", "is listed twice"),
    (CSV, "spec.installModes[0].supported", True, "spec.installModes", "must support only AllNamespaces"),
    (CSV, "spec.install.strategy", "job", "spec.install.strategy", "must be deployment"),
    (CSV, "spec.install.spec.deployments", [], "spec.install.spec.deployments", "at least one Deployment"),
    (CSV, f"{DEPLOYMENT}.name", DELETE, f"{DEPLOYMENT}.name", "is missing"),
    (CSV, f"{DEPLOYMENT}.spec.selector", {}, f"{DEPLOYMENT}.spec.selector.matchLabels", "is missing"),
    (
        CSV,
        f"{DEPLOYMENT}.spec.selector.matchLabels",
        {"app": "other"},
        f"{DEPLOYMENT}.spec.selector",
        "does not match the labels of the pod template",
    ),
    (CSV, f"{POD}.serviceAccountName", DELETE, f"{POD}.serviceAccountName", "would run with the default"),
    (CSV, f"{POD}.serviceAccountName", "other", f"{POD}.serviceAccountName", "OLM does not create it"),
    (CSV, f"{POD}.containers", [], f"{POD}.containers", "at least one container"),
    (CSV, f"{POD}.containers[0].image", DELETE, f"{POD}.containers[0].image", "is missing"),
    (CSV, f"{RULES}[0].verbs", [], f"{RULES}[0].verbs", "at least one verb"),
    (CSV, f"{RULES}[0].resources", DELETE, f"{RULES}[0]", "needs apiGroups and resources"),
    (CSV, f"{RULES}[0].nonResourceURLs", ["/"], f"{RULES}[0].nonResourceURLs", "only in clusterPermissions"),
    (CSV, RULES, [], RULES, "at least one rule"),
    (CSV, f"{OWNED}.kind", DELETE, f"{OWNED}.kind", "is missing"),
    (CSV, f"{OWNED}.version", "v2", OWNED, "no CRD shops.store.example.com with version v2 and kind Shop"),
    (
        CSV,
        "spec.customresourcedefinitions.owned",
        lambda owned: owned * 2,
        "spec.customresourcedefinitions.owned[1]",
        "is listed twice",
    ),
    (
        CSV,
        f"{OWNED}.specDescriptors[0].path",
        "color",
        f"{OWNED}.specDescriptors[0].path",
        "'color' is not a field of spec",
    ),
    (CSV, EXAMPLES, "[", EXAMPLES, "is not JSON"),
    (CSV, EXAMPLES, "{}", EXAMPLES, "must be a list of objects"),
    (CSV, EXAMPLES, example(kind="Bill"), f"{EXAMPLES}[0]", "Bill is not the kind of an owned CRD"),
    (CSV, EXAMPLES, example(spec={"color": "red"}), f"{EXAMPLES}[0]", "unknown field spec.color"),
    (CSV, EXAMPLES, example(spec={"replicas": -1}), f"{EXAMPLES}[0]", "spec.replicas: Invalid value: -1"),
    (CSV, EXAMPLES, example(spec={"replicas": "many"}), f"{EXAMPLES}[0]", "must be of type integer"),
    (CSV, f"{WEBHOOK}.type", "AdmissionWebhook", f"{WEBHOOK}.type", "must be one of Validating"),
    (CSV, f"{WEBHOOK}.generateName", DELETE, f"{WEBHOOK}.generateName", "is missing"),
    (CSV, f"{WEBHOOK}.deploymentName", "other", f"{WEBHOOK}.deploymentName", "is not one of the Deployments"),
    (
        CSV,
        f"{WEBHOOK}.targetPort",
        1,
        f"{WEBHOOK}.targetPort",
        "no container of the Deployment has the port 1",
    ),
    (CSV, f"{WEBHOOK}.webhookPath", "mutate", f"{WEBHOOK}.webhookPath", "must start with a slash"),
    (CSV, f"{WEBHOOK}.sideEffects", "Some", f"{WEBHOOK}.sideEffects", "must be None or NoneOnDryRun"),
    (
        CSV,
        f"{WEBHOOK}.admissionReviewVersions",
        ["v1beta1"],
        f"{WEBHOOK}.admissionReviewVersions",
        "must contain v1",
    ),
    (CSV, f"{WEBHOOK}.rules", [], f"{WEBHOOK}.rules", "at least one rule"),
    (CSV, f"{WEBHOOK}.rules[0].apiGroups", ["*"], f"{WEBHOOK}.rules[0].apiGroups", "for all groups"),
    (
        CSV,
        f"{WEBHOOK}.rules[0].apiGroups",
        ["operators.coreos.com"],
        f"{WEBHOOK}.rules[0].apiGroups",
        "OLM rejects webhooks for its own group",
    ),
    (
        CSV,
        f"{WEBHOOK}.rules[0]",
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]},
        f"{WEBHOOK}.rules[0].resources",
        "OLM rejects webhooks for webhook configurations",
    ),
    (CSV, f"{CONVERSION}.conversionCRDs", [], f"{CONVERSION}.conversionCRDs", "at least one CRD"),
    (CSV, f"{CONVERSION}.conversionCRDs", ["a.b"], f"{CONVERSION}.conversionCRDs", "a.b is not an owned CRD"),
    (CSV, "spec.displayName", DELETE, "spec.displayName", "is missing"),
    (CSV, "spec.maturity", "ripe", "spec.maturity", "must be one of planning"),
    (CSV, "spec.maintainers[0].email", "ann", "spec.maintainers[0].email", "is not an email address"),
    (CSV, "spec.links[0].url", "example.com", "spec.links[0]", "needs a name and a URL"),
    (CSV, "spec.icon", lambda icons: icons * 2, "spec.icon", "only one icon"),
    (CSV, "spec.icon[0].mediatype", "image/webp", "spec.icon[0].mediatype", "must be one of image/svg+xml"),
    (CSV, "spec.icon[0].base64data", "%", "spec.icon[0].base64data", "is not base64 data"),
    (
        CSV,
        "metadata.annotations.capabilities",
        "All",
        "metadata.annotations.capabilities",
        "must be one of Basic Install",
    ),
    (
        CSV,
        "metadata.annotations.categories",
        "Database, Shops",
        "metadata.annotations.categories",
        "'Shops' must be one of",
    ),
    (CRD, "apiVersion", "apiextensions.k8s.io/v1beta1", "apiVersion", "is not served by Kubernetes"),
    (CSV, f"{POD}.containers[0].ports", 1, f"{POD}.containers[0].ports", "expected array, got int"),
    (SERVICE, "spec.ports[0].port", "https", "spec.ports[0].port", "expected int, got str"),
    (CRD, "spec.names.plural", "Shops!", "spec.names.plural", "DNS-1035 label"),
    (CRD, "spec.versions", "v1", "spec.versions", "expected array, got str"),
    (
        CRD,
        "spec.versions[0].schema.openAPIV3Schema.type",
        "text",
        "spec.validation.openAPIV3Schema.type",
        "must be object",
    ),
    (CRD, "spec.preserveUnknownFields", True, "spec.preserveUnknownFields", "conversion webhook"),
    (CRD, "metadata.name", DELETE, "metadata.name", "is missing"),
    (CRD, "kind", "CustomThing", "kind", "OLM does not install CustomThing from a bundle"),
    (SERVICE, "kind", "Ingress", "kind", "OLM does not install Ingress from a bundle"),
    (SERVICE, "spec.selector", {"app": "other"}, "spec.selector", "matches the pods of no Deployment"),
    (SERVICE, "apiVersion", DELETE, "apiVersion", "is missing"),
    (
        ANNOTATIONS,
        f"annotations.{BUNDLE}.mediatype.v1",
        "helm",
        f"annotations.{BUNDLE}.mediatype.v1",
        "must be 'registry+v1'",
    ),
    (
        ANNOTATIONS,
        f"annotations.{BUNDLE}.package.v1",
        "My shop",
        f"annotations.{BUNDLE}.package.v1",
        "is not the name of a package",
    ),
    (
        ANNOTATIONS,
        f"annotations.{BUNDLE}.channels.v1",
        "",
        f"annotations.{BUNDLE}.channels.v1",
        "at least one channel",
    ),
    (
        ANNOTATIONS,
        f"annotations.{BUNDLE}.channel.default.v1",
        "fast",
        f"annotations.{BUNDLE}.channel.default.v1",
        "'fast' is not one of stable",
    ),
]


@pytest.mark.parametrize(
    ("file", "field", "value", "place", "message"),
    BROKEN,
    ids=[f"{case[3]}-{number}" for number, case in enumerate(BROKEN)],
)
def test_errors(bundle: Path, file: str, field: str, value: Any, place: str, message: str) -> None:
    change(bundle / file, field, value)
    errors = [each for each in validate_bundle(bundle) if each.severity == "error"]
    assert [
        each
        for each in errors
        if each.file == file and each.path.startswith(place) and message in each.message
    ], "\n".join(map(str, errors))


WARNINGS: list[tuple[str, str, Any, str, str]] = [
    (CSV, "spec.minKubeVersion", DELETE, "spec.minKubeVersion", "any version"),
    (CSV, "spec.description", DELETE, "spec.description", "is missing"),
    (CSV, "spec.provider", DELETE, "spec.provider.name", "is missing"),
    (CSV, "spec.icon", DELETE, "spec.icon", "add icon.svg"),
    (CSV, "spec.links", DELETE, "spec.links", "is missing"),
    (CSV, "spec.maintainers[0].email", DELETE, "spec.maintainers[0]", "name and an email"),
    (CSV, f"{POD}.containers[0].image", "shop:latest", f"{POD}.containers[0].image", "changes over time"),
    (CSV, f"{POD}.containers[0].image", "host:5000/shop", f"{POD}.containers[0].image", "changes over time"),
    (
        CSV,
        "spec.relatedImages[0].image",
        "other:1",
        f"{POD}.containers[0].image",
        "not in spec.relatedImages",
    ),
    (CSV, f"{POD}.containers[0].resources", DELETE, f"{POD}.containers[0].resources.requests", "quotas"),
    (CSV, f"{RULES}[0]", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}, RULES, "all resources"),
    (CSV, f"{OWNED}.displayName", DELETE, f"{OWNED}.displayName", "is missing"),
    (CSV, f"{OWNED}.resources", DELETE, f"{OWNED}.resources", "kinds that the operator creates"),
    (CSV, f"{OWNED}.specDescriptors", DELETE, f"{OWNED}.specDescriptors", "no field of spec is described"),
    (CSV, EXAMPLES, DELETE, EXAMPLES, "is missing"),
    (CSV, EXAMPLES, "[]", EXAMPLES, "has no example of Shop v1"),
    (SERVICE, "metadata.namespace", "shop", "metadata.namespace", "is ignored"),
    (
        ANNOTATIONS,
        f"annotations.{BUNDLE}.channels.v1",
        "alpha,stable",
        "annotations",
        "'alpha' does not start",
    ),
]


@pytest.mark.parametrize(
    ("file", "field", "value", "place", "message"),
    WARNINGS,
    ids=[f"{case[3]}-{number}" for number, case in enumerate(WARNINGS)],
)
def test_warnings(bundle: Path, file: str, field: str, value: Any, place: str, message: str) -> None:
    change(bundle / file, field, value)
    (bundle.parent / "bundle.Dockerfile").unlink()
    findings = validate_bundle(bundle)
    assert {each.severity for each in findings} == {"warning"}
    assert [each for each in findings if each.path.startswith(place) and message in each.message]


def errors_of(bundle: Path) -> list[str]:
    return [str(each) for each in validate_bundle(bundle) if each.severity == "error"]


def test_missing_and_additional_files(bundle: Path) -> None:
    crd = (bundle / CRD).read_text()
    (bundle / CRD).unlink()
    assert f"error: {CSV}: {OWNED}: the bundle has no CRD" in errors_of(bundle)[0]
    (bundle / CRD).write_text(crd)
    (bundle / "manifests/copy.yaml").write_text(crd)
    assert errors_of(bundle) == [
        f"error: {CRD}: metadata.name: CustomResourceDefinition shops.store.example.com is also in "
        "manifests/copy.yaml"
    ]
    (bundle / "manifests/copy.yaml").write_text(
        crd.replace("shops.store", "bills.store").replace("shop", "bill").replace("Shop", "Bill")
    )
    messages = errors_of(bundle)
    assert any("does not own version v1 of bills.store.example.com" in each for each in messages)
    assert any("has no ConversionWebhook for this CRD" in each for each in messages)
    (bundle / "manifests/copy.yaml").write_text((bundle / CSV).read_text())
    assert any("exactly one ClusterServiceVersion; found 2" in each for each in errors_of(bundle))
    (bundle / "manifests/copy.yaml").write_text("a: [")
    assert "error: manifests/copy.yaml: is not YAML" in errors_of(bundle)[0]
    (bundle / "manifests/copy.yaml").write_text("- 1")
    assert errors_of(bundle) == ["error: manifests/copy.yaml: is not a Kubernetes object"]
    (bundle / "manifests/copy.yaml").write_text(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: shop-controller-manager}\n"
    )
    assert "OLM creates the ServiceAccount shop-controller-manager" in errors_of(bundle)[0]
    (bundle / "manifests/copy.yaml").unlink()
    (bundle / "manifests/notes.txt").write_text("x")
    assert validate_bundle(bundle) == [
        BundleFinding("warning", "manifests/notes.txt", "", "is not a manifest, and OLM ignores it")
    ]


def test_a_bundle_that_is_too_large(bundle: Path) -> None:
    text = random.Random(1).randbytes(1_000_000).hex()
    (bundle / "manifests/large.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: large}}\ndata: {{a: '{text}'}}\n"
    )
    assert "exceed the limit of 1,048,576" in errors_of(bundle)[0]


def test_labels_of_the_image(bundle: Path) -> None:
    path = bundle.parent / "bundle.Dockerfile"
    path.write_text(path.read_text().replace("channels.v1=stable", "channels.v1=fast"))
    assert errors_of(bundle) == [
        f"error: bundle.Dockerfile: LABEL {BUNDLE}.channels.v1: must be 'stable' as in {ANNOTATIONS}"
    ]


def test_an_empty_directory(tmp_path: Path) -> None:
    assert errors_of(tmp_path) == [
        f"error: {ANNOTATIONS}: does not exist",
        "error: manifests: the directory does not exist or is empty",
        "error: manifests: a bundle has exactly one ClusterServiceVersion; found 0",
    ]


def test_the_command(bundle: Path) -> None:
    run = CliRunner().invoke
    assert "is valid\n" in run(main, ["bundle", "validate", str(bundle)]).stderr
    change(bundle / CSV, "spec.icon", DELETE)
    change(bundle / CSV, "spec.displayName", DELETE)
    result = run(main, ["bundle", "validate", str(bundle), "--output", "json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert not document["valid"]
    assert document["findings"][0] == {
        "severity": "error",
        "file": CSV,
        "path": "spec.displayName",
        "message": "is missing",
    }
    assert "has 1 error\n" in result.stderr
    change(bundle / CSV, "spec.displayName", "Shop")
    assert run(main, ["bundle", "validate", str(bundle)]).exit_code == 0
    assert run(main, ["bundle", "validate", str(bundle), "--strict"]).exit_code == 1
    missing = run(main, ["bundle", "validate", str(bundle / "other")])
    assert "write a bundle with kubewright bundle\n" in missing.stderr
