"""`edit_project`: change the settings of a project; its files follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubewright.manifests.settings import ProjectSettings, ProjectSettingsError

from .errors import ScaffoldError
from .files import Changes, FileWriter
from .layout import change_layout
from .lock import ScaffoldLock
from .source.toml_edits import Value, set_key

PROJECT_KEYS = ("multigroup", "namespaced")


def edit_project(directory: Path, values: Mapping[str, Value]) -> Changes:
    """Set keys of `[tool.kubewright]` (`multigroup`, `namespaced`) and of `[tool.kubewright.deployment]`.

    Comments and other keys of the settings file are kept. With `multigroup`, the modules of all kinds are
    moved and the imports in the project are rewritten.
    """
    if not values:
        raise ScaffoldError("nothing to change; see the options in kubewright edit --help")
    lock = ScaffoldLock.read(directory)
    try:
        settings = ProjectSettings.load(directory)
    except ProjectSettingsError as error:
        raise ScaffoldError(str(error)) from None
    if settings.path is None:
        raise ScaffoldError(f"{directory.absolute()} has no [tool.kubewright] in pyproject.toml")
    writer = FileWriter(directory, lock)
    multigroup = values.get("multigroup")
    if isinstance(multigroup, bool) and multigroup != lock.project.multigroup:
        change_layout(writer, multigroup=multigroup)
    set_settings(writer, settings.path.name, values)
    if not (writer.changes.changed or writer.changes.moved):
        writer.changes.warnings.append("nothing changed: the settings have these values already")
    else:
        writer.changes.next.append("kubewright deploy")
    return writer.commit()


def set_settings(writer: FileWriter, name: str, values: Mapping[str, Value]) -> None:
    """Set keys in the settings file, in its recorded text and in the inputs of the project."""
    lock = writer.lock
    prefix = ("tool", "kubewright") if name == "pyproject.toml" else ()
    for key, value in values.items():
        path = (*prefix, key) if key in PROJECT_KEYS else (*prefix, "deployment", *key.split("."))
        writer.replace(name, set_key(writer.read(name) or "", path, value, name=name))
        if name in lock.files:
            writer.replace_base(name, set_key(lock.files[name].base, path, value, name=name))
        if key in PROJECT_KEYS:
            changed: dict[str, Any] = {key: value}
            lock.project = replace(lock.project, **changed)
        else:
            lock.project = replace(lock.project, deployment={**lock.project.deployment, key: value})
