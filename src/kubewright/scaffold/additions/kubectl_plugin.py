"""`create_kubectl_plugin`: add a plug-in of kubectl to a project, or create a project for it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ProjectInputs, ResourceInput
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import KUBECTL_PLUGIN, plugin_scripts, plugin_target, render_kubectl_plugin

from .plugin_project import add_scripts, render_plugin_project

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_COMMANDS: Final = frozenset(
    (
        *(
            "annotate",
            "apply",
            "attach",
            "auth",
            "autoscale",
            "certificate",
            "completion",
            "config",
            "cordon",
        ),
        *(
            "cp",
            "create",
            "debug",
            "delete",
            "describe",
            "diff",
            "drain",
            "edit",
            "events",
            "exec",
            "explain",
        ),
        *("expose", "get", "help", "kustomize", "label", "logs", "options", "patch", "plugin", "proxy"),
        *("replace", "rollout", "run", "scale", "set", "taint", "top", "uncordon", "version", "wait"),
    )
)
"""Commands of kubectl; only `create` can have plug-ins as subcommands."""
DEPLOYMENT: Final = ResourceInput(
    group="apps", version="v1", kind="Deployment", origin="kubewright.api.apps.v1"
)


def create_kubectl_plugin(
    directory: Path, name: str, *, group: str = "", version: str = "", kind: str = ""
) -> Changes:
    """Add the command `kubectl <name>` for a kind of the project, by default the first one.

    The module prints a table of objects; `[project.scripts]` gets the entry points that kubectl calls.
    """
    _check_name(name)
    lock = ScaffoldLock.read(directory)
    if name in lock.project.kubectl_plugins:
        raise ScaffoldError(f"the plug-in kubectl {name} already exists; choose another name")
    resource = _find(lock, group, version, kind)
    target = plugin_target(resource)
    lock.project = replace(lock.project, kubectl_plugins={**lock.project.kubectl_plugins, name: target})
    writer = FileWriter(directory, lock)
    for path, text in render_kubectl_plugin(lock, name, resource).items():
        writer.create(path, text, KUBECTL_PLUGIN)
    add_scripts(writer, lock, plugin_scripts(lock.project.package, name))
    writer.changes.next += ["pip install -e '.[dev]'", f"kubectl {name.replace('-', ' ')}"]
    return writer.commit()


def create_kubectl_plugin_project(directory: Path, name: str, kind: ResourceInput = DEPLOYMENT) -> Changes:
    """Create a project for the command `kubectl <name>`, which prints objects of a built-in kind."""
    _check_name(name)
    lock = ScaffoldLock(ProjectInputs(name=f"kubectl-{name}"))
    command = f"kubectl {name.replace('-', ' ')}"
    writer = render_plugin_project(
        directory,
        lock,
        KUBECTL_PLUGIN,
        render_kubectl_plugin(lock, name, kind),
        plugin_scripts(lock.project.package, name),
        title=command,
        description="plug-in of kubectl",
        usage=command,
    )
    writer.changes.next += ["pip install -e '.[dev]'", "pytest", command]
    return writer.commit(with_lock=False)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ScaffoldError(
            f"plug-in name {name!r} is not a lower-case name of letters, digits and dashes such as shop"
        )
    command = name.partition("-")[0]
    if command in _COMMANDS and not name.startswith("create-"):
        raise ScaffoldError(f"kubectl has a command {command!r}, which a plug-in cannot replace or extend")


def _find(lock: ScaffoldLock, group: str, version: str, kind: str) -> ResourceInput:
    found = [
        each
        for each in lock.resources
        if (not kind or each.kind == kind)
        and (not version or each.version == version)
        and (not group or group in (each.group, each.api_group))
    ]
    if found:
        return found[0]
    if kind or version or group:
        known = ", ".join(f"{each.kind} {each.version}" for each in lock.resources) or "none"
        raise ScaffoldError(f"the project has no such kind; its kinds are: {known}")
    raise ScaffoldError(
        "the project has no kind; create one with kubewright create api --group GROUP --version v1 "
        "--kind KIND"
    )
