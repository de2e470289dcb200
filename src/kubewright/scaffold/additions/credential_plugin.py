"""`create_credential_plugin`: add a credential plug-in to a project, or create a project for it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ProjectInputs
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import CREDENTIAL_PLUGIN, credential_scripts, render_credential_plugin

from .plugin_project import add_scripts, render_plugin_project

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_API_VERSION: Final = "client.authentication.k8s.io/v1"


def create_credential_plugin(directory: Path, name: str) -> Changes:
    """Add the program `name`, which kubectl and other clients run to get credentials.

    The module logs in at a token service and keeps the token until it expires; `[project.scripts]` gets the
    entry point.
    """
    _check_name(name)
    lock = ScaffoldLock.read(directory)
    if name in lock.project.credential_plugins:
        raise ScaffoldError(f"the credential plug-in {name} already exists; choose another name")
    lock.project = replace(lock.project, credential_plugins=(*lock.project.credential_plugins, name))
    writer = FileWriter(directory, lock)
    for path, text in render_credential_plugin(lock.project, name).items():
        writer.create(path, text, CREDENTIAL_PLUGIN)
    add_scripts(writer, lock, credential_scripts(lock.project.package, name))
    writer.changes.next += ["pip install -e '.[dev]'", usage(name)]
    return writer.commit()


def create_credential_plugin_project(directory: Path, name: str) -> Changes:
    """Create a project for the program `name`."""
    _check_name(name)
    lock = ScaffoldLock(ProjectInputs(name=name))
    writer = render_plugin_project(
        directory,
        lock,
        CREDENTIAL_PLUGIN,
        render_credential_plugin(lock.project, name),
        credential_scripts(lock.project.package, name),
        title=name,
        description="credential plug-in of kubectl",
        usage=usage(name),
    )
    writer.changes.next += ["pip install -e '.[dev]'", "pytest", usage(name)]
    return writer.commit(with_lock=False)


def usage(name: str) -> str:
    """Return the command that adds a user with the plug-in to the kubeconfig."""
    return (
        f"kubectl config set-credentials ann --exec-command={name} --exec-api-version={_API_VERSION} "
        "--exec-interactive-mode=IfAvailable --exec-arg=--user=ann --exec-arg=--url=https://login.example.com"
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ScaffoldError(
            f"plug-in name {name!r} is not a lower-case name of letters, digits and dashes such as shop-login"
        )
