"""PodTemplate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import (
    CONTAINERS,
    IMAGES,
    NAME,
    column,
    container_cells,
    labels_text,
    name_of,
)
from kubewright.controlplane.kinds.validation import Rules

from .podspec.defaults import default_template
from .podspec.template import template_errors
from .podspec.warnings import pod_warnings


def _default(obj: Object) -> None:
    default_template(obj.setdefault("template", {}))


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    if old is None or old.get("template") != obj.get("template"):
        yield from pod_warnings(obj["template"], "template")


def _cells(obj: Object) -> list[Any]:
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [name_of(obj), *container_cells(template), labels_text(labels)]


KINDS = {
    "podtemplates": Kind(
        default=_default,
        validate=Rules({"template": template_errors}),
        warnings=_warnings,
        generation_fields=("template",),
        returns_deleted_object=True,
        columns=(
            NAME,
            column("Containers", description=CONTAINERS.description),
            column("Images", description=IMAGES.description),
            column("Pod Labels", description="The labels for the pod template."),
        ),
        cells=_cells,
    )
}
