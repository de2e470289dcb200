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
from pathlib import Path
from types import ModuleType
from typing import Any

from kubewright.api.declarations import (
    Declaration,
    DeclarationProvider,
    Rbac,
    Skip,
    Webhook,
    WebhookConfiguration,
    declarations_on,
    is_resource,
)
from kubewright.api.gvk import GroupKind
from kubewright.api.objects import Object

_OURS = str(Path(__file__).parents[1])


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
    elif isinstance(value, DeclarationProvider):
        yield from value.declarations()


def _on_code(value: Any) -> Iterator[Declaration]:
    yield from declarations_on(value)
    if isinstance(value, type):
        for member in vars(value).values():
            yield from declarations_on(member)
    elif not hasattr(value, "__code__") and isinstance(value, DeclarationProvider):
        yield from value.declarations()


def _import(name: str) -> Iterator[ModuleType]:
    module = import_module(name)
    yield module
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
        if found.name.rpartition(".")[2] != "__main__":
            yield import_module(found.name)


def module_name(text: str) -> str:
    """The module that a user means, by name or by its file below the current directory: `shops/main.py`."""
    if not text.endswith(".py") and "/" not in text:
        return text
    path = Path(text)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    if path.is_absolute() or ".." in path.parts:
        raise ProjectError(f"{text} is not below the current directory: go to where its imports start")
    parts = path.with_suffix("").parts if path.suffix == ".py" else path.parts
    return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)


def import_module(text: str) -> ModuleType:
    """Import a module by its name or file; what goes wrong is one line, with the place in the project."""
    name = module_name(text)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            advice = "run this where the project can be imported, or install it: pip install -e ."
            raise ProjectError(f"no module named {name}: {advice}") from error
        raise ProjectError(f"cannot import {name}: {_place(error)}{error}") from error
    except Exception as error:
        place, said = _place(error), str(error)
        if said.startswith(place):
            place = ""
        if isinstance(error, SyntaxError):
            said = error.msg
        if not type(error).__module__.startswith("kubewright."):
            said = f"{type(error).__name__}: {said}"
        raise ProjectError(f"cannot import {name}: {place}{said}") from error


def _place(error: BaseException) -> str:
    """`file:line: ` of the project's code that an import failed in."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not frame.filename.startswith((_OURS, "<"))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
