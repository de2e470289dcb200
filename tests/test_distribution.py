"""Content of the wheels and the sdist, and the changelog."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import kubewright

ROOT = Path(__file__).parents[1]
LARGEST = 6_000_000
"""Bytes of the wheel; the schemas and wire tables of the built-in types are most of it."""


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a wheel and an sdist of the working tree."""
    output = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(output)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return output


def test_wheel_contains_the_package_and_its_data(distribution: Path) -> None:
    (wheel,) = distribution.glob("*.whl")
    assert wheel.name == f"kubewright-{kubewright.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "kubewright").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert wanted <= set(names)
    metadata = [name for name in names if ".dist-info/" in name]
    assert set(names) - set(metadata) == wanted


def test_sdist_contains_no_tests(distribution: Path) -> None:
    (sdist,) = distribution.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"} <= set(names)
    assert any(name.startswith("src/kubewright/") for name in names)
    # Templates are named after the tests that they generate; pages of the book show tests.
    shown = ("src/kubewright/scaffold/templates/", "examples/book/")
    own = [name for name in names if not name.startswith(shown)]
    assert [name for name in own if re.search(r"(^|/)(tests/|test_[^/]*\.py$)", name)] == []


def test_changelog_has_an_entry_for_the_version() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased"
    assert kubewright.__version__ in headings or len(headings) == 1
