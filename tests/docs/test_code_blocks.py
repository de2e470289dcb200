"""Every Python block of the documentation passes a type checker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.code_blocks import ROOT, Block, blocks_of, write_modules

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CACHE = ROOT / ".mypy_cache" / "blocks"
# Fragments leave out annotations of tests, and bodies.
OPTIONS = (
    *("--strict", "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls"),
    *("--implicit-reexport", "--no-warn-return-any", "--disable-error-code=return"),
    *("--disable-error-code=empty-body", "--ignore-missing-imports", "--config-file="),
)


def in_pages(output: list[tuple[str, int, str]], blocks: dict[str, Block], directory: Path) -> list[str]:
    """Return errors of modules with the page and line of the block."""
    found = []
    for name, line, text in output:
        block = blocks[Path(name).stem]
        lines = (directory / f"{block.module}.py").read_text(encoding="utf-8").splitlines()
        offset = line - lines.index(f"# {block.place}") - 2 - block.is_coroutine
        found.append(f"docs/{block.page}.md:{block.line + offset}: {text}")
    return sorted(found)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Block]]:
    directory = tmp_path_factory.mktemp("blocks")
    return directory, write_modules(directory, PAGES)


def test_blocks_pass_mypy(modules: tuple[Path, dict[str, Block]]) -> None:
    directory, blocks = modules
    assert len(blocks) > 100
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *OPTIONS, "--cache-dir", str(CACHE), "."],
        cwd=directory,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(\S+\.py):(\d+): error: (.*)$", result.stdout, re.MULTILINE)
    errors = in_pages([(name, int(line), text) for name, line, text in found], blocks, directory)
    assert result.returncode == 0, "\n".join(errors) or result.stdout + result.stderr


def test_programs_of_the_book_pass_mypy(tmp_path: Path) -> None:
    book = ROOT / "examples/book"
    for number in range(1, 7):
        name = "sites" if number == 6 else f"chapter{number}"
        shutil.copyfile(book / f"chapter{number}/sites.py", tmp_path / f"{name}.py")
    shutil.copyfile(book / "chapter6/test_sites.py", tmp_path / "test_sites.py")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(CACHE), "."],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_blocks_pass_pyright(modules: tuple[Path, dict[str, Block]]) -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed (pip install pyright)")
    directory, blocks = modules
    settings = {
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "reportReturnType": "none",
        "reportMissingModuleSource": "none",
    }
    (directory / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    result = subprocess.run(
        [pyright, "--outputjson", "--pythonpath", sys.executable, "."],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] > 100
    found = [
        (each["file"], each["range"]["start"]["line"] + 1, f"{each['message']} ({each.get('rule')})")
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]
    errors = in_pages(found, blocks, directory)
    assert not errors, "\n".join(errors)


def test_blocks_without_a_check_have_a_reason() -> None:
    options = [block.option for page in PAGES for block in blocks_of(page) if block.option]
    assert all(re.fullmatch(r"(assumes \w+(, \w+)*|not checked: .+)", option) for option in options)
    assert sum(option.startswith("not checked") for option in options) < 10


def test_an_error_is_found_and_placed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx: int = client.missing\n```\n", encoding="utf-8")
    block = Block("page", 1, 4, "x: int = client.missing\n", "")
    (tmp_path / "page_1.py").write_text(f"\n\n# {block.place}\nx\n", encoding="utf-8")
    assert in_pages([("page_1.py", 4, "wrong")], {"page_1": block}, tmp_path) == ["docs/page.md:4: wrong"]
