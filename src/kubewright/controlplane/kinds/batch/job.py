"""Job: generated selector, validation of updates, and columns; `job_spec` validates the spec.

Unless `manualSelector` is set, the selector and labels of the pods are generated from the uid of the job. The
template is immutable, except for scheduling fields of a suspended job; the completions of an indexed job can
change together with its parallelism.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.values import names
from kubewright.api.values.times import parse_time
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, condition_is, since
from kubewright.controlplane.kinds.validation import Errors, Immutable, Rules, UpdateRules
from kubewright.controlplane.kinds.validation.formats import immutable
from kubewright.controlplane.kinds.workload import (
    immutable_label_selector,
    selector_column,
    template_columns,
    template_warnings,
)
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.columns import human_duration

from .job_spec import JOB_SPEC_RULES, default_job_spec, failure_policy_value, success_policy_value
from .job_status import validate_job_status

_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")


class JobStrategy(KindStrategy):
    """Generates the selector of a job, unless `manualSelector` is set; deletion orphans pods by default."""

    default_propagation = "Orphan"

    def default(self, version: Version, obj: Object) -> None:
        """Apply the defaults."""
        spec: Object = obj.setdefault("spec", {})
        default_job_spec(spec)
        if spec.get("manualSelector") or _UID_LABELS[0] in _template_labels(spec):
            self.canonicalize(obj)

    def canonicalize(self, obj: Object) -> None:
        """Copy the labels of the template to a job without labels."""
        labels = _template_labels(obj["spec"])
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the selector and the labels of the pods from name and uid of the job."""
        spec = obj["spec"]
        if spec.get("manualSelector"):
            return
        metadata: Object = spec["template"].setdefault("metadata", {})
        labels: Object = metadata.setdefault("labels", {})
        for key, value in _generated_labels(obj).items():
            labels.setdefault(key, value)
        selector: Object = spec.setdefault("selector", {})
        selector.setdefault("matchLabels", {}).setdefault(_UID_LABELS[1], obj["metadata"]["uid"])

    def before_delete_request(self, op: Operation) -> None:
        """Warn if the request does not choose what happens to the pods."""
        if not {"propagationPolicy", "orphanDependents"} & op.options.keys():
            op.warn(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
                "to remove them or set propagationPolicy=Orphan to suppress this warning"
            )


def _template_labels(spec: Object) -> dict[str, str]:
    return (spec["template"].get("metadata") or {}).get("labels") or {}


def _generated_labels(obj: Object) -> dict[str, str]:
    name, uid = obj["metadata"].get("name") or "", obj["metadata"]["uid"]
    return {**dict.fromkeys(_NAME_LABELS, name), **dict.fromkeys(_UID_LABELS, uid)}


def _generated_selector_errors(obj: Object, path: str) -> Errors:
    spec = obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    from kubewright.controlplane.kinds.core.podspec.template import matches

    labels, generated = _template_labels(spec), _generated_labels(obj)
    errors: Errors = []
    for key in (*_UID_LABELS, *_NAME_LABELS):
        label_path, text = f"spec.template.metadata.labels[{key}]", f"must be '{generated[key]}'"
        if key not in labels:
            errors.append(fe.required(label_path, text))
        elif labels[key] != generated[key]:
            errors.append(fe.invalid(label_path, labels, text))
    if not matches(spec["selector"], generated):
        errors.append(fe.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _selector_errors(spec: Object, path: str) -> Errors:
    from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
    from kubewright.controlplane.kinds.core.podspec.template import labels_of, matches, selector_mismatch

    template, selector = spec["template"], spec.get("selector")
    if selector is None:
        return [fe.required(f"{path}.selector", ""), selector_mismatch(template, f"{path}.template")]
    errors = selector_errors(selector, f"{path}.selector")
    if not errors and not matches(selector, labels_of(template)):
        errors.append(selector_mismatch(template, f"{path}.template"))
    return errors


def _name_errors(obj: Object, path: str) -> Errors:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    if spec.get("completionMode") != "Indexed" or not spec.get("completions"):
        return []
    pod_name = f"{name}-{spec['completions'] - 1}"
    if not names.check_dns_label(pod_name):
        return []
    text = f"will not able to create pod with invalid DNS label: {pod_name}"
    return [fe.invalid("metadata.name", name, text)]


SPEC_RULES = Rules({"spec": [JOB_SPEC_RULES, _selector_errors]})
RULES = Rules({"": [_generated_selector_errors, SPEC_RULES, _name_errors]})


# Updates


def _completions_errors(obj: Object, old: Object) -> Errors:
    after, before = obj["spec"], old["spec"]
    completions, path = after.get("completions"), "spec.completions"
    if after.get("completionMode") != "Indexed":
        return immutable(completions, before.get("completions"), path)
    if completions in (before.get("completions"), after.get("parallelism")):
        return []
    return [fe.invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


def _template_change_errors(obj: Object, old: Object) -> Errors:
    template, earlier = obj["spec"]["template"], old["spec"]["template"]
    status: Object = old.get("status") or {}
    is_idle = status.get("startTime") is None or condition_is(old, "Suspended")
    if old["spec"].get("suspend") and is_idle and not status.get("active"):
        earlier = _with_mutable_fields(earlier, template)
        return immutable(template.get("spec"), earlier.get("spec"), "spec.template.spec")
    return immutable(template, earlier, "spec.template")


def _set_or_remove(obj: Object, name: str, value: Any) -> None:
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


def _with_mutable_fields(earlier: Object, template: Object) -> Object:
    """Return the old template with the fields of the new one that can change in a suspended job."""
    merged: Object = deep_copy(earlier)
    for name in ("labels", "annotations"):
        value = (template.get("metadata") or {}).get(name)
        _set_or_remove(merged.setdefault("metadata", {}), name, value)
    pod: Object = merged["spec"]
    new_pod = template.get("spec") or {}
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _set_or_remove(pod, name, new_pod.get(name))
    for kind in ("containers", "initContainers"):
        containers, new_containers = pod.get(kind) or (), new_pod.get(kind) or ()
        if len(containers) == len(new_containers):
            for container, new in zip(containers, new_containers, strict=True):
                if container.get("name") == new.get("name"):
                    _set_or_remove(container, "resources", new.get("resources"))
    affinity = dict(pod.get("affinity") or {})
    _set_or_remove(affinity, "nodeAffinity", (new_pod.get("affinity") or {}).get("nodeAffinity"))
    _set_or_remove(pod, "affinity", affinity if affinity or "affinity" in new_pod else None)
    return merged


CHANGE_RULES = UpdateRules(
    _completions_errors,
    {"spec.selector": immutable_label_selector},
    _template_change_errors,
    {
        "spec.completionMode": Immutable(),
        "spec.podFailurePolicy": Immutable(show=failure_policy_value),
        "spec.backoffLimitPerIndex": Immutable(),
        "spec.managedBy": Immutable(),
        "spec.successPolicy": Immutable(show=success_policy_value),
    },
)


def _validate_update(new: Object, old: Object) -> Errors:
    return [*SPEC_RULES(new), *CHANGE_RULES(new, old), *_name_errors(new, "")]


def _former_validate_update(new: Object, old: Object) -> Errors:
    """1.36 and earlier also check the generated selector, and report the errors of the spec twice."""
    errors = SPEC_RULES(new)
    return [
        *_generated_selector_errors(new, ""),
        *errors,
        *_name_errors(new, ""),
        *errors,
        *CHANGE_RULES(new, old),
    ]


# Printing


def _completions_text(obj: Object) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    succeeded, parallelism = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration_text(obj: Object) -> str:
    status = obj.get("status") or {}
    start, end = status.get("startTime"), status.get("completionTime")
    if start is None:
        return ""
    return human_duration(parse_time(end) - parse_time(start)) if end else since(start)


def _status_text(obj: Object) -> str:
    for type_ in ("Complete", "Failed"):
        if condition_is(obj, type_):
            return type_
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_is(obj, type_):
            return type_
    return "Running"


def _succeeded(obj: Object) -> str:
    return str((obj.get("status") or {}).get("succeeded") or 0)


KINDS = {
    "jobs": Kind(
        strategy=JobStrategy,
        validate=RULES,
        validate_update=_validate_update,
        former={"-1.36": {"validate_update": _former_validate_update, "checks_whole_on_update": True}},
        validate_status=validate_job_status,
        warnings=template_warnings(host_names=True),
        generation_fields=("spec",),
        field_selectors={"status.successful": _succeeded},
        unsupported_field_message='field label "{label}" not supported for Job',
        columns=(
            column("Status", _status_text, description="Status of the job."),
            column(
                "Completions", _completions_text, description="Number of succeeded pods and of completions."
            ),
            column("Duration", _duration_text, description="Time required to complete the job."),
            AGE,
            *template_columns(),
            selector_column(),
        ),
        subresources={"status": STATUS},
    ),
}
