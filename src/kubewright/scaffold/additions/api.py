"""`create_api`: add a version of a kind, its controller and their tests to a project."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from kubewright.scaffold.edit import set_settings
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ProjectInputs, ResourceInput
from kubewright.scaffold.layout import module_file
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import COPY, render_api, render_conversion, render_group
from kubewright.scaffold.source.python_edits import Import, add_import, parse

CONVERSION_ARGUMENT = "conversion=WebhookConversion()"


def create_api(directory: Path, resource: ResourceInput) -> Changes:
    """Add a kind, or a further version of a kind of the project.

    A further version starts as a copy of the module of the storage version, with a conversion that copies all
    fields. With `image`, the controller manages a Deployment and a Service of that image.
    """
    lock = ScaffoldLock.read(directory)
    project = lock.project
    resource = replace(resource, domain=project.domain if resource.is_own else "")
    check_resource(lock, resource)
    writer = FileWriter(directory, lock)
    versions = lock.versions_of(resource) if resource.is_own else []
    if versions and versions[0].served:
        raise ScaffoldError(
            f"{resource.kind} is served by an API server of the project; a CRD cannot serve it as well"
        )
    if versions:
        resource = add_version(writer, versions[0], resource)
        if not versions[0].controller:
            writer.changes.warnings.append(f"no controller reconciles {resource.kind}")
    else:
        resource = name_controller(lock, resource)
        templates, rendered = render_api(project, resource)
        for path, text in render_group(project, resource).items():
            writer.keep_or_create(path, text, "group")
        for path, text in rendered.items():
            writer.create(path, text, templates)
        lock.put(resource)
        if resource.image:
            name = "kubewright.toml" if (directory / "kubewright.toml").is_file() else "pyproject.toml"
            set_settings(writer, name, {f"env.{resource.environment_variable}": resource.image})
    group = f"--group {resource.group} " if resource.group else ""
    if resource.is_own and not resource.image:
        first = module_file(project, resource, resource.module)
        writer.changes.next.append(f"edit {first}")
    writer.changes.next.append(
        f"kubewright create webhook {group}--version {resource.version} --kind {resource.kind} "
        "--defaulting --validation"
    )
    writer.changes.next.append("pytest")
    return writer.commit()


def name_controller(lock: ScaffoldLock, resource: ResourceInput) -> ResourceInput:
    """Return a resource whose controller has a name of its own if a kind of another group has its kind."""
    if any(each.kind == resource.kind and each.controller for each in lock.resources):
        return replace(resource, controller_name=f"{resource.group_package}-{resource.kind}".lower())
    return resource


def check_resource(lock: ScaffoldLock, resource: ResourceInput) -> None:
    """Raise `ScaffoldError` if a version of a kind cannot be added to the project."""
    if resource.is_own and "." not in resource.api_group:
        raise ScaffoldError(
            f"the API group {resource.api_group!r} has no domain; set one with kubewright init --domain"
        )
    if lock.find(resource) is not None:
        raise ScaffoldError(
            f"{resource.api_group}/{resource.version} {resource.kind} already exists; "
            "choose another version or kind"
        )
    groups = {each.api_group for each in lock.resources if each.is_own}
    if resource.is_own and groups - {resource.api_group} and not lock.project.multigroup:
        raise ScaffoldError(
            f"the project has the API group {', '.join(sorted(groups))}; for several groups, first run "
            "kubewright edit --multigroup"
        )
    if not resource.is_own and not resource.controller:
        raise ScaffoldError(
            f"{resource.kind} is not a kind of this project, and without a controller there is nothing to "
            "create; add a webhook with kubewright create webhook"
        )
    same_module = [
        each
        for each in lock.resources
        if each.stem == resource.stem
        and not each.same_kind(resource)
        and (not lock.project.multigroup or each.group_package == resource.group_package)
    ]
    if same_module:
        other = same_module[0]
        raise ScaffoldError(
            f"the modules of {resource.kind} would have the names of those of {other.kind} "
            f"({other.api_group}); choose another kind, or run kubewright edit --multigroup"
        )


def add_version(writer: FileWriter, hub: ResourceInput, resource: ResourceInput) -> ResourceInput:
    """Add a version as a copy of the hub, with a conversion; return it as it is recorded."""
    lock, project = writer.lock, writer.lock.project
    resource = replace(
        resource,
        storage=False,
        controller=False,
        image="",
        renderer="",
        plural=hub.plural,
        scope=hub.scope,
    )
    source = module_file(project, hub, hub.module)
    text = writer.read(source)
    copied = copy_version(text, hub, resource, name=source, project=project) if text is not None else None
    if copied is not None:
        writer.create(module_file(project, resource, resource.module), copied, COPY)
    elif resource.served:
        raise ScaffoldError(f"{source} has no class {hub.kind} with @resource that could be copied")
    else:
        _, rendered = render_api(project, resource)
        for path, rendered_text in rendered.items():
            writer.create(path, rendered_text, "api")
    lock.put(resource)
    for path, rendered_text in render_conversion(project, hub, lock.versions_of(resource)[1:]).items():
        writer.extend(path, rendered_text, "conversion")
    return resource


def copy_version(
    text: str, hub: ResourceInput, resource: ResourceInput, *, name: str, project: ProjectInputs
) -> str | None:
    """Return the module of a version as a module of another version; `None` if it has no `@resource`."""
    tree = parse(text, name)
    calls = [
        decorator
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == hub.kind
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and any(each.arg == "version" for each in decorator.keywords)
    ]
    if len(calls) != 1:
        return None
    # Byte offsets of the syntax tree are used on the encoded text.
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    data = b"".join(lines)
    places = {
        each.arg: (
            starts[each.lineno - 1] + each.col_offset,
            starts[(each.value.end_lineno or 1) - 1] + (each.value.end_col_offset or 0),
        )
        for each in calls[0].keywords
    }
    edits = {places["version"]: f'version="{resource.version}"'}
    if resource.served:
        places.setdefault("conversion", (0, 0))  # CRDs have this argument
    for name_of_storage in ("storage", "hub"):
        if name_of_storage in places:
            edits[places[name_of_storage]] = "" if "conversion" in places else CONVERSION_ARGUMENT
            places.setdefault("conversion", (0, 0))
    if "conversion" not in places:
        edits[places["version"]] += f", {CONVERSION_ARGUMENT}"
    for (first, last), new in sorted(edits.items(), reverse=True):
        while not new and data[last : last + 1] in (b",", b" ", b"\n"):  # a removed argument
            last += 1
        data = data[:first] + new.encode() + data[last:]
    result = data.decode()
    for end in (".", " ", '"'):
        result = result.replace(
            f"{hub.api_group}/{hub.version}{end}", f"{hub.api_group}/{resource.version}{end}"
        )
    if resource.served:
        return result
    needed = Import(0, "kubewright.api", ("WebhookConversion",))
    return add_import(result, needed, name=name, first_party=project.package)
