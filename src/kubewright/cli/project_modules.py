"""Import of the modules and of the operator of a user's project."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from types import ModuleType

    from kubewright.manager import Operator


def add_project_to_path() -> None:
    """Add the current directory and its `src` to the front of `sys.path`."""
    for folder in ("src", ""):
        path = str(Path.cwd() / folder)
        if Path(path).is_dir() and path not in sys.path:
            sys.path.insert(0, path)


def relative_paths(text: object) -> str:
    """Return a message with paths relative to the current directory."""
    return str(text).replace(f"{Path.cwd()}{os.sep}", "")


def load_operator(target: str) -> Operator:
    """Return the operator of `MODULE[:NAME]`, or of the modules in `[tool.kubewright]` if it is empty.

    In a package, the operator may be in a submodule.
    """
    from kubewright.manager import Operator
    from kubewright.manifests import ProjectError, ProjectSettings, ProjectSettingsError

    name, _, attribute = target.partition(":")
    add_project_to_path()
    try:
        names = [name] if name else list(ProjectSettings.find().modules)
        if not names:
            raise click.UsageError(
                "no module; pass one as in kubewright run shop, or set modules = [...] in [tool.kubewright] "
                "of pyproject.toml"
            )
        modules = [module for each in names for module in _modules_of(each)]
    except (ProjectError, ProjectSettingsError) as error:
        raise click.ClickException(relative_paths(error)) from None
    wanted = attribute or "operator"
    found: dict[int, tuple[str, Operator]] = {}
    named: dict[int, Operator] = {}
    for module in modules:
        label = name if name and module is modules[0] else module.__name__
        for key, value in vars(module).items():
            if isinstance(value, Operator):
                found.setdefault(id(value), (f"{label}:{key}", value))
                if key == wanted:
                    named[id(value)] = value
    if len(named) == 1:
        return next(iter(named.values()))
    where = " and ".join(names)
    problem = f"has several operators named {wanted!r}" if named else f"has no operator named {wanted!r}"
    advice = f"use {' or '.join(key for key, _ in found.values())}"
    if not found:
        advice = 'add operator = Operator("name"), or choose another module'
    raise click.ClickException(f"{where} {problem}; {advice}")


def _modules_of(name: str) -> list[ModuleType]:
    """Import a module; of a package without an operator, also its submodules."""
    import pkgutil

    from kubewright.manager import Operator
    from kubewright.manifests import import_module

    module = import_module(name)
    modules = [module]
    if not any(isinstance(value, Operator) for value in vars(module).values()):
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            if found.name.rpartition(".")[2] != "__main__":
                modules.append(import_module(found.name))
    return modules
