"""`init_project`: create a project in a directory."""

from __future__ import annotations

from pathlib import Path

from kubewright.manifests.settings import SETTINGS_FILES, ProjectSettings, ProjectSettingsError

from .errors import ScaffoldError
from .files import Changes, FileWriter
from .inputs import ProjectInputs
from .lock import LOCK_FILE, ScaffoldLock
from .render import render_init
from .source.toml_edits import Value, set_keys


def init_project(directory: Path, project: ProjectInputs) -> Changes:
    """Create a project; files that exist are kept, an existing project is an error.

    An existing `pyproject.toml` gets the table `[tool.kubewright]` and is not changed otherwise.
    """
    writer = prepare_project(directory, project)
    writer.changes.next.append("kubewright create api --group GROUP --version v1 --kind KIND")
    return writer.commit()


def prepare_project(directory: Path, project: ProjectInputs) -> FileWriter:
    """Return a writer with the files of a new project, to which more can be added before they are written."""
    _check_no_project(directory)
    writer = FileWriter(directory, ScaffoldLock(project))
    for path, text in render_init(project).items():
        if path == "pyproject.toml" and writer.read(path) is not None:
            _add_table(writer, project)
        else:
            writer.keep_or_create(path, text, "init")
    return writer


def _check_no_project(directory: Path) -> None:
    if (directory / LOCK_FILE).exists():
        raise ScaffoldError(f"{directory.absolute()} is already a project; change it with kubewright edit")
    if directory.exists() and not directory.is_dir():
        raise ScaffoldError(f"{directory} is not a directory")
    try:
        settings = ProjectSettings.load(directory)
    except ProjectSettingsError as error:
        raise ScaffoldError(str(error)) from None
    if settings.path is not None:
        raise ScaffoldError(f"{settings.path} already has settings of Kubewright; nothing was written")


def _add_table(writer: FileWriter, project: ProjectInputs) -> None:
    name = SETTINGS_FILES[1]
    values: dict[str, Value] = {
        "name": project.name,
        "modules": [project.package],
        "domain": project.domain,
        "multigroup": project.multigroup,
        "namespaced": project.namespaced,
    }
    keys: dict[tuple[str, ...], Value] = {
        ("tool", "kubewright", key): value for key, value in values.items() if value is not False
    }
    keys["tool", "kubewright", "deployment", "image"] = f"{project.name}:latest"
    writer.replace(name, set_keys(writer.read(name) or "", keys, name=name))
    writer.changes.warnings.append(
        'pyproject.toml exists: only [tool.kubewright] was added; add "kubewright-runtime" to an extra named '
        'runtime, which the Dockerfile installs, and "kubewright[testing]" to those for development'
    )
