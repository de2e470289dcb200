"""Stateful sets, and the revisions that they and daemon sets keep."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object, deep_copy
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.defaults import default_volume, round_quantities
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    amount,
    at_most_all,
    choice,
    dns_label,
    immutable,
    int_or_percent,
    non_negative,
)
from kubewright.controlplane.kinds.workload import (
    WorkloadStrategy,
    collision_errors,
    count_errors,
    shown_strategy,
)
from kubewright.schema import field_errors as fe

_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class StatefulSetStrategy(WorkloadStrategy):
    """Stateful sets."""

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The name is part of the names of its pods: a label."""
        return names.check_dns_label(name, prefix=prefix)

    def default_spec(self, spec: Object) -> None:
        """One after the other, claims are kept, ten revisions."""
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy: Object = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention: Object = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            resources = claim["spec"].get("resources") or {}
            round_quantities(resources.get("requests"))
            round_quantities(resources.get("limits"))
            status: Object = claim.setdefault("status", {})
            if not status.get("phase"):
                status["phase"] = "Pending"

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """More than one pod at a time is not on offer."""
        (obj["spec"]["updateStrategy"].get("rollingUpdate") or {}).pop("maxUnavailable", None)

    def spec_errors(self, spec: Object) -> Errors:
        """Policies, claims, replicas, selector and template."""
        from kubewright.controlplane.kinds.core.persistent_volume import claim_spec_errors
        from kubewright.controlplane.kinds.core.podspec.template import selected_template_errors

        errors: Errors = []
        management = spec.get("podManagementPolicy")
        if management not in ("OrderedReady", "Parallel"):
            text = "must be 'OrderedReady' or 'Parallel'"
            errors.append(fe.invalid("spec.podManagementPolicy", management, text))
        errors += _set_strategy_errors(spec["updateStrategy"], "spec.updateStrategy")
        retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for field in ("whenDeleted", "whenScaled"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors += choice(retention.get(field), ("Retain", "Delete"), path)
        for position, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            errors += claim_spec_errors(
                claim.get("spec") or {}, f"spec.volumeClaimTemplates[{position}].spec"
            )
        errors += non_negative(spec.get("replicas"), "spec.replicas")
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += non_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
        if spec.get("serviceName"):
            errors += dns_label(spec["serviceName"], "spec.serviceName")
        return errors + selected_template_errors(
            spec.get("selector"),
            _with_claims(spec),
            "spec",
            noun="statefulset",
            always="StatefulSet",
            unusable="",
        )

    def update_errors(self, obj: Object, old: Object) -> Errors:
        """What of a stateful set never changes."""
        after, before = obj["spec"], old["spec"]
        fields = (after.keys() | before.keys()) - set(_CHANGEABLE)
        if all(after.get(field) == before.get(field) for field in fields):
            return []
        *most, last = (f"'{field}'" for field in _CHANGEABLE)
        text = f"updates to statefulset spec for fields other than {', '.join(most)} and {last} are forbidden"
        return [fe.forbidden("spec", text)]

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that fit together."""
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        errors = count_errors(obj.get("status") or {}, counts, counts, "status.readyReplicas")
        return errors + collision_errors(obj, old)


def _with_claims(spec: Object) -> Object:
    """The template as its pods will be: with the claims as volumes, names given by the set."""
    claims = spec.get("volumeClaimTemplates") or []
    inner = spec["template"].get("spec") or {}
    if not claims and not inner.get("hostname") and not inner.get("subdomain"):
        return dict(spec["template"])
    template: Object = deep_copy(spec["template"])
    template["spec"].pop("hostname", None)
    template["spec"].pop("subdomain", None)
    made = {(claim.get("metadata") or {}).get("name") or "": claim for claim in claims}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in made]
    volumes += [one for one in template["spec"].get("volumes") or () if one.get("name") not in made]
    for volume in volumes:
        default_volume(volume)
    if volumes:
        template["spec"]["volumes"] = volumes
    return template


def _set_strategy_errors(strategy: Object, path: str) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is None:
            return []
        text = "only allowed for updateStrategy 'RollingUpdate'"
        shown = fe.GoStruct({"Partition": rolling.get("partition") or 0, "MaxUnavailable": None})
        return [fe.invalid(f"{path}.rollingUpdate", shown, text)]
    if kind != "RollingUpdate":
        return [fe.invalid(path, shown_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    errors: Errors = []
    if rolling is not None:
        errors += non_negative(rolling.get("partition"), f"{path}.rollingUpdate.partition")
        unavailable, where = rolling.get("maxUnavailable"), f"{path}.rollingUpdate.maxUnavailable"
        if unavailable is not None:
            errors += int_or_percent(unavailable, where)
            if not amount(unavailable):
                errors.append(fe.invalid(where, unavailable, "cannot be 0"))
            errors += at_most_all(unavailable, where)
    return errors


class ControllerRevisionStrategy(KindStrategy):
    """Revisions: their data never changes."""

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new revision."""
        errors = non_negative(obj.get("revision"), "revision")
        data = obj.get("data")
        if data is None:
            errors.append(fe.required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(fe.required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Only the number and the metadata change."""
        errors = non_negative(obj.get("revision"), "revision")
        return errors + immutable(obj.get("data"), old.get("data"), "data")
