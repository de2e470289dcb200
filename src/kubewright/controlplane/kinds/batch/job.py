"""Jobs: pods that end, counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object, deep_copy
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.defaults import default_template
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.printing import condition_is
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    choice,
    dns_subdomain,
    immutable,
    non_negative,
    qualified_name,
)
from kubewright.controlplane.kinds.workload import immutable_selector
from kubewright.schema import field_errors as fe

from .job_status import IndexesError, index_intervals, job_status_errors

_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_MAX_INT32 = (1 << 31) - 1
_INDEXES_LENGTH = 64 * 1024
_EXIT_CODE_FIELDS = ("containerName", "operator", "values")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def default_job_spec(spec: Object) -> None:
    """Fill in the spec of a job: one completion, six retries."""
    default_template(spec.setdefault("template", {}))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault(
        "podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    )
    spec.setdefault("manualSelector", False)
    default_failure_policy(spec)


def default_failure_policy(spec: Object) -> None:
    """Patterns of conditions look for true ones."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


class JobStrategy(KindStrategy):
    """Jobs."""

    tracks_generation = True
    default_propagation = "Orphan"

    def default(self, version: Version, obj: Object) -> None:
        """Fill in a job."""
        spec: Object = obj.setdefault("spec", {})
        default_job_spec(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        if spec.get("manualSelector") or _UID_LABELS[0] in labels:
            self.canonicalize(obj)

    def canonicalize(self, obj: Object) -> None:
        """A job without labels has those of its template."""
        labels = (obj["spec"]["template"].get("metadata") or {}).get("labels") or {}
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Jobs tell their pods by their own uid, unless they are told how."""
        spec = obj["spec"]
        if spec.get("manualSelector"):
            return
        metadata: Object = spec["template"].setdefault("metadata", {})
        labels: Object = metadata.setdefault("labels", {})
        for key in _NAME_LABELS:
            labels.setdefault(key, obj["metadata"].get("name") or "")
        for key in _UID_LABELS:
            labels.setdefault(key, obj["metadata"]["uid"])
        selector: Object = spec.setdefault("selector", {})
        selector.setdefault("matchLabels", {}).setdefault(_UID_LABELS[1], obj["metadata"]["uid"])

    def deletion_asked(self, op: Operation) -> None:
        """Who says nothing about the pods of a job is told that they stay."""
        if not {"propagationPolicy", "orphanDependents"} & op.options.keys():
            op.warn(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
                "to remove them or set propagationPolicy=Orphan to suppress this warning"
            )

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new job."""
        errors = _generated_selector_errors(obj)
        errors += job_errors(obj["spec"], "spec") + _selector_errors(obj["spec"])
        return errors + _name_errors(obj)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """A changed job, or a new status of one."""
        if op.subresource == "status":
            return job_status_errors(obj, old)
        errors = job_errors(obj["spec"], "spec") + _selector_errors(obj["spec"])
        return [
            *_generated_selector_errors(obj),
            *errors,
            *_name_errors(obj),
            *errors,
            *_job_change_errors(obj, old),
        ]

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Names that make bad host names, unwise templates."""
        if op.subresource or (old is not None and old["spec"] == obj["spec"]):
            return
        from kubewright.controlplane.kinds.core.podspec.warnings import host_name_warnings, pod_warnings

        if old is None:
            yield from host_name_warnings(obj)
        yield from pod_warnings(obj["spec"]["template"], "spec.template")


def _generated_selector_errors(obj: Object) -> Errors:
    spec = obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    from kubewright.controlplane.kinds.core.podspec.template import matches

    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    expected = dict.fromkeys(_UID_LABELS, obj["metadata"]["uid"])
    expected |= dict.fromkeys(_NAME_LABELS, obj["metadata"].get("name") or "")
    errors: Errors = []
    for key, value in expected.items():
        if labels.get(key) != value:
            path = f"spec.template.metadata.labels[{key}]"
            if key not in labels:
                errors.append(fe.required(path, f"must be '{value}'"))
            else:
                errors.append(fe.invalid(path, labels, f"must be '{value}'"))
    if not matches(spec["selector"], expected):
        errors.append(fe.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _selector_errors(spec: Object) -> Errors:
    from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
    from kubewright.controlplane.kinds.core.podspec.template import labels_of, matches, mismatch

    if spec.get("selector") is None:
        return [fe.required("spec.selector", ""), mismatch(spec["template"], "spec.template")]
    errors = selector_errors(spec["selector"], "spec.selector")
    if not errors and not matches(spec["selector"], labels_of(spec["template"])):
        errors.append(mismatch(spec["template"], "spec.template"))
    return errors


def _name_errors(obj: Object) -> Errors:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    if spec.get("completionMode") != "Indexed" or not spec.get("completions"):
        return []
    last = f"{name}-{spec['completions'] - 1}"
    if not names.check_dns_label(last):
        return []
    text = f"will not able to create pod with invalid DNS label: {last}"
    return [fe.invalid("metadata.name", name, text)]


def job_errors(spec: Object, path: str) -> Errors:
    """What is wrong with the spec of a job or of a template for jobs, except its selector."""
    from kubewright.controlplane.kinds.core.podspec.template import template_errors

    errors: Errors = []
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        errors += non_negative(spec.get(field), f"{path}.{field}")
    failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if failed is not None and per_index is None:
        errors.append(fe.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        errors += _manager_errors(spec["managedBy"], f"{path}.managedBy")
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        errors.append(fe.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        errors += _indexed_errors(spec, path)
    elif mode in (None, "NonIndexed"):
        errors += [
            fe.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(field) is not None
        ]
    policy = spec.get("podFailurePolicy")
    if policy is not None:
        errors += _failure_policy_errors(spec, policy.get("rules") or [], f"{path}.podFailurePolicy.rules")
    success = spec.get("successPolicy")
    if success is not None:
        if mode != "Indexed":
            text = "requires indexed completion mode"
            errors.append(fe.invalid(f"{path}.successPolicy", _shown_success(success), text))
        elif spec.get("completions") is not None:
            rules = success.get("rules") or []
            errors += _success_policy_errors(rules, spec["completions"], f"{path}.successPolicy.rules")
    allowed = ("Failed", "TerminatingOrFailed") if policy is None else ("Failed",)
    if spec.get("podReplacementPolicy") is not None:
        errors += choice(spec["podReplacementPolicy"], allowed, f"{path}.podReplacementPolicy")
    template = spec.get("template") or {}
    errors += template_errors(template, f"{path}.template")
    restart, where = (template.get("spec") or {}).get("restartPolicy"), f"{path}.template.spec.restartPolicy"
    if restart in ("Always", "", None):
        errors.append(fe.required(where, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        errors.append(fe.not_supported(where, restart, ("OnFailure", "Never")))
    elif policy is not None and restart != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(fe.invalid(where, restart, text))
    return errors


def _manager_errors(name: str, path: str) -> Errors:
    if not name:
        return [fe.required(path, "")]
    domain, slash, rest = name.partition("/")
    if not slash or not domain or not rest:
        return [fe.invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = dns_subdomain(domain, path)
    if len(name) > 63:
        errors.append(fe.too_long(path, 63))
    return errors


def _indexed_errors(spec: Object, path: str) -> Errors:
    errors: Errors = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(fe.required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > 100_000:
        text = "must be less than or equal to 100000 when completion mode is Indexed"
        errors.append(fe.invalid(f"{path}.parallelism", parallelism, text))
    if failed is not None:
        if completions is not None and failed > completions:
            text = "must be less than or equal to completions"
            errors.append(fe.invalid(f"{path}.maxFailedIndexes", failed, text))
        if failed > 100_000:
            text = "must be less than or equal to 100000"
            errors.append(fe.invalid(f"{path}.maxFailedIndexes", failed, text))
    if (completions or 0) > 100_000 and spec.get("backoffLimitPerIndex") is not None:
        above = "when completions are above 100000 and used with backoff limit per index"
        if failed is None:
            text = "must be specified when completions is above 100000"
            errors.append(fe.required(f"{path}.maxFailedIndexes", text))
        elif failed > 10_000:
            text = f"must be less than or equal to 10000 {above}"
            errors.append(fe.invalid(f"{path}.maxFailedIndexes", failed, text))
        if (parallelism or 0) > 10_000:
            text = f"must be less than or equal to 10000 {above}"
            errors.append(fe.invalid(f"{path}.parallelism", parallelism, text))
    return errors


def _failure_policy_errors(spec: Object, rules: list[Object], path: str) -> Errors:
    errors: Errors = []
    if len(rules) > 20:
        errors.append(fe.too_many(path, len(rules), 20))
    inner = (spec.get("template") or {}).get("spec") or {}
    known = {one.get("name") for kind in ("containers", "initContainers") for one in inner.get(kind) or ()}
    for position, rule in enumerate(rules):
        where, action = f"{path}[{position}]", rule.get("action")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if not action:
            listed = " ".join(f'"{one}"' for one in _ACTIONS)
            errors.append(fe.required(f"{where}.action", f"valid values: [{listed}]"))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            text = "requires the backoffLimitPerIndex to be set"
            errors.append(fe.invalid(f"{where}.action", action, text))
        elif action not in _ACTIONS:
            errors.append(fe.not_supported(f"{where}.action", action, _ACTIONS))
        if codes is not None:
            errors += _exit_code_errors(codes, known, f"{where}.onExitCodes")
        for index, pattern in enumerate(conditions):
            at = f"{where}.onPodConditions[{index}]"
            errors += qualified_name(pattern.get("type") or "", f"{at}.type")
            errors += choice(pattern.get("status"), ("False", "True", "Unknown"), f"{at}.status")
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(fe.invalid(where, fe.OMIT, text))
        elif codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(fe.invalid(where, fe.OMIT, text))
    return errors


def _success_policy_errors(rules: list[Object], completions: int, path: str) -> Errors:
    errors: Errors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(fe.required(path, text))
    if len(rules) > 20:
        errors.append(fe.too_many(path, len(rules), 20))
    for position, rule in enumerate(rules):
        where, indexes, count = (
            f"{path}[{position}]",
            rule.get("succeededIndexes"),
            rule.get("succeededCount"),
        )
        if indexes is None and count is None:
            text = "at least one of succeededCount or succeededIndexes must be specified"
            errors.append(fe.required(where, text))
        named = 0
        if indexes is not None:
            if len(indexes) > _INDEXES_LENGTH:
                errors.append(fe.too_long(f"{where}.succeededIndexes", _INDEXES_LENGTH))
            try:
                named = sum(last - first + 1 for first, last in index_intervals(indexes, completions))
            except IndexesError as error:
                text = f"error parsing succeededIndexes: {error}"
                errors.append(fe.invalid(f"{where}.succeededIndexes", indexes, text))
        if count is None:
            continue
        at = f"{where}.succeededCount"
        errors += non_negative(count, at)
        least = "must be less than or equal to"
        if count > completions:
            text = f"{least} {completions} (the number of specified completions)"
            errors.append(fe.invalid(at, count, text))
        if indexes is not None and count > named:
            text = f"{least} {named} (the number of indexes in the specified succeededIndexes field)"
            errors.append(fe.invalid(at, count, text))
    return errors


def _shown_success(policy: Object | None) -> Any:
    """A success policy as messages show it."""
    fields = ("succeededIndexes", "succeededCount")
    return policy and fe.GoStruct(
        {
            "Rules": [
                fe.GoStruct({f"S{field[1:]}": rule.get(field) for field in fields})
                for rule in policy.get("rules") or ()
            ]
        }
    )


def _shown_failure(policy: Object | None) -> Any:
    """A pod failure policy as messages show it."""
    if policy is None:
        return None
    rules = []
    for rule in policy.get("rules") or ():
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        shown_codes = codes and fe.GoStruct(
            {f"{field[0].upper()}{field[1:]}": codes.get(field) for field in _EXIT_CODE_FIELDS}
        )
        shown_conditions = conditions and [
            fe.GoStruct({"Type": one.get("type") or "", "Status": one.get("status") or ""})
            for one in conditions
        ]
        rules.append(
            fe.GoStruct(
                {
                    "Action": rule.get("action") or "",
                    "OnExitCodes": shown_codes,
                    "OnPodConditions": shown_conditions,
                }
            )
        )
    return fe.GoStruct({"Rules": rules})


def _exit_code_errors(codes: Object, known: set[Any], path: str) -> Errors:
    operator, values = codes.get("operator"), codes.get("values") or []
    errors = choice(operator, ("In", "NotIn"), f"{path}.operator")
    name = codes.get("containerName")
    if name is not None and name not in known:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(fe.invalid(f"{path}.containerName", name, text))
    if not values:
        errors.append(fe.invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > 255:
        errors.append(fe.too_many(f"{path}.values", len(values), 255))
    seen: set[int] = set()
    for position, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(
                fe.invalid(f"{path}.values[{position}]", value, "must not be 0 for the In operator")
            )
        if value in seen:
            errors.append(fe.duplicate(f"{path}.values[{position}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(fe.invalid(f"{path}.values", values, "must be ordered"))
    return errors


def _job_change_errors(obj: Object, old: Object) -> Errors:
    after, before = obj["spec"], old["spec"]
    errors: Errors = []
    if after.get("completionMode") != "Indexed":
        errors += immutable(after.get("completions"), before.get("completions"), "spec.completions")
    elif after.get("completions") != before.get("completions") and after.get("completions") != after.get(
        "parallelism"
    ):
        text = "can only be modified in tandem with spec.parallelism"
        errors.append(fe.invalid("spec.completions", after.get("completions"), text))
    errors += immutable_selector(after.get("selector"), before.get("selector"))
    template, earlier = after["template"], before["template"]
    status: Object = old.get("status") or {}
    idle = status.get("startTime") is None or condition_is(old, "Suspended")
    if before.get("suspend") and idle and not status.get("active"):
        earlier = _with_directives(earlier, template)
        errors += immutable(template.get("spec"), earlier.get("spec"), "spec.template.spec")
    else:
        errors += immutable(template, earlier, "spec.template")
    shown = {"podFailurePolicy": _shown_failure, "successPolicy": _shown_success}
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if after.get(field) != before.get(field):
            value = shown[field](after.get(field)) if field in shown else after.get(field)
            errors.append(fe.invalid(f"spec.{field}", value, "field is immutable"))
    return errors


def _with_directives(earlier: Object, template: Object) -> Object:
    """The old template with what a suspended job may still change taken from the new one."""
    merged: Object = deep_copy(earlier)
    for field in ("labels", "annotations"):
        value = (template.get("metadata") or {}).get(field)
        if value is None:
            merged.get("metadata", {}).pop(field, None)
        else:
            merged.setdefault("metadata", {})[field] = value
    inner = template.get("spec") or {}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        if field in inner:
            merged["spec"][field] = inner[field]
        else:
            merged["spec"].pop(field, None)
    for kind in ("containers", "initContainers"):
        for container, one in zip(merged["spec"].get(kind) or (), inner.get(kind) or (), strict=False):
            if len(merged["spec"][kind]) == len(inner[kind]) and container.get("name") == one.get("name"):
                container.pop("resources", None)
                if "resources" in one:
                    container["resources"] = one["resources"]
    wanted = (inner.get("affinity") or {}).get("nodeAffinity")
    affinity = dict(merged["spec"].get("affinity") or {})
    if wanted is None:
        affinity.pop("nodeAffinity", None)
    else:
        affinity["nodeAffinity"] = wanted
    if affinity or "affinity" in inner:
        merged["spec"]["affinity"] = affinity
    else:
        merged["spec"].pop("affinity", None)
    return merged
