"""Templates of an installed plug-in, found by its entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kubewright.scaffold import ProjectInputs, ResourceInput, ScaffoldError, create_api, init_project

PLUGIN = """\
from pathlib import Path

from kubewright.scaffold import TemplatePlugin

plugin = TemplatePlugin(Path(__file__).parent / "templates", variables={"team": "storage"})
wrong = "no plug-in"
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with the entry points acme and broken, as pip installs it."""
    site = tmp_path / "site"
    package = site / "acme_templates"
    (package / "templates" / "init").mkdir(parents=True)
    (package / "__init__.py").write_text(PLUGIN)
    metadata = site / "acme_templates-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-templates\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[kubewright.templates]\nacme = acme_templates:plugin\nbroken = acme_templates:wrong\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "acme_templates", raising=False)
    return package / "templates"


def test_templates_are_added_and_replaced(plugin: Path, tmp_path: Path) -> None:
    (plugin / "init" / "OWNERS.j2").write_text("approvers: [{{ team }}]\n")
    (plugin / "init" / "Dockerfile.j2").write_text("FROM acme/{{ project.name }}\n")
    (plugin / "init" / ".gitignore.j2").write_text("")
    controller = plugin / "api" / "src" / "{package}" / "{group}"
    controller.mkdir(parents=True)
    (controller / "{stem}_notes.md.j2").write_text("{{ resource.kind }} {{ resource.api_group }}\n")
    directory = tmp_path / "project"
    init_project(directory, ProjectInputs(name="shop", templates=("acme",)))
    assert (directory / "OWNERS").read_text() == "approvers: [storage]\n"
    assert (directory / "Dockerfile").read_text() == "FROM acme/shop\n"
    assert not (directory / ".gitignore").exists()
    create_api(directory, ResourceInput(group="store", version="v1", kind="Shop"))
    assert (directory / "src" / "shop" / "shop_notes.md").read_text() == "Shop store.example.com\n"
    assert (directory / "src" / "shop" / "shop_controller.py").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no template plug-in named 'missing' is installed; installed: acme, broken"),
        ("broken", "expected a kubewright.scaffold.TemplatePlugin"),
    ],
)
def test_errors_name_the_plugin(plugin: Path, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ScaffoldError, match=message):
        init_project(tmp_path / "project", ProjectInputs(name="shop", templates=(name,)))
    assert not (tmp_path / "project").exists()


def test_errors_in_templates_name_the_file(plugin: Path, tmp_path: Path) -> None:
    (plugin / "init" / "x.j2").write_text("{{ nothing }}")
    with pytest.raises(ScaffoldError, match=r"init/x.j2: 'nothing' is undefined"):
        init_project(tmp_path / "project", ProjectInputs(name="shop", templates=("acme",)))
    (plugin / "init" / "x.j2").unlink()
    (plugin / "init" / "{nothing}.j2").write_text("x")
    with pytest.raises(ScaffoldError, match="unknown field 'nothing'"):
        init_project(tmp_path / "project", ProjectInputs(name="shop", templates=("acme",)))
