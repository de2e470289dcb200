"""docs/extension-points.md: every row has an example, a guide and a test that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "extension-points.md"
EXAMPLES = "https://github.com/kubewright/kubewright/tree/main/examples/"
HEADER = ["Extension point", "Use it when", "Write", "Example", "Guide", "Test"]


def rows() -> list[list[str]]:
    found = []
    columns = 0
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells == HEADER:
            columns = len(cells)
        elif not cells:
            columns = 0
        elif columns and not set(line) <= set("|-"):
            assert len(cells) == columns, line
            found.append(cells)
    return found


def anchor_of(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def check_link(target: str) -> None:
    if target.startswith(EXAMPLES):
        directory = ROOT / "examples" / target.removeprefix(EXAMPLES)
        assert directory.is_dir(), target
        assert any(directory.iterdir())
        return
    name, _, anchor = target.partition("#")
    page = ROOT / "docs" / name
    assert page.is_file(), target
    if anchor:
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
        assert anchor in map(anchor_of, headings), target


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_rows_name_examples_and_tests_that_exist(row: list[str]) -> None:
    point, when, write, example, guide, test = row
    assert point and when and write  # noqa: PT018
    for cell in (example, guide):
        links = re.findall(r"\[[^]]+\]\(([^)]+)\)", cell)
        assert links, row
        for target in links:
            check_link(target)
    path, _, name = test.strip("`").partition("::")
    source = ROOT / path
    assert source.is_file(), test
    tests = [
        node.name
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert tests, test
    assert not name or name in tests, test


def test_examples_are_in_the_table() -> None:
    text = PAGE.read_text()
    # Other operators, and classes for tests of manifests.
    others = {"at", "autoscaler", "book", "database", "queue", "types"}
    examples = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    missing = {each for each in examples - others if f"{EXAMPLES}{each})" not in text}
    assert {each for each in missing if not each.startswith((".", "_"))} == set()
    assert len(rows()) >= 25
