"""Public names of the packages."""

from __future__ import annotations

import inspect
from collections import defaultdict
from importlib import import_module

PACKAGES = (
    "api",
    "apiserver",
    "cache",
    "cel",
    "client",
    "controller",
    "controlplane",
    "manager",
    "manifests",
    "patch",
    "schema",
    "storage",
    "testing",
    "webhook",
)


def test_public_classes_and_functions_of_different_packages_have_different_names() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        module = import_module(f"kubewright.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[name].add(f"{value.__module__}.{value.__qualname__}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
