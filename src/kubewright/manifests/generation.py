"""Generate all manifests of a project as files.

The files are `crd/<group>_<plural>.yaml`, `rbac/role.yaml`, `webhook/manifests.yaml` and, for operators of
single namespaces, `rbac/namespaces.yaml` with the Roles and RoleBindings in these. A project with a
deployment has the files of `kubewright.manifests.deployment` instead.

All problems of a project are reported in one `DeclarationError`. The same declarations always produce the
same bytes; `compare` returns the differences to the files in a directory.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from kubewright.api.declaring.declarations import Rbac, resource_info
from kubewright.api.objects import Object
from kubewright.schema.generation.errors import DeclarationError, Problem
from kubewright.schema.generation.from_types import Options

from .crds import build_crd, version_differences
from .project import Project, load_project
from .rbac import DEFAULT_ROLE, build_bindings, build_roles
from .webhooks import build_webhooks
from .yaml_output import to_yaml

if TYPE_CHECKING:
    from .deployment.tree import DeploymentTree
    from .settings import ProjectSettings

ANNOTATION_LIMIT: Final = 262_144
"""Maximum size of the annotations of an object; client-side apply stores a copy of the object in one."""


@dataclass
class Manifests:
    """Files by path relative to the output directory, and warnings about them."""

    files: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    conversion_problems: list[tuple[Literal["error", "warning"], Problem]] = field(default_factory=list)
    """Problems of converters. The files do not depend on them: a conversion can be written later."""
    initial_files: dict[str, str] = field(default_factory=dict)
    """Files that are written only if they do not exist: the user owns them."""
    tree: DeploymentTree | None = None
    """The deployment, if the settings of the project have one."""
    definitions: list[dict[str, Any]] = field(default_factory=list)
    """The CustomResourceDefinitions, as in the files."""
    other_kinds: list[tuple[str, str]] = field(default_factory=list)
    """Groups and kinds that API servers of the project serve, without a CRD."""

    @property
    def messages(self) -> list[str]:
        """All warnings, with the problems of converters."""
        return [*self.warnings, *(str(problem) for _, problem in self.conversion_problems)]


def generate(
    project: Project,
    options: Options | None = None,
    *,
    role_name: str = DEFAULT_ROLE,
    header: str = "",
    settings: ProjectSettings | None = None,
) -> Manifests:
    """Return all manifests of a project; raise `DeclarationError` with all problems.

    Each line of `header`, such as a licence, becomes a comment at the top of every file. With `settings` that
    have a deployment, the manifests contain it; load the project with `load_project_of(settings)` then.
    """
    options = options or Options()
    problems: list[Problem] = []
    manifests = Manifests()
    definitions: dict[str, dict[str, Any]] = {}
    for group_kind, versions in sorted(project.kinds.items()):
        definition = build_crd(versions, options, problems)
        name = f"crd/{group_kind.group}_{definition['spec']['names']['plural']}.yaml"
        definitions[name] = definition
        manifests.warnings.extend(_size_warning(name, definition))
        missing = _missing_converter(project, versions)
        if missing is not None and (fields := version_differences(definition)):
            problems.append(replace(missing, text=f"{missing.text}; the versions differ in {fields}"))
        elif missing is not None:
            manifests.warnings.append(str(missing))
        problems.extend(_unused_converter(project, versions))
    for provider in project.converting if not problems else ():
        manifests.conversion_problems += provider.conversion_problems()
    if settings is not None and settings.has_deployment:
        from .deployment.tree import build_tree

        tree = build_tree(project, settings, list(definitions.values()), problems)
        manifests.tree, manifests.files = tree, tree.texts()
        manifests.initial_files = tree.initial_files
        manifests.warnings += tree.warnings
    else:
        manifests.files = {name: to_yaml([each]) for name, each in definitions.items()}
        _add_roles_and_webhooks(manifests, project, role_name, problems)
    if problems:
        raise DeclarationError(problems)
    manifests.definitions = list(definitions.values())
    manifests.other_kinds = [
        (info.gvk.group, info.gvk.kind)
        for each in project.api_servers
        for info in map(resource_info, each.app.kinds)
    ]
    if header:
        comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
        manifests.files = {
            name: comment + text if name.endswith(".yaml") else text for name, text in manifests.files.items()
        }
    return manifests


def _add_roles_and_webhooks(
    manifests: Manifests, project: Project, role_name: str, problems: list[Problem]
) -> None:
    served = {id(each.app): each.app for each in project.api_servers}.values()
    of_servers = [rule for app in served for rule in app.server_declarations() if isinstance(rule, Rbac)]
    bound = [rule for rule in project.permissions if rule.service_account]
    unbound = [rule for rule in project.permissions if not rule.service_account]
    roles = build_roles([*unbound, *of_servers], role_name, problems)
    if roles:
        manifests.files["rbac/role.yaml"] = to_yaml(roles)
    if bound:
        in_namespaces = build_roles(bound, role_name, problems) + build_bindings(bound, role_name)
        manifests.files["rbac/namespaces.yaml"] = to_yaml(in_namespaces)
    webhooks = build_webhooks(project.webhooks, project.configurations, problems)
    if webhooks:
        manifests.files["webhook/manifests.yaml"] = to_yaml(webhooks)


def load_project_of(settings: ProjectSettings, modules: Sequence[str] = ()) -> Project:
    """Import the modules of a project and collect what they declare for its deployment, if it has one."""
    if not settings.has_deployment:
        return load_project(list(modules or settings.modules))
    from .deployment.tree import operator_deployment

    return load_project(list(modules or settings.modules), deployment=operator_deployment(settings))


def _missing_converter(project: Project, versions: Sequence[type[Object]]) -> Problem | None:
    infos = [resource_info(each) for each in versions]
    info = next((each for each in infos if each.conversion is not None and not each.conversion.url), None)
    if info is None or project.converted is None or info.gvk.group_kind in project.converted:
        return None
    return Problem(
        info.where,
        info.gvk.kind,
        "declares conversion=WebhookConversion(), but no operator has a converter for it; add one with "
        "operator.convert(...), or remove conversion=",
    )


def _unused_converter(project: Project, versions: Sequence[type[Object]]) -> Iterator[Problem]:
    infos = [resource_info(each) for each in versions]
    first = infos[0]
    if first.gvk.group_kind in (project.converted or ()) and not any(each.conversion for each in infos):
        yield Problem(
            first.where,
            f"{first.gvk.kind} {first.gvk.version}",
            "an operator has a converter for this kind, but an API server does not call it; declare "
            "conversion=WebhookConversion() on the hub",
        )


def _size_warning(name: str, definition: dict[str, Any]) -> Iterator[str]:
    size = len(msgspec.json.encode(definition))
    if size > ANNOTATION_LIMIT:
        yield (
            f"{name}: {size:,} bytes exceed the limit of {ANNOTATION_LIMIT:,} for client-side kubectl apply, "
            "which stores the object in an annotation; use kubectl apply --server-side, shorten "
            "descriptions with --max-description (0 removes them) or MaxDescription(...) on the largest field"
        )


def compare(manifests: Manifests, directory: Path) -> Iterator[str]:
    """Return unified diffs between the files in `directory` and the generated ones."""
    for name, wanted in sorted(manifests.files.items()):
        path = directory / name
        try:
            found = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            found = ""
        if found != wanted:
            yield _diff(path, found, wanted)
    for path in leftovers(manifests, directory):
        yield _diff(path, path.read_text(encoding="utf-8"), "")


def _diff(path: Path, found: str, wanted: str) -> str:
    lines = difflib.unified_diff(
        found.splitlines(keepends=True), wanted.splitlines(keepends=True), str(path), f"{path} (generated)"
    )
    return "".join(lines)


def leftovers(manifests: Manifests, directory: Path) -> list[Path]:
    """Return files that are no longer generated: CRDs of the groups of the project, and other files of a
    deployment that this program has written."""
    groups = {
        name.partition("/")[2].rpartition("_")[0] for name in manifests.files if name.startswith("crd/")
    }
    found = [
        path
        for group in sorted(groups)
        for path in sorted((directory / "crd").glob(f"{group}_*.yaml"))
        if f"crd/{path.name}" not in manifests.files
    ]
    if manifests.tree is not None:
        from .deployment.tree import MANAGED_FILES, is_generated

        found += [
            path
            for name in MANAGED_FILES
            if name not in manifests.files and (path := directory / name).is_file() and is_generated(path)
        ]
    return found


def remove_leftovers(manifests: Manifests, directory: Path) -> list[Path]:
    """Delete generated files of a deployment that are no longer generated, and return them."""
    if manifests.tree is None:
        return []
    from .deployment.tree import is_generated

    removed = [path for path in leftovers(manifests, directory) if is_generated(path)]
    for path in removed:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return removed


def write(manifests: Manifests, directory: Path) -> list[Path]:
    """Write the files that changed and return them; each file is replaced atomically."""
    changed: list[Path] = []
    initial = {
        name: text for name, text in manifests.initial_files.items() if not (directory / name).exists()
    }
    for name, wanted in sorted({**initial, **manifests.files}.items()):
        path = directory / name
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            continue
        replace_file(path, wanted)
        changed.append(path)
    return changed


def replace_file(path: Path, text: str) -> None:
    """Write a file atomically, with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
