"""Import the modules of a project and collect their declarations.

A project is a list of modules and packages with their submodules. Kinds are collected from the module that
defines them. Permissions and webhooks are collected from all modules: assigned to a name, in a list or tuple,
attached to a function or class by `@declares`, or returned by the `declarations()` of an object such as an
operator. A module with a `Skip` of its own name is excluded with its submodules.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, runtime_checkable

from kubewright.api.constructor_errors import explain
from kubewright.api.declaring.declarations import (
    Declaration,
    DeclarationProvider,
    Rbac,
    Skip,
    Webhook,
    WebhookConfiguration,
    declarations_on,
    is_resource,
    resource_info,
)
from kubewright.api.gvk import GroupKind
from kubewright.api.objects import Object
from kubewright.schema.generation.errors import Problem

_PACKAGE = str(Path(__file__).parents[1])


class ProjectError(Exception):
    """A module of the project cannot be imported; the message is one line with module and reason."""


@dataclass(frozen=True, kw_only=True)
class OperatorDeployment:
    """How an operator is deployed, as far as its permissions depend on it."""

    namespace: str
    service_account: str
    namespaced: bool = False
    """Whether the operator watches only its own namespace, unless the program names others."""
    leader_election: bool = True
    webhooks: bool = True
    managed_certificates: bool = True
    """Whether the operator issues the certificate of its webhooks."""


@runtime_checkable
class DeployableOperator(Protocol):
    """An operator whose declarations depend on how it is deployed."""

    name: str

    @property
    def watched_namespaces(self) -> Sequence[str]:
        """Namespaces that the program restricts the operator to; empty: all."""
        ...

    def deployed_declarations(self, deployment: OperatorDeployment) -> Iterable[Declaration]:
        """Return the declarations for a deployment."""
        ...


@dataclass(frozen=True)
class OperatorReference:
    """An operator of the project, and where `kubewright run` finds it."""

    module: str
    attribute: str
    operator: DeployableOperator

    @property
    def target(self) -> str:
        """The argument of `kubewright run`."""
        return self.module if self.attribute == "operator" else f"{self.module}:{self.attribute}"


@runtime_checkable
class DeployableAPIServer(Protocol):
    """An extension API server, which serves kinds without CRDs."""

    name: str

    @property
    def service(self) -> str:
        """Name of its Service."""
        ...

    @property
    def storage(self) -> str:
        """URL of its storage."""
        ...

    @property
    def group_priority(self) -> int:
        """`groupPriorityMinimum` of its APIServices."""
        ...

    @property
    def kinds(self) -> Sequence[type[Object]]:
        """The classes of all served kinds and versions."""
        ...

    def group_versions(self) -> Sequence[tuple[str, str]]:
        """Return the served groups and versions."""
        ...

    @property
    def stores_objects(self) -> bool:
        """Whether its storage has objects of its own, and not only copies."""
        ...

    def server_declarations(self, deployment: OperatorDeployment | None = None) -> Iterable[Declaration]:
        """Return the RBAC rules of the server, beside those to delegate authentication."""
        ...


@dataclass(frozen=True)
class APIServerReference:
    """An API server of the project, and where `kubewright run` finds it."""

    module: str
    attribute: str
    app: DeployableAPIServer

    @property
    def target(self) -> str:
        """The argument of `kubewright run`."""
        return f"{self.module}:{self.attribute}"


@dataclass
class Project:
    """Declarations of some modules, in the order in which they were found."""

    kinds: dict[GroupKind, list[type[Object]]] = field(default_factory=dict)
    permissions: list[Rbac] = field(default_factory=list)
    webhooks: list[Webhook] = field(default_factory=list)
    configurations: list[WebhookConfiguration] = field(default_factory=list)
    converted: set[GroupKind] | None = None
    """Kinds that operators of the project convert; `None` if the project has no operator."""
    converting: list[ConversionProvider] = field(default_factory=list)
    """The operators that convert."""
    operators: list[OperatorReference] = field(default_factory=list)
    api_servers: list[APIServerReference] = field(default_factory=list)
    modules: list[ModuleType] = field(default_factory=list)


@runtime_checkable
class ConversionProvider(Protocol):
    """An object that converts between versions of kinds, such as an operator."""

    def converted_kinds(self) -> Iterable[GroupKind]:
        """Return the kinds with a converter."""
        ...

    def conversion_problems(self) -> Iterable[tuple[Literal["error", "warning"], Problem]]:
        """Return problems of the converters."""
        ...


def load_project(names: Sequence[str], *, deployment: OperatorDeployment | None = None) -> Project:
    """Import modules and packages by name and collect their declarations.

    With `deployment`, operators declare what they require when they are deployed in this way.
    """
    modules: dict[str, ModuleType] = {}
    for name in names:
        for module in _import(name):
            modules.setdefault(module.__name__, module)
    return read_project(modules.values(), deployment=deployment)


def read_project(modules: Iterable[ModuleType], *, deployment: OperatorDeployment | None = None) -> Project:
    """Collect the declarations of modules; see `load_project`."""
    scanned = _without_skipped(list(modules))
    homes = {module.__name__ for module in scanned}
    project = Project(modules=scanned)
    seen: set[int] = set()
    for module in scanned:
        for attribute, value in list(vars(module).items()):
            if isinstance(value, DeployableOperator) and not isinstance(value, type):
                project.operators.append(OperatorReference(module.__name__, attribute, value))
            if isinstance(value, DeployableAPIServer) and not isinstance(value, type):
                project.api_servers.append(APIServerReference(module.__name__, attribute, value))
            if id(value) in seen:
                continue
            if is_resource(value) and value.__module__ in homes:
                seen.add(id(value))
                if resource_info(value).external:
                    continue
                project.kinds.setdefault(value.gvk.group_kind, []).append(value)
            if isinstance(value, ConversionProvider) and not isinstance(value, type):
                project.converted = (project.converted or set()) | set(value.converted_kinds())
                if value not in project.converting:
                    project.converting.append(value)
            for declaration in _declarations(value, homes, deployment):
                if id(declaration) not in seen:
                    seen.add(id(declaration))
                    _add(project, declaration)
    for reference in project.api_servers:
        for kind in reference.app.kinds:
            project.kinds.pop(resource_info(kind).gvk.group_kind, None)
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


def _declarations(
    value: Any, homes: set[str], deployment: OperatorDeployment | None
) -> Iterator[Declaration]:
    if isinstance(value, Declaration):
        yield value
    elif deployment is not None and isinstance(value, DeployableOperator) and not isinstance(value, type):
        yield from value.deployed_declarations(deployment)
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
    """Return the name of a module that is given by name or by a file such as `shops/main.py`."""
    if not text.endswith(".py") and "/" not in text:
        return text
    path = Path(text)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    if path.is_absolute() or ".." in path.parts:
        raise ProjectError(f"{text} is not below the current directory; run this where its imports start")
    parts = path.with_suffix("").parts if path.suffix == ".py" else path.parts
    return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)


def import_module(text: str) -> ModuleType:
    """Import a module by name or file; raise `ProjectError` with one line and the place in the project."""
    name = module_name(text)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            advice = "run this where the project can be imported, or install it: pip install -e ."
            raise ProjectError(f"no module named {name}: {advice}") from error
        raise ProjectError(f"cannot import {name}: {_place(error)}{error}") from error
    except SystemExit as error:
        # Without this, a module that exits at import would end the command with its own exit code.
        message = f"cannot import {name}: {_place(error)}the module calls sys.exit() at import"
        raise ProjectError(message) from error
    except Exception as error:
        place, message = _place(error), str(error)
        if message.startswith(place):
            place = ""
        if isinstance(error, SyntaxError):
            message = error.msg
        if not type(error).__module__.startswith("kubewright."):
            message = f"{type(error).__name__}: {message}"
        if explanation := explain(error):
            message = f"{message} ({explanation})"
        raise ProjectError(f"cannot import {name}: {place}{message}") from error


def _place(error: BaseException) -> str:
    """Return `file:line: ` of the code of the project in which an import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not frame.filename.startswith((_PACKAGE, "<"))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
