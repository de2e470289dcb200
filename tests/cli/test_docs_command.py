"""`kubewright docs`, `completion` and `version`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kubewright.testing.server import start_test_server

from .in_process import kubewright

TYPES = '''
from kubewright.api import CustomResource, Spec, resource


class ShopSpec(Spec):
    title: str = "Shop"
    """Name above the door."""


@resource(group="store.example.com", version="v1")
class Shop(CustomResource[ShopSpec, None]):
    """A shop."""
'''
SAMPLE = (
    "apiVersion: store.example.com/v1\nkind: Shop\nmetadata: {name: corner}\nspec: {title: Corner shop}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a kind and a sample."""
    (tmp_path / "pyproject.toml").write_text('[tool.kubewright]\nmodules = ["shops"]\n', encoding="utf-8")
    (tmp_path / "shops.py").write_text(TYPES, encoding="utf-8")
    samples = tmp_path / "config" / "samples"
    samples.mkdir(parents=True)
    (samples / "shop.yaml").write_text(SAMPLE, encoding="utf-8")
    return tmp_path


def test_docs_are_written_and_checked(project: Path) -> None:
    outdated = kubewright(project, "docs", "--check")
    assert (outdated.returncode, outdated.stderr) == (
        1,
        "Error: docs/api.md is outdated; run kubewright docs --output docs/api.md\n",
    )
    assert kubewright(project, "docs").stderr == "wrote docs/api.md\n"
    page = (project / "docs" / "api.md").read_text(encoding="utf-8")
    assert '| `spec.title` | string | `"Shop"` | Name above the door. |' in page
    assert "title: Corner shop" in page
    assert kubewright(project, "docs", "--check").returncode == 0


def test_the_name_of_the_output_decides_the_format(project: Path) -> None:
    assert kubewright(project, "docs", "--output", "api.html").returncode == 0
    assert (project / "api.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert kubewright(project, "docs", "-o", "-", "--format", "html").stdout.startswith("<!doctype html>")


def test_docs_of_existing_definitions(project: Path) -> None:
    crds = Path(__file__).parents[1] / "scaffold" / "crds"
    page = kubewright(project, "docs", "-o", "-", "--crds", str(crds)).stdout
    assert "## HTTPRoute v1beta1" in page
    assert "## VirtualService v1alpha3" in page


def test_docs_need_modules(tmp_path: Path) -> None:
    done = kubewright(tmp_path, "docs")
    assert done.returncode == 2
    assert "no modules" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(tmp_path: Path, shell: str) -> None:
    done = kubewright(tmp_path, "completion", shell)
    assert done.returncode == 0
    assert f"_KUBEWRIGHT_COMPLETE={shell}_complete" in done.stdout


def test_completion_of_commands_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_KUBEWRIGHT_COMPLETE", "bash_complete")
    for words, expected in (("kubewright che", "plain,check"), ("kubewright check --ag", "plain,--against")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert expected in kubewright(tmp_path).stdout.splitlines()


async def test_version_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_test_server("tls", None, controllers=False) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.plane.kubeconfig))
        done = await asyncio.to_thread(kubewright, tmp_path, "version", "--server", "--output", "json")
        versions = json.loads(done.stdout)
        assert versions["server"].startswith(f"v{versions['kubernetes']}")
        text = await asyncio.to_thread(kubewright, tmp_path, "version", "--server")
        assert text.stdout.splitlines()[1] == f"server {versions['server']}"
    assert "server" not in json.loads(kubewright(tmp_path, "version", "--output", "json").stdout)
