"""Packages are small enough to look through, and their docstrings list their modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "kubewright"
LARGEST = 21
"""Modules of a package; a larger one is grouped by concern."""


def children(package: Path) -> set[str]:
    """The modules and packages of a package, except packages of an API group, which contain versions."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.parent.name for path in package.glob("*/__init__.py") if not is_api_group(path.parent)}
    return modules | packages


def is_api_group(package: Path) -> bool:
    return all(re.fullmatch(r"__init__|v\d\w*", path.stem) for path in package.glob("*.py"))


PACKAGES = sorted(
    path.parent.relative_to(SOURCE)
    for path in SOURCE.rglob("__init__.py")
    if path.parent != SOURCE and not is_api_group(path.parent)
)


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_docstring_lists_the_modules(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text())) or ""
    mentioned = set(re.findall(r"`(\w+)[`.]", docstring))
    assert children(SOURCE / package) - mentioned == set()
    listed = {
        name
        for line in re.findall(r"^(?:- |\| )((?:`\w+`(?:, )?)+)", docstring, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    existing = {path.stem for path in (SOURCE / package).iterdir()}
    assert listed - existing == set()


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_package_has_few_modules(package: Path) -> None:
    assert len(list((SOURCE / package).glob("*.py"))) <= LARGEST


def test_modules_have_no_list_of_their_names() -> None:
    """Stubs of packages declare what is exported; names with an underscore are private to their module."""
    modules = (path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    written = (path for path in modules if not is_api_group(path.parent))
    assert [path for path in written if re.search(r"^__all__\b", path.read_text(), re.MULTILINE)] == []
