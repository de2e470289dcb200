"""Generated projects of all variants pass ruff, mypy --strict and their own tests.

The projects are checked together, because each start of mypy and pytest costs seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kubewright.scaffold import (
    ProjectInputs,
    ResourceInput,
    ScaffoldLock,
    create_api,
    create_api_from_templates,
    create_apiserver,
    create_credential_plugin,
    create_credential_plugin_project,
    create_kubectl_plugin,
    create_kubectl_plugin_project,
    create_webhook,
    edit_project,
    init_project,
)
from kubewright.scaffold.render import COPY, render_project

SOURCE = Path(__file__).parents[2] / "src"
PYTEST_PLUGIN = ("-p", "no:cacheprovider")
if not any(each.name == "kubewright" for each in entry_points(group="pytest11")):
    PYTEST_PLUGIN += ("-p", "kubewright.testing.pytest_plugin")  # the package is not installed
EXTERNAL = '''\
"""The fields of a Certificate that this operator reads."""

from kubewright import CustomResource, Spec, resource


class CertificateSpec(Spec):
    """Desired state of a Certificate."""

    secret_name: str


@resource(group="cert-manager.io", version="v1", external=True)
class Certificate(CustomResource[CertificateSpec, None]):
    """A Certificate."""
'''


def add_namespaced(directory: Path) -> None:
    """A project with a cluster-scoped kind whose operator is restricted to its namespace."""
    init_project(directory, ProjectInputs(name="account-keeper", namespaced=True, owner="Ann", license="mit"))
    account = ResourceInput(group="bank", version="v1alpha1", kind="Account", scope="Cluster", plural="accts")
    create_api(directory, account)
    create_kubectl_plugin(directory, "account-list")
    create_credential_plugin(directory, "account-login")
    create_webhook(directory, account, defaulting=True, validation=True)


def add_groups(directory: Path) -> None:
    """A project that gets a second group after the user has changed its files."""
    init_project(directory, ProjectInputs(name="market"))
    create_api(directory, ResourceInput(group="store", version="v1", kind="Shop"))
    create_webhook(directory, ResourceInput(group="store", version="v1", kind="Shop"), defaulting=True)
    create_api(directory, ResourceInput(group="store", version="v2", kind="Shop"))
    create_kubectl_plugin(directory, "shop", version="v2")
    controller = directory / "src/market/shop_controller.py"
    controller.write_text(controller.read_text() + "\n\nLIMIT = 3  # of the user\n")
    edit_project(directory, {"multigroup": True})
    create_api(directory, ResourceInput(group="delivery", version="v1", kind="Shop"))
    create_webhook(directory, ResourceInput(group="store", version="v1", kind="Shop"), validation=True)
    create_webhook(directory, ResourceInput(group="store", version="v2", kind="Shop"), validation=True)
    create_api(directory, ResourceInput(group="store", version="v3", kind="Shop"))
    create_kubectl_plugin(directory, "delivery", group="delivery")


def add_foreign_kinds(directory: Path) -> None:
    """A project with controllers and webhooks of a built-in and of an external kind."""
    init_project(directory, ProjectInputs(name="watcher", domain="corp.test"))
    (directory / "src/watcher/certificates.py").write_text(EXTERNAL)
    deployment = ResourceInput(group="apps", version="v1", kind="Deployment", origin="kubewright.api.apps.v1")
    create_api(directory, deployment)
    create_webhook(directory, deployment, defaulting=True, validation=True)
    create_kubectl_plugin(directory, "deployment", kind="Deployment")
    certificate = {"version": "v1", "kind": "Certificate", "origin": "watcher.certificates"}
    create_api(directory, ResourceInput(group="cert-manager.io", **certificate))
    tests = directory / "tests" / "test_deployment_controller.py"
    # The operator also watches Certificates, so every test needs their CRD.
    tests.write_text((directory / "tests" / "test_certificate_controller.py").read_text())


def add_operand(directory: Path) -> None:
    """A project with an operand image, and webhooks for it."""
    init_project(directory, ProjectInputs(name="cache"))
    memcached = ResourceInput(
        group="cache",
        version="v1",
        kind="Memcached",
        image="registry.test:5000/memcached:1.6",
        command=("memcached", "-v"),
        port=11211,
    )
    create_api(directory, memcached)
    create_webhook(directory, memcached, defaulting=True)
    create_kubectl_plugin(directory, "memcached")
    create_api(directory, ResourceInput(group="cache", version="v1", kind="Type", image="nginx"))


SITE = {
    "values.schema.json": """{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "required": ["host", "image"],
  "properties": {
    "host": {"type": "string", "minLength": 3},
    "image": {"$ref": "#/definitions/image"},
    "port": {"type": ["integer", "string"], "default": 80}
  },
  "definitions": {"image": {"type": "object", "properties": {"tag": {"type": "string"}}}}
}
""",
    "values.yaml": "# Image of the pods.\nimage:\n  tag: '1'\nextra: {}\n",
    "config.yaml.j2": """apiVersion: v1
kind: ConfigMap
metadata: {name: {{ name }}}
data: {host: {{ spec.host | quote }}, tag: {{ spec.image.tag | quote }}}
""",
}
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: page\nversion: 0.1.0\n",
    "values.yaml": "replicas: 2\n",
    "templates/_helpers.tpl": '{{- define "name" }}{{ .Release.Name }}{{ end }}\n',
    "templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\n"
    "metadata: {name: {{ .Release.Name }}, namespace: default}\n",
}


def add_templates(directory: Path) -> None:
    """A project with kinds that have Jinja templates and a Helm chart instead of code."""
    for name, files in (("site", SITE), ("chart", CHART)):
        for path, text in files.items():
            (directory / "sources" / name / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / "sources" / name / path).write_text(text)
    init_project(directory, ProjectInputs(name="pages"))
    sources = directory / "sources"
    create_api_from_templates(
        directory, sources / "site", ResourceInput(group="web", version="v1", kind="Site")
    )
    edit_project(directory, {"multigroup": True})
    page = ResourceInput(group="press", version="v1alpha1", kind="Page", scope="Cluster")
    create_api_from_templates(directory, sources / "chart", page)
    create_webhook(directory, page, validation=True)
    create_webhook(directory, ResourceInput(group="web", version="v1", kind="Site"), defaulting=True)
    (sources / "site" / "values.yaml").unlink()
    (sources / "site" / "values.schema.json").unlink()
    (sources / "site" / "config.yaml.j2").write_text(
        CHART["templates/config.yaml"].replace(".Release.N", "n")
    )
    text = ResourceInput(group="web", version="v1", kind="Text")
    create_api_from_templates(directory, sources / "site", text)
    create_webhook(directory, text, validation=True)
    create_kubectl_plugin(directory, "page-list", kind="Page")


def add_api_server(directory: Path) -> None:
    """A project with an API server for two kinds, one in two versions, and an operator for a third kind."""
    init_project(directory, ProjectInputs(name="pizzeria"))
    create_apiserver(directory, ResourceInput(group="menu", version="v1", kind="Pizza"))
    create_apiserver(directory, ResourceInput(group="menu", version="v2", kind="Pizza"))
    edit_project(directory, {"multigroup": True})
    create_apiserver(directory, ResourceInput(group="stock", version="v1beta1", kind="App", scope="Cluster"))
    create_api(directory, ResourceInput(group="staff", version="v1", kind="Cook"))
    create_kubectl_plugin(directory, "pizza")


def add_plugin(directory: Path) -> None:
    """A project for a plug-in of kubectl."""
    create_kubectl_plugin_project(directory, "states")


def add_login(directory: Path) -> None:
    """A project for a credential plug-in."""
    create_credential_plugin_project(directory, "shop-login")


VARIANTS = {
    "namespaced": add_namespaced,
    "groups": add_groups,
    "foreign": add_foreign_kinds,
    "operand": add_operand,
    "templates": add_templates,
    "apiserver": add_api_server,
    "plugin": add_plugin,
    "login": add_login,
}
OPERATORS = [name for name in VARIANTS if name not in ("plugin", "login")]


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("projects")
    for name, add in VARIANTS.items():
        (root / name).mkdir()
        add(root / name)
    return root


def run(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = [SOURCE, *(root.glob("*/src"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **variables}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_ruff(projects: Path) -> None:
    checked = run(projects, "ruff", "check", "--no-cache", ".")
    assert checked.returncode == 0, checked.stdout
    formatted = run(projects, "ruff", "format", "--no-cache", "--diff", ".")
    assert formatted.returncode == 0, formatted.stdout


def test_mypy(projects: Path) -> None:
    paths = [str(path) for path in projects.glob("*/src")]
    checked = run(
        projects,
        "mypy",
        "--strict",
        "--explicit-package-bases",
        *(f"{name}/{folder}" for name in VARIANTS for folder in ("src", "tests")),
        MYPYPATH=os.pathsep.join([*paths, str(SOURCE)]),
    )
    assert checked.returncode == 0, checked.stdout


def test_their_own_tests_pass(projects: Path) -> None:
    options = ("--import-mode=importlib", "-o", "asyncio_mode=auto", "-W", "error::RuntimeWarning")
    tested = run(projects, "pytest", "-q", *PYTEST_PLUGIN, *options, ".")
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout


def test_manifests(projects: Path) -> None:
    for name in OPERATORS:
        written = run(projects / name, "kubewright.cli", "manifests", PYTHONPATH=str(SOURCE))
        assert written.returncode == 0, written.stderr
        assert "Warning" not in written.stderr
    checked = run(projects / "groups", "kubewright.cli", "manifests", "--check", PYTHONPATH=str(SOURCE))
    assert checked.returncode == 0, checked.stdout


def test_the_lock_renders_the_same_files(projects: Path) -> None:
    for name in OPERATORS:
        lock = ScaffoldLock.read(projects / name)
        rendered = {path: each.text for path, each in render_project(lock).items()}
        bases = {path: each.base for path, each in lock.files.items() if each.templates != COPY}
        assert rendered.keys() == bases.keys()
        assert rendered == bases


def test_layout_of_several_groups(projects: Path) -> None:
    root = projects / "groups"
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py")) == [
        "src/market/__init__.py",
        "src/market/delivery/__init__.py",
        "src/market/delivery/shop_controller.py",
        "src/market/delivery/shop_v1.py",
        "src/market/kubectl_delivery.py",
        "src/market/kubectl_shop.py",
        "src/market/operator.py",
        "src/market/store/__init__.py",
        "src/market/store/shop_controller.py",
        "src/market/store/shop_conversion.py",
        "src/market/store/shop_v1.py",
        "src/market/store/shop_v1_webhook.py",
        "src/market/store/shop_v2.py",
        "src/market/store/shop_v2_webhook.py",
        "src/market/store/shop_v3.py",
        "tests/delivery/test_shop_controller.py",
        "tests/store/test_shop_controller.py",
        "tests/store/test_shop_conversion.py",
        "tests/store/test_shop_v1_webhook.py",
        "tests/store/test_shop_v2_webhook.py",
        "tests/test_kubectl_delivery.py",
        "tests/test_kubectl_shop.py",
    ]
    controller = (root / "src/market/store/shop_controller.py").read_text()
    assert "from ..operator import operator\nfrom .shop_v1 import Shop\n" in controller
    assert controller.endswith("LIMIT = 3  # of the user\n")
    conversion = (root / "src/market/store/shop_conversion.py").read_text()
    assert conversion.endswith(
        "converter.spoke(shop_v2.Shop, rules=())\nconverter.spoke(shop_v3.Shop, rules=())\n"
    )


def test_templates_are_in_the_package_of_their_group(projects: Path) -> None:
    root = projects / "templates"
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert {
        "src/pages/press/page_controller.py",
        "src/pages/press/templates/page/templates/_helpers.tpl",
        "src/pages/web/site_controller.py",
        "src/pages/web/templates/site/config.yaml.j2",
        "tests/web/site_example.yaml",
    } <= files
    assert not any(name.startswith(("src/pages/templates", "tests/site")) for name in files)
    types = (root / "src/pages/web/site_v1.py").read_text()
    assert "host: Annotated[str, MinLen(3)]" in types
    assert "port: IntOrString = 80" in types
    assert "image: Annotated[Image, Default({})] = field(default_factory=Image)\n    " in types
    example = (root / "tests/web/site_example.yaml").read_text()
    assert example.endswith('spec: {"host": "example", "port": 80}\n')
