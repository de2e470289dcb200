"""Projects that consist of a plug-in of kubectl only, and entry points of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import FileWriter
from kubewright.scaffold.layout import template_fields, template_variables
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.source.toml_edits import Value, set_keys
from kubewright.scaffold.templates import render_set

PROJECT_FILE: Final = "pyproject.toml"


def render_plugin_project(
    directory: Path,
    lock: ScaffoldLock,
    templates: str,
    files: Mapping[str, str],
    scripts: Mapping[tuple[str, ...], Value],
    **variables: str,
) -> FileWriter:
    """Prepare a project with the files of a plug-in; `variables` are title, description and usage."""
    if (directory / PROJECT_FILE).exists():
        raise ScaffoldError(
            f"{directory.absolute()} has a {PROJECT_FILE} and is not a project of Kubewright; create the "
            "plug-in in an empty directory, or run kubewright init first"
        )
    every = {**template_variables(lock.project), **variables}
    writer = FileWriter(directory, lock)
    for path, text in render_set("plugin_project", every, fields=template_fields(lock.project)).items():
        writer.keep_or_create(path, text, templates)
    for path, text in files.items():
        writer.create(path, text, templates)
    settings = writer.read(PROJECT_FILE) or ""
    writer.replace(PROJECT_FILE, set_keys(settings, dict(scripts), name=PROJECT_FILE))
    return writer


def add_scripts(writer: FileWriter, lock: ScaffoldLock, scripts: Mapping[tuple[str, ...], Value]) -> None:
    """Add entry points to `pyproject.toml`, also to its recorded text."""
    settings = writer.read(PROJECT_FILE)
    if settings is None:
        raise ScaffoldError(
            f"{writer.directory.absolute()} has no {PROJECT_FILE} for the entry points of the plug-in"
        )
    writer.replace(PROJECT_FILE, set_keys(settings, dict(scripts), name=PROJECT_FILE))
    if PROJECT_FILE in lock.files:
        base = set_keys(lock.files[PROJECT_FILE].base, dict(scripts), name=PROJECT_FILE)
        writer.replace_base(PROJECT_FILE, base)
