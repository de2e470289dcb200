"""The group `apps`: deployments, replica sets, stateful sets, daemon sets and their revisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.resource import Object, Operation, StatusSubresource, Version
from kubewright.apiserver.shaping import copied
from kubewright.schema import fielderrors as fe

from .kind import Kind, KindStrategy
from .podspec.defaults import default_template, default_volume, round_quantities
from .podspec.names_and_numbers import (
    Errors,
    amount,
    at_most_all,
    choice,
    dns_label,
    immutable,
    int_or_percent,
    non_negative,
)
from .rows import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    age_of,
    column,
    container_cells,
    label_selector_text,
    labels_text,
    name_of,
    selector_text,
)
from .workloads import collision_errors, count_errors, immutable_selector, scale_subresource

STATUS = StatusSubresource(keeps_metadata=False)


class WorkloadStrategy(KindStrategy):
    """Rules that all kinds of this group share."""

    tracks_generation = True
    recommends_labels = False
    """Whether names that make bad host names of pods get a warning."""

    def default(self, version: Version, obj: Object) -> None:
        """Fill in the spec and its template."""
        spec: Object = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        self.default_spec(spec)

    def default_spec(self, spec: Object) -> None:
        """Fill in what is particular about the kind."""

    def spec_errors(self, spec: Object) -> Errors:
        """What is wrong with a spec, new or not."""
        return []

    def update_errors(self, obj: Object, old: Object) -> Errors:
        """What may not change."""
        return immutable_selector(obj["spec"].get("selector"), old["spec"].get("selector"))

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """What is wrong with a status."""
        return []

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new object."""
        return self.spec_errors(obj["spec"])

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """A changed object, or a new status of one."""
        if op.subresource == "status":
            return self.status_errors(obj, old)
        return self.spec_errors(obj["spec"]) + self.update_errors(obj, old)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """What is unwise about the template."""
        if op.subresource or (old is not None and old["spec"] == obj["spec"]):
            return
        from .podspec.warnings import host_name_warnings, pod_spec_warnings

        if self.recommends_labels and old is None:
            yield from host_name_warnings(obj)
        yield from pod_spec_warnings(obj["spec"]["template"].get("spec") or {}, "spec.template.spec")

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Appliers own what the endpoint changes."""
        return ("spec",) if subresource == "status" else ("status",)


def _shown_strategy(strategy: Object) -> fe.GoStruct:
    return fe.GoStruct({"Type": strategy.get("type") or "", "RollingUpdate": strategy.get("rollingUpdate")})


class DeploymentStrategy(WorkloadStrategy):
    """Deployments."""

    recommends_labels = True

    def default_spec(self, spec: Object) -> None:
        """One replica, a quarter at a time, ten revisions, ten minutes."""
        spec.setdefault("replicas", 1)
        strategy: Object = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling: Object = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Labels are not changed through `status`."""
        if op.subresource == "status":
            if "labels" in old["metadata"]:
                obj["metadata"]["labels"] = old["metadata"]["labels"]
            else:
                obj["metadata"].pop("labels", None)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """New annotations count too: they are copied to replica sets."""
        return bool(
            obj["spec"] != old["spec"]
            or (obj["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
        )

    def spec_errors(self, spec: Object) -> Errors:
        """Replicas, selector and template, strategy, deadlines."""
        from .podspec.template import selected_template_errors

        errors = non_negative(spec.get("replicas"), "spec.replicas")
        errors += selected_template_errors(
            spec.get("selector"),
            spec["template"],
            "spec",
            noun="deployment",
            always="ReplicaSet",
            unusable="invalid label selector",
        )
        errors += _deployment_strategy_errors(spec["strategy"], "spec.strategy")
        ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds")
        errors += non_negative(ready, "spec.minReadySeconds")
        errors += non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
        if deadline is not None:
            errors += non_negative(deadline, "spec.progressDeadlineSeconds")
            if deadline <= ready:
                text = "must be greater than minReadySeconds"
                errors.append(fe.invalid("spec.progressDeadlineSeconds", deadline, text))
        return errors

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that fit together."""
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        fields = (*counts, "unavailableReplicas", "terminatingReplicas")
        errors = count_errors(obj.get("status") or {}, fields, counts, "readyReplicas")
        return errors + collision_errors(obj, old)


def _deployment_strategy_errors(strategy: Object, path: str) -> Errors:
    rolling: Any = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [fe.forbidden(f"{path}.rollingUpdate", text)]
    if strategy.get("type") != "RollingUpdate":
        return [fe.not_supported(path, _shown_strategy(strategy), ("Recreate", "RollingUpdate"))]
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    if not amount(unavailable) and not amount(surge):
        text = "may not be 0 when `maxSurge` is 0"
        errors.append(fe.invalid(f"{path}.maxUnavailable", unavailable, text))
    return errors + at_most_all(unavailable, f"{path}.maxUnavailable")


class ReplicaSetStrategy(WorkloadStrategy):
    """Replica sets."""

    recommends_labels = True

    def default_spec(self, spec: Object) -> None:
        """One replica."""
        spec.setdefault("replicas", 1)

    def spec_errors(self, spec: Object) -> Errors:
        """Replicas, selector and template."""
        from .podspec.template import selected_template_errors

        errors = non_negative(spec.get("replicas"), "spec.replicas")
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        return errors + selected_template_errors(
            spec.get("selector"),
            spec["template"],
            "spec",
            noun="deployment",
            always="ReplicaSet",
            unusable="invalid label selector",
        )

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that fit together."""
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return count_errors(
            obj.get("status") or {}, (*counts, "terminatingReplicas"), counts, "readyReplicas"
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
        from .podspec.template import selected_template_errors
        from .volumes import claim_spec_errors

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
        errors = super().update_errors(obj, old)
        for field in ("volumeClaimTemplates", "serviceName", "podManagementPolicy"):
            errors += immutable(after.get(field), before.get(field), f"spec.{field}")
        return errors

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
    template: Object = copied(spec["template"])
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
        return [fe.invalid(path, _shown_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
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


class DaemonSetStrategy(WorkloadStrategy):
    """Daemon sets."""

    def default_spec(self, spec: Object) -> None:
        """One node at a time, ten revisions."""
        strategy: Object = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling: Object = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """The generation of the template is counted in an annotation."""
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations["deprecated.daemonset.template.generation"] = "1"

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Count a changed template."""
        if op.subresource:
            return
        key = "deprecated.daemonset.template.generation"
        text = (old["metadata"].get("annotations") or {}).get(key) or "0"
        before = int(text) if text.isdigit() else 0
        changed = obj["spec"]["template"] != old["spec"]["template"]
        obj["metadata"].setdefault("annotations", {})[key] = str(before + 1 if changed else before)

    def spec_errors(self, spec: Object) -> Errors:
        """Selector and template, strategy, counts."""
        from .podspec.scheduling import selector_errors
        from .podspec.template import labels_of, matches, mismatch, running_for_ever_errors, template_errors

        selector, template = spec.get("selector"), spec["template"]
        errors = selector_errors(selector, "spec.selector")
        if not errors and not matches(selector, labels_of(template)):
            errors.append(mismatch(template, "spec.template"))
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(fe.invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        errors += template_errors(template, "spec.template")
        errors += running_for_ever_errors(template, "spec.template", "DaemonSet")
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += _daemon_strategy_errors(spec["updateStrategy"], "spec.updateStrategy")
        return errors + non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that are counts."""
        status = obj.get("status") or {}
        errors = [
            error
            for field, value in status.items()
            if isinstance(value, int)
            for error in non_negative(value, f"status.{field}")
        ]
        return errors + collision_errors(obj, old)


def _daemon_strategy_errors(strategy: Object, path: str) -> Errors:
    if strategy.get("type") == "OnDelete":
        return []
    if strategy.get("type") != "RollingUpdate":
        return [fe.not_supported(path, _shown_strategy(strategy), ("RollingUpdate", "OnDelete"))]
    path = f"{path}.rollingUpdate"
    rolling = strategy.get("rollingUpdate") or {}
    errors: Errors = []
    for field in ("maxUnavailable", "maxSurge"):
        errors += int_or_percent(rolling.get(field), f"{path}.{field}")
        errors += at_most_all(rolling.get(field), f"{path}.{field}")
    unavailable, surge = amount(rolling.get("maxUnavailable")), amount(rolling.get("maxSurge"))
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(fe.invalid(f"{path}.maxSurge", rolling.get("maxSurge"), text))
    elif not unavailable and not surge:
        errors.append(fe.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
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


def _counts(obj: Object) -> tuple[Object, Object, Object]:
    spec = obj.get("spec") or {}
    return spec, obj.get("status") or {}, spec.get("template") or {}


def _deployment_cells(obj: Object) -> list[Any]:
    spec, status, template = _counts(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age_of(obj),
        *container_cells(template),
        selector_text(spec.get("selector")),
    ]


def _replica_set_cells(obj: Object) -> list[Any]:
    spec, status, template = _counts(obj)
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj),
        *container_cells(template),
        label_selector_text(spec.get("selector")),
    ]


def _stateful_set_cells(obj: Object) -> list[Any]:
    spec, status, template = _counts(obj)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name_of(obj), ready, age_of(obj), *container_cells(template)]


def _daemon_set_cells(obj: Object) -> list[Any]:
    spec, status, template = _counts(obj)
    return [
        name_of(obj),
        status.get("desiredNumberScheduled") or 0,
        status.get("currentNumberScheduled") or 0,
        status.get("numberReady") or 0,
        status.get("updatedNumberScheduled") or 0,
        status.get("numberAvailable") or 0,
        labels_text((template.get("spec") or {}).get("nodeSelector")),
        age_of(obj),
        *container_cells(template),
        label_selector_text(spec.get("selector")),
    ]


def _revision_cells(obj: Object) -> list[Any]:
    owner = next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = (owner.get("apiVersion") or "").rpartition("/")[0]
        kind = (owner.get("kind") or "").lower()
        controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [name_of(obj), controller, obj.get("revision") or 0, age_of(obj)]


_SELECTOR = column("Selector", "Label selector of the pods.", wide=True)

KINDS = {
    "deployments": Kind(
        strategy=DeploymentStrategy(),
        columns=(
            NAME,
            column("Ready", "Number of the pod with ready state"),
            column("Up-to-date", "How many pods have the current template."),
            column("Available", "How many pods are available."),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        ),
        cells=_deployment_cells,
        subresources={"status": STATUS, "scale": scale_subresource()},
    ),
    "replicasets": Kind(
        strategy=ReplicaSetStrategy(),
        columns=(
            NAME,
            column("Desired", "How many pods are wanted.", type="integer"),
            column("Current", "How many pods there are.", type="integer"),
            column("Ready", "How many pods are ready.", type="integer"),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        ),
        cells=_replica_set_cells,
        subresources={"status": STATUS, "scale": scale_subresource()},
    ),
    "statefulsets": Kind(
        strategy=StatefulSetStrategy(),
        columns=(NAME, column("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES),
        cells=_stateful_set_cells,
        subresources={"status": STATUS, "scale": scale_subresource()},
    ),
    "daemonsets": Kind(
        strategy=DaemonSetStrategy(),
        columns=(
            NAME,
            column("Desired", "How many nodes should run the pod.", type="integer"),
            column("Current", "How many nodes run at least one pod.", type="integer"),
            column("Ready", "How many nodes have a ready pod.", type="integer"),
            column("Up-to-date", "How many nodes run a pod of the current template.", type="integer"),
            column("Available", "How many nodes have an available pod.", type="integer"),
            column("Node Selector", "Labels that nodes must have."),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        ),
        cells=_daemon_set_cells,
        subresources={"status": STATUS},
    ),
    "controllerrevisions": Kind(
        strategy=ControllerRevisionStrategy(),
        columns=(
            NAME,
            column("Controller", "Controller of the object"),
            column("Revision", "The number of the revision."),
            AGE,
        ),
        cells=_revision_cells,
    ),
}
