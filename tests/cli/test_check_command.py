"""`kubewright check`: output and exit codes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from kubewright.api import Unstructured
from kubewright.testing.server import start_test_server

from .in_process import kubewright

SHOP = '''
from __future__ import annotations

from typing import Annotated

from kubewright import Context, Operator
from kubewright.api import Condition, CustomResource, Ge, Le, ListMap, Rbac, Spec, Status, field, resource
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Secret


class ShopSpec(Spec):
    replicas: Annotated[int, Ge(0), Le(10)] = 1
    title: str = "Shop"


class ShopStatus(Status):
    conditions: Annotated[list[Condition], ListMap("type")] = field(default_factory=list)


@resource(group="store.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


operator = Operator("shop")
PERMISSIONS = [Rbac(groups=("core",), resources=("configmaps",), verbs=("get", "list", "watch"))]


@operator.reconcile(Shop, owns=(Deployment,))
async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
    await ctx.client.get(ConfigMap, "settings")
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a git repository with an operator and its manifests, tagged v1."""
    (tmp_path / "pyproject.toml").write_text('[tool.kubewright]\nmodules = ["shop"]\n', encoding="utf-8")
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    assert kubewright(tmp_path, "manifests").returncode == 0
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "Add shops"]
    for arguments in (["init", "-q"], ["add", "-A"], commit, ["tag", "v1"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def edit(project: Path, *replacements: tuple[str, str]) -> None:
    """Change the module of the project."""
    text = (project / "shop.py").read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    (project / "shop.py").write_text(text, encoding="utf-8")


def test_a_project_without_problems(project: Path) -> None:
    done = kubewright(project, "check", "--against", "v1")
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 breaking and 0 compatible changes against v1" in done.stderr


def test_breaking_changes_against_a_git_revision(project: Path) -> None:
    edit(project, ("Le(10)", "Le(5)"), ('    title: str = "Shop"', "    colour: str | None = None"))
    done = kubewright(project, "check", "--against", "v1")
    assert done.returncode == 1
    assert ".spec.title" in done.stdout
    assert "maximum changed from 10 to 5" in done.stdout
    assert "optional field added" not in done.stdout
    assert "2 breaking and 1 compatible changes against v1; print the compatible ones" in done.stderr
    listed = json.loads(kubewright(project, "check", "--against", "v1", "--output", "json").stdout)
    assert {(each["path"], each["compatibility"]) for each in listed["changes"]} == {
        (".spec.title", "breaking"),
        (".spec.replicas", "breaking"),
        (".spec.colour", "compatible"),
    }


def test_compatible_changes_pass(project: Path) -> None:
    edit(project, ('    title: str = "Shop"', '    title: str = "Shop"\n    colour: str | None = None'))
    done = kubewright(project, "check", "--against", "v1", "--all")
    assert done.returncode == 0
    assert "optional field added" in done.stdout


def test_against_files_and_directories(project: Path) -> None:
    released = project / "released"
    (project / "config" / "crd").rename(released)
    edit(project, ('    title: str = "Shop"\n', ""))
    for path in ("released", "released/store.example.com_shops.yaml"):
        done = kubewright(project, "check", "--against", path)
        assert done.returncode == 1
        assert ".spec.title" in done.stdout


def test_files_without_a_project(tmp_path: Path, project: Path) -> None:
    source = next((project / "config" / "crd").glob("*.yaml"))
    crd = yaml.safe_load(source.read_text(encoding="utf-8"))
    crd["spec"]["scope"] = "Cluster"
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(crd), encoding="utf-8")
    done = kubewright(tmp_path, "check", "--crds", "new.yaml", "--against", str(source))
    assert done.returncode == 1
    assert "scope changed from Namespaced to Cluster" in done.stdout


def test_a_missing_permission_names_file_and_line(project: Path) -> None:
    edit(project, ('"settings")\n', '"settings")\n    await ctx.client.create(Secret())\n'))
    done = kubewright(project, "check")
    assert done.returncode == 1
    line = SHOP.count("\n") + 1
    assert done.stdout == (
        f"Error: shop.py:{line}: create(Secret): no rule grants create on secrets; add "
        'Rbac(groups=("core",), resources=("secrets",), verbs=("create",))\n'
    )


def test_an_unused_rule_is_a_warning(project: Path) -> None:
    edit(project, ('    await ctx.client.get(ConfigMap, "settings")', "    pass"))
    done = kubewright(project, "check")
    assert done.returncode == 0
    assert "Warning: shop.py:27: Rbac: no call in the code uses this rule for configmaps" in done.stdout
    assert kubewright(project, "check", "--strict").returncode == 1


def test_invalid_declarations(project: Path) -> None:
    edit(project, ("Ge(0), Le(10)", "Ge(20), Le(30)"))
    done = kubewright(project, "check", "--against", "v1")
    assert done.returncode == 1
    assert "Error: shop.py:13: Shop.spec.replicas: default 1 is rejected by its own schema" in done.stdout


def test_conditions_without_keys(project: Path) -> None:
    edit(project, ('Annotated[list[Condition], ListMap("type")]', "list[Condition]"))
    done = kubewright(project, "check")
    assert "Shop v1.status.conditions: conditions of several managers overwrite each other" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--against", "v9"], 1, "v9 is not a file, a directory or a git revision"),
        (["--crds", "config"], 2, "--crds requires --against"),
        (["--against"], 2, "requires an argument"),
        (["missing_module"], 1, "no module named missing_module"),
    ],
)
def test_usage(project: Path, arguments: list[str], code: int, message: str) -> None:
    done = kubewright(project, "check", *arguments)
    assert done.returncode == code
    assert message in done.stderr


def test_a_revision_without_manifests(project: Path) -> None:
    done = kubewright(project, "check", "--against", "v1")
    assert done.returncode == 0
    (project / "pyproject.toml").write_text(
        '[tool.kubewright]\nmodules = ["shop"]\n[tool.kubewright.manifests]\noutput = "deploy"\n',
        encoding="utf-8",
    )
    done = kubewright(project, "check", "--against", "v1")
    assert done.returncode == 1
    assert "revision v1 has no CustomResourceDefinition in deploy/" in done.stderr


async def test_against_a_cluster(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_test_server("tls", None, controllers=False) as server:
        crd = yaml.safe_load(next((project / "config" / "crd").glob("*.yaml")).read_text(encoding="utf-8"))
        await server.client().create(Unstructured(crd))
        monkeypatch.setenv("KUBECONFIG", str(server.plane.kubeconfig))
        same = await asyncio.to_thread(kubewright, project, "check", "--against", "cluster")
        assert same.returncode == 0, same
        assert "0 breaking and 0 compatible changes against cluster" in same.stderr
        edit(project, ('    title: str = "Shop"\n', ""))
        changed = await asyncio.to_thread(kubewright, project, "check", "--against", "cluster")
        assert changed.returncode == 1
        assert ".spec.title" in changed.stdout
