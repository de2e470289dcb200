"""Import of the modules and of the operator or API server of a user's project."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from types import ModuleType

    from kubewright.extension import APIServerApp
    from kubewright.manager import Operator


def add_project_to_path(directory: Path | None = None) -> None:
    """Add a directory (default: the current one) and its `src` to the front of `sys.path`."""
    for folder in ("src", ""):
        path = str((directory or Path.cwd()) / folder)
        if Path(path).is_dir() and path not in sys.path:
            sys.path.insert(0, path)


def missing_modules(command: str) -> str:
    """Return the error of a command that has no modules to read."""
    return (
        f"no modules; pass them as arguments (kubewright {command} mypackage), or set modules = [...] in "
        "[tool.kubewright] of pyproject.toml"
    )


def relative_paths(text: object) -> str:
    """Return a message with paths relative to the current directory."""
    return str(text).replace(f"{Path.cwd()}{os.sep}", "")


def load_program(target: str) -> Operator | APIServerApp:
    """Return the operator or API server of `MODULE[:NAME]`, or of the modules in `[tool.kubewright]`.

    In a package, it may be in a submodule. Without a name, an operator is named `operator` and an API server
    `app`; of a module with both, the operator is returned unless it declares no functions.
    """
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
    found: dict[int, str] = {}
    named: dict[str, dict[int, Any]] = {}
    for module in modules:
        label = name if name and module is modules[0] else module.__name__
        for key, value in vars(module).items():
            if _is_program(value):
                found.setdefault(id(value), f"{label}:{key}")
                named.setdefault(key, {})[id(value)] = value
    chosen: dict[int, Any] = {}
    for wanted in (attribute,) if attribute else ("operator", "app"):
        candidates = named.get(wanted, {})
        if not chosen or all(each.is_empty for each in chosen.values()):
            chosen = candidates or chosen
    if len(chosen) == 1:
        program: Operator | APIServerApp = next(iter(chosen.values()))
        return program
    where, wanted = " and ".join(names), attribute or "operator"
    problem = f"has several operators named {wanted!r}" if chosen else f"has no operator named {wanted!r}"
    advice = f"use {' or '.join(found.values())}"
    if not found:
        advice = 'add operator = Operator("name"), or choose another module'
    raise click.ClickException(f"{where} {problem}; {advice}")


def _is_program(value: object) -> bool:
    """Whether a value is an operator or an API server; does not import the packages of these classes."""
    for module, name in (
        ("kubewright.manager.operators.operator", "Operator"),
        ("kubewright.extension.app", "APIServerApp"),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(value, getattr(loaded, name)):
            return True
    return False


def _modules_of(name: str) -> list[ModuleType]:
    """Import a module; of a package without an operator or API server, also its submodules."""
    import pkgutil

    from kubewright.manifests import import_module

    module = import_module(name)
    modules = [module]
    if not any(_is_program(value) for value in vars(module).values()):
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            if found.name.rpartition(".")[2] != "__main__":
                modules.append(import_module(found.name))
    return modules
