"""`create_api_from_crd`: add the kind of an existing CustomResourceDefinition to a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ProjectInputs, ResourceInput
from kubewright.scaffold.layout import module_file, template_variables
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import COPY, render_api, render_conversion, render_group
from kubewright.scaffold.types.from_crd import check_crd, generate_types

from .api import check_resource, name_controller


def create_api_from_crd(
    directory: Path, crd: Mapping[str, Any], *, controller: bool = True, external: bool = False
) -> Changes:
    """Add the types of every version of a definition, and a controller of the storage version.

    With `external`, another project installs the definition: the types are for clients and controllers, and
    no manifest is generated for them.
    """
    return create_apis_from_crds(directory, [crd], controller=controller, external=external)


def create_apis_from_crds(
    directory: Path, crds: Iterable[Mapping[str, Any]], *, controller: bool = True, external: bool = False
) -> Changes:
    """Add the kinds of several definitions; nothing is written if one of them cannot be added."""
    writer = FileWriter(directory, ScaffoldLock.read(directory))
    for crd in crds:
        check_crd(crd)
        add_crd(writer, crd, controller=controller, external=external)
    writer.changes.next.append("pytest")
    return writer.commit()


def add_crd(
    writer: FileWriter, crd: Mapping[str, Any], *, controller: bool, external: bool
) -> list[ResourceInput]:
    """Add the files of a definition and return the inputs of its versions, the storage version first."""
    lock = writer.lock
    project = lock.project
    resources = resources_of(crd, project, controller=controller)
    sources = generate_types(crd if external else _with_own_webhook(crd), external=external)
    for resource in resources:
        check_resource(lock, resource)
    resources = [name_controller(lock, each) if each.controller else each for each in resources]
    for resource in resources:
        package = str(template_variables(project, resource)["package"])
        origin = f"{package}.{resource.module}"
        for path, text in render_group(project, resource).items():
            writer.keep_or_create(path, text, "group")
        writer.create(module_file(project, resource, resource.module), sources[resource.version], COPY)
        if resource.controller:
            # The controller and test of a kind with a type of its own: nothing is known about its fields.
            typed = replace(resource, origin=origin)
            for path, text in render_api(project, typed, installs_crd=not external)[1].items():
                writer.create(path, text, COPY)
        lock.put(replace(resource, origin=origin) if external else resource)
    webhook = (crd["spec"].get("conversion") or {}).get("strategy") == "Webhook"
    if webhook and not external and len(resources) > 1:
        # Without rules for the fields that differ, the test of the conversion would fail.
        rendered = render_conversion(project, resources[0], resources[1:])
        for path, text in rendered.items():
            if path.startswith("src/"):
                writer.create(path, text, COPY)
                writer.changes.next.append(f"declare rules for fields that differ between versions in {path}")
    return resources


def resources_of(crd: Mapping[str, Any], project: ProjectInputs, *, controller: bool) -> list[ResourceInput]:
    """Return the inputs of all versions of a definition, the storage version first."""
    spec = crd["spec"]
    group: str = spec["group"]
    is_below = group == project.domain or group.endswith(f".{project.domain}")
    scope: Literal["Namespaced", "Cluster"] = "Cluster" if spec.get("scope") == "Cluster" else "Namespaced"
    versions = sorted(spec["versions"], key=lambda version: not version.get("storage"))
    return [
        ResourceInput(
            group=group.removesuffix(f".{project.domain}") if is_below else group,
            domain=project.domain if is_below else "",
            version=version["name"],
            kind=spec["names"]["kind"],
            plural=spec["names"].get("plural", ""),
            scope=scope,
            controller=controller and position == 0,
            storage=position == 0,
        )
        for position, version in enumerate(versions)
    ]


def _with_own_webhook(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition whose conversion webhook is the Service of this project."""
    spec = dict(crd["spec"])
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        service = {"name": "webhook-service", "namespace": "system", "path": "/convert"}
        spec["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}}
    return {**crd, "spec": spec}
