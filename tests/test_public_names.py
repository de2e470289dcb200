"""Public names of the packages."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGES = sorted(
    ".".join(stub.parent.relative_to(SOURCE).parts) for stub in (SOURCE / "kubewright").rglob("__init__.pyi")
)
"""All packages that export names."""


def test_public_classes_and_functions_of_different_packages_have_different_names() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[name].add(f"{value.__module__}.{value.__qualname__}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_private_exceptions_are_caught_in_their_module() -> None:
    """The class name of an error that is logged or printed is one that users can import."""
    escaping = []
    for path in (Path(__file__).parents[1] / "src").rglob("*.py"):
        tree = ast.parse(path.read_text())
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        private = {
            each.name
            for each in classes
            if each.name.startswith("_")
            and any(ast.unparse(base).endswith(("Error", "Exception")) for base in each.bases)
        }
        caught = {
            name.id
            for node in ast.walk(tree)
            if isinstance(node, ast.ExceptHandler) and node.type is not None
            for name in ast.walk(node.type)
            if isinstance(name, ast.Name)
        }
        escaping += [f"{path.name}: {name}" for name in sorted(private - caught)]
    assert escaping == []


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("kubewright.explore", "Budget", "ExplorationBudget"),
        ("kubewright.explore", "ObjectKey", "StateKey"),
        ("kubewright.explore", "Program", "ExploredProgram"),
        ("kubewright.scaffold", "Resource", "ResourceInput"),
        ("kubewright.workloads.cloud", "Clusters", "CloudClusters"),
        ("kubewright.workloads.scheduler", "Status", "SchedulingStatus"),
    ],
)
def test_former_names_are_deprecated_aliases(package: str, old: str, new: str) -> None:
    module = import_module(package)
    with pytest.warns(DeprecationWarning, match=f"{package}.{old} is deprecated; use {package}.{new}"):
        assert getattr(module, old) is getattr(module, new)


def test_internals_of_the_api_package_are_imported_from_their_modules() -> None:
    api = import_module("kubewright.api")
    with pytest.warns(DeprecationWarning, match=r"use kubewright\.api\.objects\.copy_value"):
        copy_value = api.copy_value
    assert copy_value is import_module("kubewright.api.objects").copy_value
    assert "copy_value" not in api.__all__
