"""StatefulSet: defaults, validation and warnings.

The template is checked as the controller completes it: each claim template is also a volume. Only the fields
of the spec that `_MUTABLE_FIELDS` lists can change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.controlplane.kinds.core.podspec.defaults import default_volume, round_quantities
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.kind import STATUS, Kind
from kubewright.controlplane.kinds.printing import AGE, column
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    NOT_NEGATIVE,
    Check,
    Enum,
    Errors,
    Required,
    Rules,
    Switch,
    Table,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import amount, at_most_100_percent, int_or_percent
from kubewright.controlplane.kinds.workload import (
    format_strategy,
    ready_replicas,
    replica_status_rules,
    scale_subresource,
    template_columns,
    template_warnings,
    workload_defaults,
)
from kubewright.schema import field_errors as fe

_MUTABLE_FIELDS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _default_update_strategy(strategy: Object) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)


def _default_claim(claim: Object) -> None:
    claim.setdefault("kind", "PersistentVolumeClaim")
    claim.setdefault("apiVersion", "v1")
    spec: Object = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.get("resources") or {}
    round_quantities(resources.get("requests"))
    round_quantities(resources.get("limits"))
    status: Object = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


_DEFAULTS = Defaults(
    {
        "podManagementPolicy": IfEmpty("OrderedReady"),
        "updateStrategy": {},
        "persistentVolumeClaimRetentionPolicy": {},
        "persistentVolumeClaimRetentionPolicy.whenDeleted": IfEmpty("Retain"),
        "persistentVolumeClaimRetentionPolicy.whenScaled": IfEmpty("Retain"),
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "volumeClaimTemplates[*]": _default_claim,
    }
)


def _former_default_spec(spec: Object) -> None:
    _DEFAULTS(spec)
    _default_update_strategy(spec["updateStrategy"])


def _default_spec(spec: Object) -> None:
    _former_default_spec(spec)
    strategy = spec["updateStrategy"]
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("maxUnavailable", 1)


def _update_strategy_type(strategy: Object, path: str) -> Errors:
    if strategy.get("type") in ("RollingUpdate", "OnDelete"):
        return []
    return [fe.invalid(path, format_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]


def _no_rolling_update(rolling: Object, path: str) -> Errors:
    value = fe.GoStruct({"Partition": rolling.get("partition") or 0, "MaxUnavailable": None})
    return [fe.invalid(path, value, "only allowed for updateStrategy 'RollingUpdate'")]


def _not_zero(value: int | str, path: str) -> Errors:
    return [] if amount(value) else [fe.invalid(path, value, "cannot be 0")]


def _claim_spec_errors(spec: Object, path: str) -> Errors:
    from kubewright.controlplane.kinds.core.persistent_volume_claim import claim_spec_errors

    return claim_spec_errors(spec, path)


def _check_selector_and_template(spec: Object, path: str) -> Errors:
    from kubewright.controlplane.kinds.core.podspec.template import selector_and_template_errors

    template = _with_claims(spec)
    return selector_and_template_errors(
        spec.get("selector"), template, path, noun="statefulset", always="StatefulSet", unusable=""
    )


def _check_selector_and_labels(spec: Object, path: str) -> Errors:
    """1.33 and earlier do not validate the spec of the template."""
    from kubewright.controlplane.kinds.core.podspec.template import (
        selector_and_template_errors,
        template_annotation_errors,
    )

    return selector_and_template_errors(
        spec.get("selector"),
        spec["template"],
        path,
        noun="statefulset",
        always="StatefulSet",
        unusable="",
        check=template_annotation_errors,
    )


def _with_claims(spec: Object) -> Object:
    """Return the template as the controller completes it: claims are volumes, host names are replaced."""
    claims = spec.get("volumeClaimTemplates") or []
    pod = spec["template"].get("spec") or {}
    if not claims and not pod.get("hostname") and not pod.get("subdomain"):
        return dict(spec["template"])
    template: Object = deep_copy(spec["template"])
    template["spec"].pop("hostname", None)
    template["spec"].pop("subdomain", None)
    claim_names = {(claim.get("metadata") or {}).get("name") or "": None for claim in claims}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claim_names]
    volumes += [one for one in template["spec"].get("volumes") or () if one.get("name") not in claim_names]
    for volume in volumes:
        default_volume(volume)
    if volumes:
        template["spec"]["volumes"] = volumes
    return template


_UPDATE_STRATEGIES: dict[str, Table] = {
    "OnDelete": {"rollingUpdate": _no_rolling_update},
    "RollingUpdate": {
        "rollingUpdate.partition": NOT_NEGATIVE,
        "rollingUpdate.maxUnavailable": [int_or_percent, _not_zero, at_most_100_percent],
    },
}
_RETENTION = [Required(), Enum("Retain", "Delete")]
_CLAIMS: Table = {"volumeClaimTemplates[*].spec": Check(_claim_spec_errors, absent={})}


def _rules(claims: Table, template: Callable[[Object, str], Errors]) -> Rules:
    table: Table = {
        "podManagementPolicy": Enum(
            "OrderedReady", "Parallel", detail="must be 'OrderedReady' or 'Parallel'"
        ),
        "updateStrategy": [_update_strategy_type, Switch("type", _UPDATE_STRATEGIES)],
        "persistentVolumeClaimRetentionPolicy.whenDeleted": _RETENTION,
        "persistentVolumeClaimRetentionPolicy.whenScaled": _RETENTION,
        **claims,
        "replicas": NOT_NEGATIVE,
        "minReadySeconds": NOT_NEGATIVE,
        "ordinals.start": NOT_NEGATIVE,
        "serviceName": DNS_LABEL,
    }
    return Rules({"spec": [table, template]})


RULES = _rules(_CLAIMS, _check_selector_and_template)
FORMER_RULES = _rules({}, _check_selector_and_labels)


def _immutable_fields(obj: Object, old: Object) -> Errors:
    after, before = obj["spec"], old["spec"]
    if all(
        after.get(name) == before.get(name) for name in (after.keys() | before.keys()) - {*_MUTABLE_FIELDS}
    ):
        return []
    *most, last = (f"'{name}'" for name in _MUTABLE_FIELDS)
    text = f"updates to statefulset spec for fields other than {', '.join(most)} and {last} are forbidden"
    return [fe.forbidden("spec", text)]


_template_warnings = template_warnings()


def _warnings(obj: Object, old: Object | None) -> Iterator[str]:
    yield from _template_warnings(obj, old)
    if (obj["spec"].get("revisionHistoryLimit") or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )


KINDS = {
    "statefulsets": Kind(
        default=workload_defaults(_default_spec),
        # MaxUnavailableStatefulSet is enabled since 1.37.
        former={
            "-1.36": {"default": workload_defaults(_former_default_spec)},
            "-1.33": {
                "validate": FORMER_RULES,
                "validate_update": UpdateRules(FORMER_RULES, _immutable_fields),
            },
        },
        validate=RULES,
        validate_update=UpdateRules(RULES, _immutable_fields),
        validate_status=replica_status_rules(
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            ready="status.readyReplicas",
        ),
        validate_name=names.check_dns_label,
        warnings=_warnings,
        generation_fields=("spec",),
        columns=(
            column("Ready", ready_replicas, description="Number of the pod with ready state"),
            AGE,
            *template_columns(),
        ),
        subresources={"status": STATUS, "scale": scale_subresource()},
    ),
}
