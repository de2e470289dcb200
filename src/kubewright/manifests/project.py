"""What a project declares, found by importing its modules.

A project is a list of modules and packages (a package with everything below it). Kinds count in the module
that defines them. Permissions and webhooks count wherever a module of the project holds them: under a name,
in a list or tuple, on a function or class by `@declares`, or behind the `declarations()` of an object such as
an operator. A module that holds a `Skip` of its own name is left out with everything below it.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kubewright.api.declare import (
    Declaration,
    Declares,
    Rbac,
    Skip,
    Webhook,
    WebhookConfiguration,
    declared_on,
    is_resource,
)
from kubewright.api.gvk import GroupKind
from kubewright.api.model import Object


class ProjectError(Exception):
    """A project that cannot be read; the text says which module and why, in one line."""


@dataclass
class Project:
    """The declarations of some modules, in the order in which they were found."""

    kinds: dict[GroupKind, list[type[Object]]] = field(default_factory=dict)
    permissions: list[Rbac] = field(default_factory=list)
    webhooks: list[Webhook] = field(default_factory=list)
    configurations: list[WebhookConfiguration] = field(default_factory=list)


def load_project(names: Sequence[str]) -> Project:
    """Import modules and packages by name and collect what they declare."""
    modules: dict[str, ModuleType] = {}
    for name in names:
        for module in _import(name):
            modules.setdefault(module.__name__, module)
    return read_project(modules.values())


def read_project(modules: Iterable[ModuleType]) -> Project:
    """Collect what modules declare."""
    scanned = _without_skipped(list(modules))
    homes = {module.__name__ for module in scanned}
    project = Project()
    seen: set[int] = set()
    for module in scanned:
        for value in list(vars(module).values()):
            if id(value) in seen:
                continue
            if is_resource(value) and value.__module__ in homes:
                seen.add(id(value))
                project.kinds.setdefault(value.gvk.group_kind, []).append(value)
            for declaration in _declarations(value, homes):
                if id(declaration) not in seen:
                    seen.add(id(declaration))
                    _add(project, declaration)
    return project


def _without_skipped(modules: list[ModuleType]) -> list[ModuleType]:
    values = (value for module in modules for value in vars(module).values())
    skipped = {value.module for value in values if isinstance(value, Skip)}
    return [
        module
        for module in modules
        if not any(f"{module.__name__}.".startswith(f"{name}.") for name in skipped)
    ]


def _add(project: Project, declaration: Declaration) -> None:
    if isinstance(declaration, Rbac):
        project.permissions.append(declaration)
    elif isinstance(declaration, Webhook):
        project.webhooks.append(declaration)
    else:
        project.configurations.append(declaration)


def _declarations(value: Any, homes: set[str]) -> Iterator[Declaration]:
    if isinstance(value, Declaration):
        yield value
    elif isinstance(value, list | tuple):
        yield from (item for item in value if isinstance(item, Declaration))
    elif isinstance(value, type) or callable(value):
        if getattr(value, "__module__", None) in homes:
            yield from _on_code(value)
    elif isinstance(value, Declares):
        yield from value.declarations()


def _on_code(value: Any) -> Iterator[Declaration]:
    yield from declared_on(value)
    if isinstance(value, type):
        for member in vars(value).values():
            yield from declared_on(member)
    elif not hasattr(value, "__code__") and isinstance(value, Declares):
        yield from value.declarations()


def _import(name: str) -> Iterator[ModuleType]:
    module = _import_one(name)
    yield module
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        if found.name.rpartition(".")[2] != "__main__":
            yield _import_one(found.name)


def _import_one(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            advice = "run this where the project can be imported, or install it: pip install -e ."
            raise ProjectError(f"no module named {name}: {advice}") from error
        raise ProjectError(f"cannot import {name}: {_place(error)}{error}") from error
    except Exception as error:
        raise ProjectError(f"cannot import {name}: {_place(error)}{type(error).__name__}: {error}") from error


def _place(error: BaseException) -> str:
    """`file:line: ` of the project's code that an import failed in."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and "/kubewright/" not in frame.filename
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
