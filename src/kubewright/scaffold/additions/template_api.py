"""`create_api_from_templates`: add a kind whose objects expand to others by templates, without code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from kubewright.api.declaring.declarations import pluralize, resource
from kubewright.api.markers import ListMap
from kubewright.api.meta import Condition, CustomResource
from kubewright.api.objects import Spec, Status
from kubewright.manager.expansion.template_folder import RenderError, TemplateFolder
from kubewright.manifests import crd
from kubewright.manifests.deployment.samples import sample
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.inputs import ResourceInput
from kubewright.scaffold.layout import module_file, template_folder
from kubewright.scaffold.lock import ScaffoldLock
from kubewright.scaffold.render import COPY, render_api, render_group
from kubewright.scaffold.types.from_crd import generate_types
from kubewright.scaffold.types.schema_types import TypeBuilder
from kubewright.scaffold.types.values_schema import Schema, schema_of_values

from .api import check_resource

MAX_FILE_BYTES: Final = 1 << 20


class RenderedStatus(Status):
    """Status of a kind with templates."""

    observed_generation: int | None = None
    """Generation that the conditions refer to."""

    conditions: Annotated[list[Condition], ListMap("type")] | None = None
    """Ready: all objects are ready. Progressing: one is not ready yet. Degraded: one has failed."""


@resource(group="example.com", version="v1")
class RenderedObject(CustomResource[Spec, RenderedStatus]):
    """A kind with templates, for the schema of its status."""


def create_api_from_templates(directory: Path, templates: Path, inputs: ResourceInput) -> Changes:
    """Copy a folder of templates or a Helm chart into the project, and add a kind that renders it.

    The fields of the spec come from `values.yaml` and `values.schema.json` of the folder. The types can be
    changed afterwards, as those of any kind.
    """
    lock = ScaffoldLock.read(directory)
    project = lock.project
    try:
        folder = TemplateFolder(templates)
    except FileNotFoundError as error:
        raise ScaffoldError(str(error)) from None
    inputs = replace(inputs, domain=project.domain, renderer="helm" if folder.is_chart else "jinja")
    check_resource(lock, inputs)
    if TypeBuilder().is_reserved(inputs.kind):
        raise ScaffoldError(
            f"the module of a kind {inputs.kind} would import a class of that name; choose another"
        )
    if lock.versions_of(inputs):
        raise ScaffoldError(
            f"{inputs.kind} already exists; templates are for a new kind, and a further version of it does "
            "not need them"
        )
    writer = FileWriter(directory, lock)
    schema, warnings = schema_of_values(folder)
    definition = _definition(inputs, schema)
    spec = sample(definition, inputs.version)["spec"]
    if schema.get("required"):
        inputs = replace(inputs, sample=json.dumps(spec))
    target = template_folder(project, inputs)
    for name, text in _files(folder).items():
        writer.create(f"{target}/{name}", text, COPY)
    for path, text in render_group(project, inputs).items():
        writer.keep_or_create(path, text, "group")
    types = generate_types(definition)[inputs.version]
    writer.create(module_file(project, inputs, inputs.module), types, COPY)
    name, rendered = render_api(project, inputs)
    for path, text in rendered.items():
        writer.create(path, text, name)
    lock.put(inputs)
    writer.changes.warnings += [*warnings, *_problems(folder, spec)]
    writer.changes.next += ["pytest", "kubewright run"]
    return writer.commit()


def _problems(folder: TemplateFolder, spec: dict[str, Any]) -> list[str]:
    if folder.is_chart:
        return [
            "the program helm renders the chart: install it, and copy it to the image in the Dockerfile: "
            "COPY --from=alpine/helm:3.17.3 /usr/bin/helm /usr/local/bin/helm"
        ]
    try:
        folder.render_sample(spec)
    except RenderError as error:
        return [f"the templates cannot be rendered with the default values: {error}"]
    return []


def _files(folder: TemplateFolder) -> dict[str, str]:
    """Return the files of a template folder; raise `ScaffoldError` for one that is not text."""
    files: dict[str, str] = {}
    for path in sorted(folder.directory.rglob("*")):
        name = path.relative_to(folder.directory).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in name.split("/")):
            continue
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ScaffoldError(f"{path} is larger than 1 MiB; move it out of the template folder")
            files[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            hint = "; unpack the charts that it depends on" if name.endswith(".tgz") else ""
            raise ScaffoldError(f"{path} is not a text file{hint}") from None
    return files


def _definition(inputs: ResourceInput, schema: Schema) -> dict[str, Any]:
    """Return the CRD of a kind with this schema of the spec."""
    built = crd(RenderedObject)
    status = built["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    description = f"Desired state of {inputs.article} {inputs.kind}: the values of the templates."
    spec = {"description": description, **schema}
    columns = [
        {"name": name, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="Ready")].{field}'}
        for name, field in (("Ready", "status"), ("Reason", "reason"))
    ]
    version = {
        "name": inputs.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            *columns,
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": f"A {inputs.kind}.",
                "properties": {
                    "spec": spec,
                    "status": {**status, "description": f"Observed state of {inputs.article} {inputs.kind}."},
                },
                **({"required": ["spec"]} if schema.get("required") else {}),
            }
        },
    }
    plural = inputs.plural or pluralize(inputs.kind.lower())
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{inputs.api_group}"},
        "spec": {
            "group": inputs.api_group,
            "scope": inputs.scope,
            "names": {"kind": inputs.kind, "plural": plural, "singular": inputs.kind.lower()},
            "versions": [version],
        },
    }
