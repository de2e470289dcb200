"""All manifests of a project as files.

They are `crd/<group>_<plural>.yaml`, `rbac/role.yaml` and `webhook/manifests.yaml`.

Generation looks at everything before it complains, so all problems of a project come in one
`DeclarationError`. The same declarations always give the same bytes; `compare` tells how the files in a
directory differ from them.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kubewright.schema.generation.errors import DeclarationError, Problem
from kubewright.schema.generation.from_types import Options

from .crd import build_crd
from .project import Project
from .rbac import DEFAULT_ROLE, build_roles
from .webhooks import build_webhooks
from .yaml_output import to_yaml

ANNOTATION_LIMIT: Final = 262_144
"""Bytes that all annotations of an object may have together; client-side apply keeps a copy of it in one."""


@dataclass
class Manifests:
    """Files by their path below the output directory, and what the author should know about them."""

    files: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def generate(
    project: Project, options: Options | None = None, *, role_name: str = DEFAULT_ROLE, header: str = ""
) -> Manifests:
    """Every manifest of a project; raises `DeclarationError` with every problem in it.

    Each line of `header` (a licence, say) becomes a comment at the top of every file.
    """
    options = options or Options()
    problems: list[Problem] = []
    manifests = Manifests()
    for group_kind, versions in sorted(project.kinds.items()):
        definition = build_crd(versions, options, problems)
        name = f"crd/{group_kind.group}_{definition['spec']['names']['plural']}.yaml"
        manifests.files[name] = to_yaml([definition])
        manifests.warnings.extend(_size_warning(name, definition))
    roles = build_roles(project.permissions, role_name, problems)
    if roles:
        manifests.files["rbac/role.yaml"] = to_yaml(roles)
    webhooks = build_webhooks(project.webhooks, project.configurations, problems)
    if webhooks:
        manifests.files["webhook/manifests.yaml"] = to_yaml(webhooks)
    if problems:
        raise DeclarationError(problems)
    if header:
        comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
        manifests.files = {name: comment + text for name, text in manifests.files.items()}
    return manifests


def _size_warning(name: str, definition: dict[str, Any]) -> Iterator[str]:
    size = len(msgspec.json.encode(definition))
    if size > ANNOTATION_LIMIT:
        yield (
            f"{name}: {size:,} bytes are more than the {ANNOTATION_LIMIT:,} that client-side kubectl apply "
            "can keep in an annotation; use kubectl apply --server-side, shorten descriptions with "
            "--max-description (0 drops them) or MaxDescription(...) on the largest field, or embed less"
        )


def compare(manifests: Manifests, directory: Path) -> Iterator[str]:
    """Unified diffs from the files in `directory` to what is generated; nothing when they are the same."""
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
    """Definitions of the project's groups that are on disk but no longer declared."""
    groups = {
        name.partition("/")[2].rpartition("_")[0] for name in manifests.files if name.startswith("crd/")
    }
    return [
        path
        for group in sorted(groups)
        for path in sorted((directory / "crd").glob(f"{group}_*.yaml"))
        if f"crd/{path.name}" not in manifests.files
    ]


def write(manifests: Manifests, directory: Path) -> list[Path]:
    """Write what changed and return it. A file is replaced as a whole or not at all."""
    changed: list[Path] = []
    for name, wanted in sorted(manifests.files.items()):
        path = directory / name
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(wanted)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        changed.append(path)
    return changed
