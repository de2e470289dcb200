"""Render the files of a project from its inputs.

`render_project` returns what all commands of a project generate; `kubewright upgrade` compares it with the
recorded texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import kubewright

from .inputs import ProjectInputs, ResourceInput
from .layout import module_file, template_fields, template_variables
from .lock import ScaffoldLock
from .source.python_edits import extend_source
from .source.toml_edits import Value, set_keys
from .templates import render_set

COPY: Final = "copy"
"""Template set of files that were derived from a file of the user."""

KUBECTL_PLUGIN: Final = "kubectl_plugin"
CREDENTIAL_PLUGIN: Final = "credential_plugin"
STORAGE: Final = "env.KUBEWRIGHT_STORAGE"
"""Deployment setting that projects with an API server have."""
DEPLOYMENT: Final = ("tool", "kubewright", "deployment")


def render_init(project: ProjectInputs) -> dict[str, str]:
    """Return the files of `kubewright init`."""
    files = render_set(
        "init", template_variables(project), fields=template_fields(project), plugins=project.templates
    )
    name = "pyproject.toml"
    keys: dict[tuple[str, ...], Value] = {
        (*DEPLOYMENT, *key.split(".")): value for key, value in project.deployment.items()
    }
    for plugin in project.kubectl_plugins:
        keys |= plugin_scripts(project.package, plugin)
    for plugin in project.credential_plugins:
        keys |= credential_scripts(project.package, plugin)
    if STORAGE in project.deployment:
        keys |= server_requirement()
    if name in files:
        files[name] = set_keys(files[name], keys, name=name)
    return files


def server_requirement() -> dict[tuple[str, ...], Value]:
    """Return what the image of an API server installs instead of the runtime of operators."""
    return {("project", "optional-dependencies", "runtime"): [f"kubewright>={kubewright.__version__}"]}


def plugin_scripts(package: str, plugin: str) -> dict[tuple[str, ...], Value]:
    """Return the entry points that kubectl calls for a plug-in."""
    target = f"{package}.kubectl_{plugin.replace('-', '_')}:main"
    return {
        ("project", "scripts", f"kubectl-{plugin}"): target,
        ("project", "scripts", f"kubectl_complete-{plugin}"): f"{target}.complete",
    }


def credential_scripts(package: str, plugin: str) -> dict[tuple[str, ...], Value]:
    """Return the entry point of a credential plug-in."""
    return {("project", "scripts", plugin): f"{package}.credential_{plugin.replace('-', '_')}:main"}


def plugin_target(resource: ResourceInput) -> str:
    """Return the kind of a plug-in as it is recorded in the lock."""
    return f"{resource.kind}.{resource.version}.{resource.api_group}"


def _render(name: str, project: ProjectInputs, resource: ResourceInput, **variables: Any) -> dict[str, str]:
    return render_set(
        name,
        {**template_variables(project, resource), **variables},
        fields=template_fields(project, resource),
        plugins=project.templates,
    )


def render_group(project: ProjectInputs, resource: ResourceInput) -> dict[str, str]:
    """Return the package of an API group."""
    return _render("group", project, resource) if project.multigroup else {}


def render_api(
    project: ProjectInputs, resource: ResourceInput, *, installs_crd: bool = False
) -> tuple[str, dict[str, str]]:
    """Return the template set and the files of `kubewright create api`.

    `installs_crd` is for a class of another module whose CRD this project installs.
    """
    name = _api_templates(resource)
    return name, _render(name, project, resource, installs_crd=installs_crd)


def _api_templates(resource: ResourceInput) -> str:
    if resource.served:
        return "apiserver"
    return "image" if resource.image else "template" if resource.renderer else "api"


def render_webhook(
    project: ProjectInputs, resource: ResourceInput, *, defaulting: bool, validation: bool
) -> dict[str, str]:
    """Return the files of admission webhooks."""
    return _render("webhook", project, resource, defaulting=defaulting, validation=validation)


def render_conversion(
    project: ProjectInputs, hub: ResourceInput, spokes: Sequence[ResourceInput]
) -> dict[str, str]:
    """Return the files of the conversion between versions."""
    return _render("conversion", project, hub, hub=hub, spokes=spokes)


def render_kubectl_plugin(lock: ScaffoldLock, name: str, resource: ResourceInput) -> dict[str, str]:
    """Return the files of a plug-in of kubectl."""
    project = lock.project
    module = module_file(project, resource, resource.module)
    group = f".{resource.group_package}" if project.multigroup else ""
    variables = {
        **template_variables(project, resource),
        "plugin": name.replace("-", "_"),
        "command": name.replace("-", " "),
        "source": resource.origin or f"{group}.{resource.module}",
        "is_copied": module in lock.files and lock.files[module].templates == COPY,
    }
    fields = {**template_fields(project, resource), "plugin": name.replace("-", "_")}
    return render_set(KUBECTL_PLUGIN, variables, fields=fields, plugins=project.templates)


def render_credential_plugin(project: ProjectInputs, name: str) -> dict[str, str]:
    """Return the files of a credential plug-in."""
    module = name.replace("-", "_")
    variables = {**template_variables(project), "name": name, "plugin": module}
    fields = {**template_fields(project), "plugin": module}
    return render_set(CREDENTIAL_PLUGIN, variables, fields=fields, plugins=project.templates)


@dataclass(frozen=True)
class RenderedFile:
    """The current text of a generated file, and its template set."""

    text: str
    templates: str


def render_project(lock: ScaffoldLock) -> dict[str, RenderedFile]:
    """Return all files that the templates generate for the inputs of a project.

    Files that were derived from files of the user are not included. A file that is not in the lock is a new
    file of a template set: it is included if other files of the same set were generated.
    """
    generated = {path for path, each in lock.files.items() if each.templates != COPY}
    files: dict[str, RenderedFile] = {}
    for templates, rendered in (("init", render_init(lock.project)), *_render_resources(lock)):
        is_used = not generated.isdisjoint(rendered)
        for path, text in rendered.items():
            if path not in generated and (path in lock.files or not is_used):
                continue
            if path in files and path.endswith(".py") and files[path].text != text:
                text = extend_source(files[path].text, text, name=path, first_party=lock.project.package)
            files[path] = RenderedFile(text, templates)
    return files


def _render_resources(lock: ScaffoldLock) -> Iterator[tuple[str, dict[str, str]]]:
    project = lock.project
    for resource in lock.resources:
        yield "group", render_group(project, resource)
        if resource.storage or not resource.served:
            yield render_api(project, resource)
        if resource.defaulting or resource.validation:
            yield (
                "webhook",
                render_webhook(
                    project, resource, defaulting=resource.defaulting, validation=resource.validation
                ),
            )
        versions = lock.versions_of(resource)
        if resource.storage and resource.is_own and len(versions) > 1:
            yield "conversion", render_conversion(project, resource, versions[1:])
    for name, target in project.kubectl_plugins.items():
        for resource in lock.resources:
            if plugin_target(resource) == target:
                yield KUBECTL_PLUGIN, render_kubectl_plugin(lock, name, resource)
    for name in project.credential_plugins:
        yield CREDENTIAL_PLUGIN, render_credential_plugin(project, name)
