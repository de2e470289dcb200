"""PodTemplate."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import (
    column,
    field,
    labels_text,
)
from kubewright.controlplane.kinds.validation import Rules
from kubewright.controlplane.kinds.workload import template_columns

from .podspec.defaults import default_template
from .podspec.template import template_errors
from .podspec.warnings import pod_warnings


def _default(obj: Object) -> None:
    default_template(obj.setdefault("template", {}))


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    if old is None or old.get("template") != obj.get("template"):
        yield from pod_warnings(obj["template"], "template")


KINDS = {
    "podtemplates": Kind(
        default=_default,
        validate=Rules({"template": template_errors}),
        warnings=_warnings,
        generation_fields=("template",),
        returns_deleted_object=True,
        columns=(
            *template_columns("template", wide=False),
            column(
                "Pod Labels",
                lambda obj: labels_text(field(obj, "template.metadata.labels")),
                description="The labels for the pod template.",
            ),
        ),
    )
}
