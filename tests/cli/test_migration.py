"""`kubewright init --from-kubebuilder` and `--from-kopf`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubewright.manifests import compare_crds
from kubewright.scaffold.migration.kopf_handlers import KopfResource, read_kopf_module

from .in_process import kubewright

ROOT = Path(__file__).parents[2]

PROJECT = """
domain: tutorial.kubebuilder.io
layout: [go.kubebuilder.io/v4]
projectName: cronjobs
repo: tutorial.kubebuilder.io/project
version: "3"
resources:
- api: {crdVersion: v1, namespaced: true}
  controller: true
  domain: tutorial.kubebuilder.io
  group: batch
  kind: CronJob
  version: v1
  webhooks: {defaulting: true, validation: true, conversion: true, webhookVersion: v1}
- api: {crdVersion: v1, namespaced: true}
  domain: tutorial.kubebuilder.io
  group: batch
  kind: CronJob
  version: v2
- controller: true
  core: true
  group: apps
  kind: Deployment
  version: v1
"""
CONTROLLER = """
package controller

// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
func (r *CronJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
}

func (r *CronJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
\treturn ctrl.NewControllerManagedBy(mgr).
\t\tFor(&batchv1.CronJob{}).
\t\tOwns(&kbatch.Job{}).
\t\tWatches(
\t\t\t&corev1.Secret{},
\t\t\thandler.EnqueueRequestsFromMapFunc(r.find),
\t\t).
\t\tComplete(r)
}
"""
WEBHOOK = """
package v1

func (d *CronJobCustomDefaulter) Default(ctx context.Context, obj runtime.Object) error { return nil }
func (v *CronJobCustomValidator) ValidateCreate(ctx context.Context, obj runtime.Object) {}
"""
KOPF = """
import kopf
from kopf import on

GROUP = "example.com"


@kopf.on.startup()
def configure(settings, **_): ...


@kopf.on.login()
def login(**_): ...


@kopf.on.create(GROUP, "v1", "greetings")
@on.update(GROUP, "v1", "greetings")
def reconcile(spec, name, **_):
    return "hello " * spec.get("times", 1) + spec["text"]


@kopf.on.delete(GROUP, "v1", "greetings")
async def clean_up(**_): ...


@kopf.on.field(GROUP, "v1", "greetings", field="spec.times")
def times_changed(old, new, **_): ...


@kopf.timer("greetings.example.com", interval=30)
def tick(**_): ...


@kopf.daemon("example.com/v1", "greetings")
def watch(stopped, **_): ...


@kopf.on.event("", "v1", "pods")
def pod_event(event, **_): ...


@kopf.on.validate(GROUP, "v1", "greetings")
def check(spec, **_): ...


@kopf.on.mutate(GROUP, "v1", "greetings")
def mutate(patch, **_): ...


@kopf.index("pods")
def by_node(spec, **_): ...
"""


def version(name: str, *, storage: bool) -> dict[str, object]:
    """Return a version of the CronJob definition."""
    spec = {
        "type": "object",
        "required": ["schedule"],
        "properties": {
            "schedule": {"type": "string", "minLength": 1},
            "concurrencyPolicy": {"type": "string", "enum": ["Allow", "Forbid", "Replace"]},
        },
    }
    status = {"type": "object", "properties": {"lastScheduleTime": {"type": "string", "format": "date-time"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


@pytest.fixture
def go_project(tmp_path: Path) -> Path:
    """Return a kubebuilder project with a CronJob of two versions."""
    root = tmp_path / "go"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "cronjobs.batch.tutorial.kubebuilder.io"},
        "spec": {
            "group": "batch.tutorial.kubebuilder.io",
            "scope": "Namespaced",
            "names": {
                "kind": "CronJob",
                "plural": "cronjobs",
                "singular": "cronjob",
                "listKind": "CronJobList",
            },
            "versions": [version("v1", storage=True), version("v2", storage=False)],
        },
    }
    sample = {
        "apiVersion": "batch.tutorial.kubebuilder.io/v1",
        "kind": "CronJob",
        "metadata": {"name": "cronjob-sample"},
        "spec": {"schedule": "*/1 * * * *"},
    }
    for path, text in {
        "PROJECT": PROJECT,
        "config/crd/bases/batch.tutorial.kubebuilder.io_cronjobs.yaml": yaml.safe_dump(crd),
        "config/samples/batch_v1_cronjob.yaml": yaml.safe_dump(sample),
        "config/samples/kustomization.yaml": "resources: [batch_v1_cronjob.yaml]\n",
        "internal/controller/cronjob_controller.go": CONTROLLER,
        "internal/webhook/v1/cronjob_webhook.go": WEBHOOK,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def run_checks(project: Path) -> None:
    """Run the checks of a generated project."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(project / "src")])}
    for check in (
        ["ruff", "check"],
        ["ruff", "format", "--check"],
        ["pytest", "-q", "-p", "no:cacheprovider"],
    ):
        command = [sys.executable, "-m", *check, str(project)]
        ran = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_from_kubebuilder(go_project: Path, tmp_path: Path) -> None:
    done = kubewright(tmp_path, "init", "cronjobs", "--from-kubebuilder", "go")
    assert done.returncode == 0, done.stderr
    project = tmp_path / "cronjobs"
    package = project / "src" / "cronjobs"
    assert 'version="v2"' in (package / "cron_job_v2.py").read_text(encoding="utf-8")
    webhook = (package / "cron_job_v1_webhook.py").read_text(encoding="utf-8")
    assert "@operator.default(CronJob)" in webhook
    assert "@operator.validate(CronJob" in webhook
    assert "Converter(cron_job_v1.CronJob)" in (package / "cron_job_conversion.py").read_text(
        encoding="utf-8"
    )
    report = (project / "MIGRATION.md").read_text(encoding="utf-8")
    assert "`CronJobReconciler` reconciles CronJob" in report
    assert (
        "`src/cronjobs/cron_job_controller.py`: `@operator.reconcile(CronJob, owns=(Job,), "
        "watches=[... Secret])`"
    ) in report
    assert '`@operator.validate(CronJob, on=("create",))`' in report
    assert "kubewright create api --group apps --version v1 --kind Deployment --no-resource" in report
    assert 'Rbac(groups=("core",), resources=("nodes",), verbs=("list",)),' in report
    sample = project / "config" / "samples" / "batch_v1_cronjob.yaml"
    assert yaml.safe_load(sample.read_text(encoding="utf-8"))["spec"] == {"schedule": "*/1 * * * *"}
    name = "batch.tutorial.kubebuilder.io_cronjobs.yaml"
    before = yaml.safe_load((go_project / "config/crd/bases" / name).read_text(encoding="utf-8"))
    after = yaml.safe_load((project / "config" / "crd" / name).read_text(encoding="utf-8"))
    assert not [change for change in compare_crds(before, after) if change.breaking]
    run_checks(project)


KUBEBUILDER_2 = {
    "PROJECT": """
domain: example.com
repo: example.com/shops
version: "2"
resources:
- {group: store, kind: Shop, version: v1}
""",
    "controllers/shop_controller.go": """
func (r *ShopReconciler) Reconcile(req ctrl.Request) (ctrl.Result, error) {
}

func (r *ShopReconciler) SetupWithManager(mgr ctrl.Manager) error {
\treturn ctrl.NewControllerManagedBy(mgr).
\t\tFor(&storev1.Shop{}).
\t\tWatches(&source.Kind{Type: &corev1.ConfigMap{}}, &handler.EnqueueRequestForObject{}).
\t\tComplete(r)
}
""",
    "config/crd/bases/store.example.com_shops.yaml": """
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: shops.store.example.com, creationTimestamp: null}
spec:
  group: store.example.com
  names: {kind: Shop, listKind: ShopList, plural: shops, singular: shop}
  scope: Namespaced
  version: v1
  additionalPrinterColumns: [{name: Size, type: integer, JSONPath: .spec.size}]
  subresources: {status: {}}
  validation:
    openAPIV3Schema:
      properties:
        spec: {type: object, properties: {size: {type: integer, format: int32}}}
        status: {type: object}
""",
    "config/samples/store_v1_shop.yaml": """
apiVersion: store.example.com/v1
kind: Shop
metadata: {name: small}
spec: {size: 1}
---
apiVersion: store.example.com/v1
kind: Shop
metadata: {name: large}
spec: {size: 9}
""",
}


def write_files(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def test_from_kubebuilder_2(tmp_path: Path) -> None:
    """Its definitions are v1beta1, and its PROJECT file does not declare controllers."""
    write_files(tmp_path / "go", KUBEBUILDER_2)
    done = kubewright(tmp_path, "init", "shops", "--from-kubebuilder", "go")
    assert done.returncode == 0, done.stderr
    project = tmp_path / "shops"
    report = (project / "MIGRATION.md").read_text(encoding="utf-8")
    assert "`@operator.reconcile(Shop, watches=[... ConfigMap])`" in report
    assert (project / "src" / "shops" / "shop_controller.py").is_file()
    samples = [
        yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["name"]
        for path in sorted((project / "config" / "samples").glob("*_shop*.yaml"))
    ]
    assert samples == ["small", "large"]
    crd = yaml.safe_load((project / "config/crd/store.example.com_shops.yaml").read_text(encoding="utf-8"))
    version = crd["spec"]["versions"][0]
    assert version["additionalPrinterColumns"][0]["jsonPath"] == ".spec.size"
    assert (
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["format"] == "int32"
    )
    assert version["subresources"] == {"status": {}}


def test_a_failed_migration_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    name = "config/crd/bases/store.example.com_shops.yaml"
    invalid = KUBEBUILDER_2[name].replace("kind: Shop,", "kind: shop,")
    write_files(tmp_path / "go", {**KUBEBUILDER_2, name: invalid})
    (tmp_path / "shops").mkdir()
    (tmp_path / "shops" / "notes.txt").write_text("keep", encoding="utf-8")
    done = kubewright(tmp_path, "init", "shops", "--from-kubebuilder", "go")
    assert done.returncode == 1
    assert "kind 'shop' is not a CamelCase name" in done.stderr
    assert [path.name for path in (tmp_path / "shops").iterdir()] == ["notes.txt"]


KOPF_NAMES = """
import kopf


@kopf.on.create("kopfexamples", labels={"a": "b"})
def created(**_): ...

@kopf.timer("kex", interval=2, idle=5, sharp=True, initial_delay=1.5)
def tick(**_): ...

@kopf.on.delete("KopfExample", optional=True)
def deleted(**_): ...

@kopf.on.delete("kopf.dev", "kopfexamples")
def deleted_too(**_): ...

@kopf.on.delete("pods")
def pod_deleted(**_): ...

@kopf.on.validate("kex", operation="CREATE")
def check(**_): ...

@kopf.on.validate("kex")
def check_more(**_): ...
"""
KOPF_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  group: kopf.dev
  scope: Namespaced
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample, shortNames: [kex]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def test_from_kopf_with_names_of_any_form(tmp_path: Path) -> None:
    """The definition tells the group; what the decorators of Kubewright do not have is in the report."""
    write_files(tmp_path, {"example.py": KOPF_NAMES, "crd.yaml": KOPF_CRD})
    done = kubewright(tmp_path, "init", "example", "--from-kopf", "example.py", "--crds", "crd.yaml")
    assert done.returncode == 0, done.stderr
    project = tmp_path / "example"
    handlers = (project / "src" / "example" / "handlers.py").read_text(encoding="utf-8")
    for text in (
        "@operator.on.create(KopfExample)\nasync def created(",
        "@operator.timer(KopfExample, interval=2, initial_delay=1.5, idle=5, sharp=True)\nasync def tick(",
        "@operator.finalize(KopfExample)\nasync def deleted(",
        "\n\nasync def deleted_too(",
        '@operator.finalize(Pod, finalizer="example.com/example")\nasync def pod_deleted(',
        "@operator.validate(KopfExample)\ndef check(",
        "\n\ndef check_more(",
    ):
        assert text in handlers
    notes = {
        row.split("`")[1]: row.rpartition(" | ")[2].removesuffix(" |")
        for row in (project / "MIGRATION.md").read_text(encoding="utf-8").splitlines()
        if row.startswith("| `")
    }
    assert notes["created"].startswith("`labels`: return early")
    assert notes["tick"] == ""
    assert notes["deleted"].startswith("`optional`: a finalizer is always added")
    assert notes["deleted_too"] == "call it from `deleted`"
    assert notes["check"] == "`operation`: `on=` of `@operator.validate`"
    assert notes["check_more"] == "call it from `check`"
    run_checks(project)


def test_from_kopf_without_a_group(tmp_path: Path) -> None:
    write_files(tmp_path, {"example.py": KOPF_NAMES})
    done = kubewright(tmp_path, "init", "example", "--from-kopf", "example.py")
    assert done.returncode == 1
    assert "do not name the group of kopfexamples; pass its definition with --crds FILE" in done.stderr
    assert not (tmp_path / "example").exists()


def test_from_kopf(tmp_path: Path) -> None:
    (tmp_path / "greeter_kopf.py").write_text(KOPF, encoding="utf-8")
    done = kubewright(tmp_path, "init", "greeter", "--from-kopf", "greeter_kopf.py")
    assert done.returncode == 0, done.stderr
    project = tmp_path / "greeter"
    handlers = (project / "src" / "greeter" / "handlers.py").read_text(encoding="utf-8")
    for text in (
        "@operator.on_startup\nasync def configure() -> None:",
        "@operator.on.create(Greeting)\n@operator.on.update(Greeting)\nasync def reconcile(",
        "@operator.finalize(Greeting)\nasync def clean_up(",
        '@operator.on.field(Greeting, "spec.times")\nasync def times_changed(',
        "@operator.timer(Greeting, interval=30)\nasync def tick(",
        "@operator.daemon(Greeting)\nasync def watch(",
        "@operator.reconcile(Pod)\nasync def pod_event(",
        "@operator.validate(Greeting)\ndef check(",
        "@operator.default(Greeting)\ndef mutate(",
        '@operator.index(Pod, "by_node")\ndef by_node(',
    ):
        assert text in handlers
    types = (project / "src" / "greeter" / "greeting_v1.py").read_text(encoding="utf-8")
    assert "    times: int = 1\n" in types
    report = (project / "MIGRATION.md").read_text(encoding="utf-8")
    assert "| `login` (line 13) | `@kopf.on.login`  | - | not needed" in report
    assert (tmp_path / "greeter_kopf.py").read_text(encoding="utf-8") == KOPF
    run_checks(project)


def test_types_of_kopf_resources_come_from_their_definitions(tmp_path: Path) -> None:
    text = '@kopf.on.create("cert-manager.io", "v1", "certificates")\ndef made(**_): ...\n'
    (tmp_path / "handlers.py").write_text(f"import kopf\n\n{text}", encoding="utf-8")
    crd = ROOT / "tests" / "scaffold" / "crds" / "certificate.yaml"
    done = kubewright(tmp_path, "init", "certs", "--from-kopf", "handlers.py", "--crds", str(crd))
    assert done.returncode == 0, done.stderr
    types = (tmp_path / "certs" / "src" / "certs" / "certificate_v1.py").read_text(encoding="utf-8")
    assert "class CertificateSpec(Spec):" in types
    handlers = (tmp_path / "certs" / "src" / "certs" / "handlers.py").read_text(encoding="utf-8")
    assert "from .certificate_v1 import Certificate" in handlers


@pytest.mark.parametrize(
    ("arguments", "resource"),
    [
        ('"example.com", "v1", "shops"', KopfResource("example.com", "v1", "shops")),
        ('"example.com/v2", "shops"', KopfResource("example.com", "v2", "shops")),
        ('"shops.example.com"', KopfResource("example.com", "", "shops")),
        ('"shops.v1.example.com"', KopfResource("example.com", "v1", "shops")),
        ('"example.com", "shops"', KopfResource("example.com", "", "shops")),
        ('"v1", "pods"', KopfResource("", "v1", "pods")),
        ('kind="Shop"', KopfResource("", "", "Shop")),
        ('group="example.com", version="v1", plural="shops"', KopfResource("example.com", "v1", "shops")),
        ('"pods"', KopfResource("", "", "pods")),
        ("kopf.EVERYTHING", None),
    ],
)
def test_resources_of_kopf_decorators(arguments: str, resource: KopfResource | None) -> None:
    module = read_kopf_module(f"import kopf\n\n@kopf.on.create({arguments})\ndef made(**_): ...\n")
    assert module.handlers[0].resource == resource


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--from-kubebuilder", "."], 1, "has no PROJECT file"),
        (["--from-kopf", "empty.py"], 1, "empty.py has no kopf handlers"),
        (["--from-kopf", "broken.py"], 1, "broken.py:1: "),
        (["--from-kopf", "empty.py", "--from-kubebuilder", "."], 2, "exclude each other"),
        (["--crds", "."], 2, "--crds requires --from-kopf"),
    ],
)
def test_errors(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "empty.py").write_text("import kopf\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("def (\n", encoding="utf-8")
    done = kubewright(tmp_path, "init", "new", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert not (tmp_path / "new").exists()
