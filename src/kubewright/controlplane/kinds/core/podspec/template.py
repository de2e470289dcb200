"""Validation of pod templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubewright.api.field_errors import FieldError
from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import Errors
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

from .annotations import annotation_errors, annotation_match_errors
from .scheduling import format_selector, selector_errors
from .validation import pod_spec_errors


def template_annotation_errors(template: Object, path: str) -> Errors:
    """Check the labels and annotations of a pod template."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = label_errors(metadata.get("labels") or {}, f"{path}.labels")
    for key in sorted(metadata.get("annotations") or {}):
        errors += [
            fe.invalid(f"{path}.annotations", key, text) for text in names.check_qualified_name(key.lower())
        ]
    return errors + annotation_errors(metadata.get("annotations") or {}, spec, f"{path}.annotations")


def template_errors(template: Object, path: str) -> Errors:
    """Check a pod template."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = template_annotation_errors(template, path)
    errors += pod_spec_errors(spec, f"{path}.spec")
    errors += annotation_match_errors(metadata.get("annotations") or {}, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(fe.forbidden(f"{path}.spec.ephemeralContainers", text))
    return errors


def labels_of(template: Object) -> Mapping[str, str]:
    """Return the labels of a template."""
    return (template.get("metadata") or {}).get("labels") or {}


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches; `None` matches nothing, an empty selector everything."""
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


def selector_and_template_errors(
    selector: Object | None,
    template: Object,
    path: str,
    *,
    noun: str,
    always: str,
    unusable: str,
    check: Callable[[Object, str], Errors] = template_errors,
) -> Errors:
    """Check a selector and the template that it must match.

    `noun` is the kind in the message about empty selectors, `always` the one in the message about deadlines,
    `unusable` the message about an invalid selector, after which the template is not validated. `check`
    checks the template itself.
    """
    errors: Errors = []
    if selector is None:
        errors.append(fe.required(f"{path}.selector", ""))
        errors.append(selector_mismatch(template, f"{path}.template"))
    else:
        wrong = selector_errors(selector, f"{path}.selector")
        errors += wrong
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            text = f"empty selector is invalid for {noun}"
            errors.append(fe.invalid(f"{path}.selector", selector, text))
        elif wrong:
            return [*errors, fe.invalid(f"{path}.selector", format_selector(selector), unusable)]
        elif not matches(selector, labels_of(template)):
            errors.append(selector_mismatch(template, f"{path}.template"))
    errors += check(template, f"{path}.template")
    return errors + long_running_errors(template, f"{path}.template", always)


def selector_mismatch(template: Object, path: str) -> FieldError:
    """Return the error for a template that the selector does not match."""
    labels = (template.get("metadata") or {}).get("labels")
    return fe.invalid(f"{path}.metadata.labels", labels, "`selector` does not match template `labels`")


def long_running_errors(template: Object, path: str, noun: str) -> Errors:
    """Check that the pods of a long-running workload always restart and have no deadline."""
    spec = template.get("spec") or {}
    errors: Errors = []
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        errors.append(fe.not_supported(f"{path}.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {noun} is not Supported"
        errors.append(fe.forbidden(f"{path}.spec.activeDeadlineSeconds", text))
    return errors
