"""Rules of pod templates: the pods that workloads make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.controlplane.kinds.validation.formats import Errors
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

from .annotations import annotation_errors, annotation_match_errors
from .scheduling import selector_errors, shown_selector
from .validation import pod_spec_errors

Object = dict[str, Any]


def template_errors(template: Object, path: str) -> Errors:
    """Everything wrong with a template on its own."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = label_errors(metadata.get("labels") or {}, f"{path}.labels")
    for key in sorted(metadata.get("annotations") or {}):
        errors += [
            fe.invalid(f"{path}.annotations", key, text) for text in names.check_qualified_name(key.lower())
        ]
    errors += annotation_errors(metadata.get("annotations") or {}, spec, f"{path}.annotations")
    errors += pod_spec_errors(spec, f"{path}.spec")
    errors += annotation_match_errors(metadata.get("annotations") or {}, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(fe.forbidden(f"{path}.spec.ephemeralContainers", text))
    return errors


def labels_of(template: Object) -> Mapping[str, str]:
    """The labels of a template."""
    return (template.get("metadata") or {}).get("labels") or {}


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a structured selector selects labels; no selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or ():
        key, operator, values = term.get("key") or "", term.get("operator"), term.get("values") or ()
        if operator == "In" and labels.get(key) not in values:
            return False
        if operator == "NotIn" and key in labels and labels[key] in values:
            return False
        if operator == "Exists" and key not in labels:
            return False
        if operator == "DoesNotExist" and key in labels:
            return False
    return True


def selected_template_errors(
    selector: Object | None, template: Object, path: str, *, noun: str, always: str, unusable: str
) -> Errors:
    """A selector and the template whose pods it must select.

    `noun` is the workload in the sentence about empty selectors, `always` the one about deadlines, `unusable`
    what is said about a selector that cannot be used; nothing is said about the template then.
    """
    errors: Errors = []
    if selector is None:
        errors.append(fe.required(f"{path}.selector", ""))
        errors.append(mismatch(template, f"{path}.template"))
    else:
        wrong = selector_errors(selector, f"{path}.selector")
        errors += wrong
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            text = f"empty selector is invalid for {noun}"
            errors.append(fe.invalid(f"{path}.selector", selector, text))
        elif wrong:
            return [*errors, fe.invalid(f"{path}.selector", shown_selector(selector), unusable)]
        elif not matches(selector, labels_of(template)):
            errors.append(mismatch(template, f"{path}.template"))
    errors += template_errors(template, f"{path}.template")
    return errors + running_for_ever_errors(template, f"{path}.template", always)


def mismatch(template: Object, path: str) -> FieldError:
    """The error for a template that its own selector does not select."""
    labels = (template.get("metadata") or {}).get("labels")
    return fe.invalid(f"{path}.metadata.labels", labels, "`selector` does not match template `labels`")


def running_for_ever_errors(template: Object, path: str, noun: str) -> Errors:
    """Pods of long-running workloads restart always and have no deadline."""
    spec = template.get("spec") or {}
    errors: Errors = []
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        errors.append(fe.not_supported(f"{path}.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {noun} is not Supported"
        errors.append(fe.forbidden(f"{path}.spec.activeDeadlineSeconds", text))
    return errors
