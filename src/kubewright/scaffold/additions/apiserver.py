"""`create_apiserver`: add a kind that an API server of the project serves, its functions and their tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kubewright.scaffold.edit import set_settings
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ResourceInput
from kubewright.scaffold.layout import module_file
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import STORAGE, render_api, render_group, server_requirement
from kubewright.scaffold.source.toml_edits import set_key

from .api import add_version, check_resource


def create_apiserver(directory: Path, resource: ResourceInput) -> Changes:
    """Add a kind, or a further version of it, to the API server of the project, which is created with the
    first one. A further version starts as a copy of the first one, with a conversion that copies all fields.

    Objects of a deployed server are stored in a file on a volume, unless the settings name another storage.
    """
    lock = ScaffoldLock.read(directory)
    project = lock.project
    resource = replace(resource, domain=project.domain, served=True, controller=False)
    versions = lock.versions_of(resource)
    if versions and not versions[0].served:
        raise ScaffoldError(
            f"{resource.kind} has a CRD in the project; an API server cannot serve it as well"
        )
    check_resource(lock, resource)
    writer = FileWriter(directory, lock)
    if versions:
        resource = add_version(writer, versions[0], resource)
    else:
        _add_first_version(writer, directory, resource)
    writer.changes.next.append(f"edit {module_file(project, resource, resource.module)}")
    writer.changes.next.append("pytest")
    writer.changes.next.append(f"kubewright run {project.package}:app")
    return writer.commit()


def _add_first_version(writer: FileWriter, directory: Path, resource: ResourceInput) -> None:
    lock, project = writer.lock, writer.lock.project
    for path, text in render_group(project, resource).items():
        writer.keep_or_create(path, text, "group")
    templates, rendered = render_api(project, resource)
    for path, text in rendered.items():
        if path == f"src/{project.package}/app.py":
            writer.keep_or_create(path, text, templates)
        else:
            writer.create(path, text, templates)
    lock.put(resource)
    if STORAGE not in project.deployment:
        name = "kubewright.toml" if (directory / "kubewright.toml").is_file() else "pyproject.toml"
        set_settings(writer, name, {STORAGE: f"sqlite:/data/{project.name}.db"})
    _install_server(writer)


def _install_server(writer: FileWriter) -> None:
    """Let the image contain all of Kubewright: the library for API servers is not in its runtime."""
    name = "pyproject.toml"
    if name not in writer.lock.files:
        return  # not generated: its dependencies belong to the user
    for path, value in server_requirement().items():
        writer.replace(name, set_key(writer.read(name) or "", path, value, name=name))
        writer.replace_base(name, set_key(writer.lock.files[name].base, path, value, name=name))
