"""`create_webhook`: add admission or conversion webhooks of a kind to a project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ResourceInput
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import render_conversion, render_group, render_webhook


def create_webhook(
    directory: Path,
    resource: ResourceInput,
    *,
    defaulting: bool = False,
    validation: bool = False,
    conversion: bool = False,
    spokes: Sequence[str] = (),
) -> Changes:
    """Add webhooks to a version of a kind; those that exist already are kept.

    Conversion needs at least two versions. `spokes` are the versions to convert, by default all others than
    the storage version.
    """
    if not (defaulting or validation or conversion):
        raise ScaffoldError("no webhook chosen; add --defaulting, --validation or --conversion")
    lock = ScaffoldLock.read(directory)
    project = lock.project
    resource = replace(resource, domain=project.domain if resource.is_own else "")
    found = lock.find(resource)
    if found is None and resource.is_own:
        raise ScaffoldError(
            f"{resource.api_group}/{resource.version} {resource.kind} does not exist; create it first with "
            f"kubewright create api --version {resource.version} --kind {resource.kind}"
        )
    if found is not None and found.served:
        raise ScaffoldError(
            f"{found.kind} is served by an API server of the project, which calls functions itself; use "
            f"@app.default and @app.validate in {found.stem}_api.py"
        )
    # A core or external kind can have webhooks without a controller.
    found = found or replace(resource, controller=False)
    new = [
        (chosen and not getattr(found, name), name)
        for chosen, name in ((defaulting, "defaulting"), (validation, "validation"))
    ]
    writer = FileWriter(directory, lock)
    if conversion:
        _add_conversion(writer, found, spokes)
    elif not any(is_new for is_new, _ in new):
        chosen = " and ".join(
            name for name, given in (("defaulting", defaulting), ("validation", validation)) if given
        )
        raise ScaffoldError(f"{found.kind} {found.version} already has {chosen}")
    selected = {name: is_new for is_new, name in new}
    if any(selected.values()):
        for path, text in render_group(project, found).items():
            writer.keep_or_create(path, text, "group")
        for path, text in render_webhook(
            project, found, defaulting=selected["defaulting"], validation=selected["validation"]
        ).items():
            writer.extend(path, text, "webhook")
        found = replace(
            found,
            defaulting=found.defaulting or selected["defaulting"],
            validation=found.validation or selected["validation"],
        )
        lock.put(found)
    writer.changes.next.append("pytest")
    writer.changes.next.append("kubewright run")
    return writer.commit()


def _add_conversion(writer: FileWriter, resource: ResourceInput, spokes: Sequence[str]) -> None:
    versions = writer.lock.versions_of(resource)
    known = {each.version for each in versions[1:]}
    unknown = [each for each in spokes if each not in known]
    if len(versions) < 2 or unknown:
        missing = unknown[0] if unknown else "v2"
        reason = (
            f"version {missing} is the hub"
            if versions and missing == versions[0].version
            else f"{resource.kind} has no version {missing}"
            if unknown
            else f"{resource.kind} has only one version"
        )
        raise ScaffoldError(
            f"{reason}; create one with kubewright create api --version {missing} --kind {resource.kind}"
        )
    chosen = [each for each in versions[1:] if not spokes or each.version in spokes]
    for path, text in render_conversion(writer.lock.project, versions[0], chosen).items():
        writer.extend(path, text, "conversion")
