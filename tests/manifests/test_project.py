from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.manifests import Manifests, ProjectError, compare, generate, leftovers, load_project, write
from kubewright.manifests.project import module_name

KIND = """
from kubewright.api.declaring.declarations import *
from kubewright.api.meta import CustomResource
from kubewright.api.objects import Spec

class ThingSpec(Spec):
    name: str

@resource(group="things.example.com", version="v1")
class Thing(CustomResource[ThingSpec, None]): ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """An importable package with a name of its own."""
    path = tmp_path / f"project_{abs(hash(request.node.name))}"
    path.mkdir()
    (path / "__init__.py").write_text("")
    (path / "kinds.py").write_text(KIND)
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


def test_package_with_submodules(package: Path) -> None:
    (package / "controller.py").write_text(
        f"""
from kubewright.api.declaring.declarations import *
from {package.name}.kinds import Thing
import functools

ONE = Rbac(groups=("apps",), resources=("deployments",), verbs=("get",))
AGAIN = ONE
SOME = [Webhook(Thing, mutating=True), "something else"]

@declares(Rbac(groups=("core",), resources=("pods",), verbs=("list",)))
def reconcile(): ...

class Reconciler:
    @declares(Rbac(groups=("core",), resources=("nodes",), verbs=("list",)))
    def reconcile(self): ...

class Operator:
    def declarations(self):
        return [Rbac(groups=("batch",), resources=("jobs",), verbs=("create",)), Webhook(Thing)]

operator = Operator()
"""
    )
    project = load_project([package.name])
    assert [str(kind) for kind in project.kinds] == ["Thing.things.example.com"]
    assert [rule.resources for rule in project.permissions] == [
        ("deployments",),
        ("pods",),
        ("nodes",),
        ("jobs",),
    ]
    assert [webhook.mutating for webhook in project.webhooks] == [True, False]


def test_skipped_modules(package: Path) -> None:
    (package / "old").mkdir()
    (package / "old" / "__init__.py").write_text("from kubewright.api import Skip\n\nSKIP = Skip(__name__)\n")
    (package / "old" / "kinds.py").write_text(KIND.replace("Thing", "Relic"))
    (package / "older.py").write_text(KIND.replace("Thing", "Older"))
    project = load_project([package.name])
    assert sorted(kind.kind for kind in project.kinds) == ["Older", "Thing"]


def test_kinds_of_other_packages_are_ignored(package: Path, tmp_path: Path) -> None:
    (tmp_path / f"{package.name}_user.py").write_text(f"from {package.name}.kinds import Thing\n")
    assert load_project([f"{package.name}_user"]).kinds == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere_to_be_found", "nowhere_to_be_found"),
        ("1 / 0", ":1: ZeroDivisionError"),
        ("def (", ":1: SyntaxError"),
        ("from kubewright.api import Ge\nGe('x')", r"broken\.py:2: Ge\('x'\): write a number$"),
        ("from kubewright.api.markers import Gee", "Gee"),
        (
            "from kubewright.api import resource\nresource(group='a.b', version='v1', colour=1)",
            ":2: TypeError: @resource: unknown argument 'colour'",
        ),
        ("import sys\nsys.exit(0)", r":2: the module calls sys\.exit\(\) at import"),
    ],
)
def test_import_errors(package: Path, text: str, message: str) -> None:
    (package / "broken.py").write_text(text)
    with pytest.raises(ProjectError, match=message) as caught:
        load_project([package.name])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("shops", "shops"),
        ("shops.main", "shops.main"),
        ("shops.py", "shops"),
        ("./shops.py", "shops"),
        ("shops/main.py", "shops.main"),
        ("shops/__init__.py", "shops"),
        ("shops/", "shops"),
    ],
)
def test_module_given_as_file(text: str, name: str) -> None:
    assert module_name(text) == name
    if text.endswith(".py"):
        assert module_name(str(Path.cwd() / text)) == name


@pytest.mark.parametrize("text", ["../shops.py", "/elsewhere/shops.py"])
def test_file_outside_of_the_current_directory(text: str) -> None:
    with pytest.raises(ProjectError, match="is not below the current directory"):
        module_name(text)


def test_missing_module() -> None:
    with pytest.raises(ProjectError, match="no module named nowhere_at_all"):
        load_project(["nowhere_at_all"])


def test_only_changed_files_are_written(package: Path, tmp_path: Path) -> None:
    manifests = generate(load_project([package.name]))
    out = tmp_path / "config"
    (crd,) = write(manifests, out)
    assert crd == out / "crd" / "things.example.com_things.yaml"
    assert list(compare(manifests, out)) == []
    assert write(manifests, out) == []
    crd.write_text(crd.read_text().replace("Thing", "Thong"))
    (difference,) = compare(manifests, out)
    assert "-    kind: Thong" in difference
    assert "+    kind: Thing" in difference
    assert write(manifests, out) == [crd]
    assert not list(out.rglob(".*"))


def test_undeclared_definitions_are_reported(package: Path, tmp_path: Path) -> None:
    manifests = generate(load_project([package.name]))
    write(manifests, tmp_path)
    old = tmp_path / "crd" / "things.example.com_olds.yaml"
    old.write_text("kind: Old\n")
    (tmp_path / "crd" / "kustomization.yaml").write_text("resources: []\n")
    assert leftovers(manifests, tmp_path) == [old]
    (difference,) = compare(manifests, tmp_path)
    assert "-kind: Old" in difference


def test_compare_with_an_empty_directory(tmp_path: Path) -> None:
    assert list(compare(Manifests(), tmp_path)) == []
