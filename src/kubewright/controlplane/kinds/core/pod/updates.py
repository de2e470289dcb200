"""Validation of updates of pods.

An update can replace images, shorten the deadline, add tolerations and remove scheduling gates. The
subresources `ephemeralcontainers`, `resize` and `status` each change their own part of a pod.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.go_format import format_invalid_value
from kubewright.api.values.times import format_time, now
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.controlplane.kinds.core.podspec.annotations import (
    MIRROR,
    annotation_change_errors,
    annotation_errors,
)
from kubewright.controlplane.kinds.core.podspec.clearable_lists import restore_absent
from kubewright.controlplane.kinds.core.podspec.resources import qos_class
from kubewright.controlplane.kinds.core.podspec.scheduling import toleration_errors
from kubewright.controlplane.kinds.core.podspec.validation import pod_errors
from kubewright.controlplane.kinds.validation import Errors
from kubewright.controlplane.kinds.validation.addresses import legacy_ip_errors
from kubewright.controlplane.kinds.validation.formats import (
    MAX_INT32,
    dns_subdomain,
    immutable,
    in_range,
    parse_ip,
    qualified_name,
)
from kubewright.schema import field_errors as fe

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_KEPT_METADATA = (
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def pod_update_errors(new: Object, old: Object) -> Errors:
    """Check an update of a pod."""
    annotations = [pod["metadata"].get("annotations") or {} for pod in (new, old)]
    errors = pod_errors(new) + annotation_change_errors(
        annotations[0], annotations[1], "metadata.annotations"
    )
    after, before = new["spec"], old["spec"]
    for kind in ("containers", "initContainers"):
        if len(after.get(kind) or ()) != len(before.get(kind) or ()):
            text = "pod updates may not add or remove containers"
            return [*errors, fe.forbidden(f"spec.{kind}", text)]
        for position, container in enumerate(after.get(kind) or ()):
            if not container.get("image"):
                errors.append(fe.required(f"spec.{kind}[{position}].image", ""))
    deadline, earlier = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is not None:
        wrong = in_range(deadline, 0, MAX_INT32, "spec.activeDeadlineSeconds")
        if not wrong and earlier is not None and earlier < deadline:
            text = "must be less than or equal to previous value"
            wrong = [fe.invalid("spec.activeDeadlineSeconds", deadline, text)]
        if wrong:
            return errors + wrong
    elif earlier is not None:
        text = "must not update from a positive integer to nil value"
        errors.append(fe.invalid("spec.activeDeadlineSeconds", None, text))
    errors += _toleration_change(after.get("tolerations") or [], before.get("tolerations") or [])
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for position, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.append(fe.forbidden(f"spec.schedulingGates[{position}].name", text))
    if after == before:
        return errors
    rest = deep_copy(after)
    for kind in ("containers", "initContainers"):
        for container, previous in zip(rest.get(kind) or (), before.get(kind) or (), strict=True):
            container["image"] = previous.get("image")
    gated = bool(before.get("schedulingGates"))
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _restore(rest, before, field)
    if gated:
        errors += _gated_errors(rest, before)
        _restore(rest, before, "nodeSelector")
        _restore(rest, before, "affinity")
    if rest != before:
        difference = describe_difference(before, rest)
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{difference}"
        errors.append(fe.forbidden("spec", text))
    return errors


def _restore(rest: Object, before: Object, field: str) -> None:
    if field in before:
        rest[field] = before[field]
    else:
        rest.pop(field, None)


def _gated_errors(after: Object, before: Object) -> Errors:
    errors: Errors = []
    labels = after.get("nodeSelector") or {}
    for key, value in (before.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(fe.invalid("spec.nodeSelector", after.get("nodeSelector"), text))
            break
    others = [
        {kind: (spec.get("affinity") or {}).get(kind) for kind in ("podAffinity", "podAntiAffinity")}
        for spec in (after, before)
    ]
    if others[0] != others[1]:
        text = f"pod updates may not change fields other than {_UPDATABLE}"
        errors.append(fe.forbidden("spec", text))
    return errors


def describe_difference(before: Any, after: Any, path: str = "") -> str:
    """Return the fields in which two specs differ, one per line: `-` before, `+` after."""
    lines: list[str] = []
    _differences(before, after, path, lines)
    return "\n".join(lines)


def _differences(before: Any, after: Any, path: str, lines: list[str]) -> None:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key, lines)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (one, other) in enumerate(zip(before, after, strict=True)):
            _differences(one, other, f"{path}[{position}]", lines)
    else:
        lines.append(f"- {path}: {format_invalid_value(before)}")
        lines.append(f"+ {path}: {format_invalid_value(after)}")


def _toleration_change(after: list[Object], before: list[Object]) -> Errors:
    def identity(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [identity(one) for one in after]
    if any(identity(one) not in kept for one in before):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [fe.forbidden("spec.tolerations", text)]
    return toleration_errors(after, "spec.tolerations") if after != before else []


def restore_all_but_ephemeral(new: Object, old: Object) -> None:
    """Restore everything except the ephemeral containers from the old pod."""
    ephemeral = (new.get("spec") or {}).get("ephemeralContainers")
    new["spec"] = deep_copy(old["spec"])
    if ephemeral:
        new["spec"]["ephemeralContainers"] = ephemeral
    else:
        new["spec"].pop("ephemeralContainers", None)
    _restore_rest(new, old)


def _restore_rest(new: Object, old: Object) -> None:
    new["status"] = old.get("status") or {}
    for field in _KEPT_METADATA:
        _restore(new["metadata"], old["metadata"], field)


def ephemeral_errors(new: Object, old: Object) -> Errors:
    """Check that ephemeral containers are only added."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [fe.forbidden("", "static pods do not support ephemeral containers")]
    errors = pod_errors(new)
    path = "spec.ephemeralContainers"
    present = {one.get("name"): one for one in new["spec"].get("ephemeralContainers") or ()}
    for one in old["spec"].get("ephemeralContainers") or ():
        name = one.get("name")
        if name not in present:
            errors.append(fe.forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif present[name] != one:
            difference = describe_difference(one, present[name])
            text = f'existing ephemeral containers "{name}" may not be changed\n{difference}'
            errors.append(fe.forbidden(path, text))
    return errors


def restore_all_but_resources(new: Object, old: Object) -> None:
    """Restore everything except requests and limits from the old pod."""
    kinds = ("containers", "initContainers")
    if any(len(new["spec"].get(kind) or ()) != len(old["spec"].get(kind) or ()) for kind in kinds):
        return
    spec = deep_copy(old["spec"])
    for kind in kinds:
        wanted = new["spec"].get(kind) or []
        for container, one in zip(spec.get(kind) or (), wanted, strict=True):
            if container.get("name") != one.get("name"):
                spec[kind] = wanted
                break
            for field in ("resources", "resizePolicy"):
                _restore(container, one, field)
    _restore(spec, new["spec"], "resources")
    new["spec"] = spec
    _restore_rest(new, old)


def resize_errors(new: Object, old: Object) -> Errors:
    """Check that only requests and limits of CPU and memory change, and the QoS class does not."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [fe.forbidden("", "static pods cannot be resized")]
    if (old["spec"].get("os") or {}).get("name") == "windows":
        return [fe.forbidden("", "windows pods cannot be resized")]
    errors = pod_errors(new)
    if qos_class(old["spec"]) != qos_class(new["spec"]):
        current = (new.get("status") or {}).get("qosClass") or ""
        text = "Pod QOS Class may not change as a result of resizing"
        errors.append(fe.invalid("spec", current, text))
    errors += _resize_whole(new["spec"].get("resources"), old["spec"].get("resources"))
    moved = _reordered(new["spec"], old["spec"])
    if moved:
        return errors + moved
    for kind in ("initContainers", "containers"):
        after, before = new["spec"].get(kind) or [], old["spec"].get(kind) or []
        for position, (one, previous) in enumerate(zip(after, before, strict=True)):
            path = f"spec.{kind}[{position}].resources"
            errors += _removed(one.get("resources"), previous.get("resources"), path, "resource")
    for kind in ("containers", "initContainers"):
        after, before = new["spec"].get(kind) or [], old["spec"].get(kind) or []
        for position, (one, previous) in enumerate(zip(after, before, strict=True)):
            if _beyond_resize(one) != _beyond_resize(previous):
                errors.append(
                    fe.forbidden("spec", "only cpu and memory resources are mutable")
                    if kind == "containers"
                    else fe.forbidden(
                        f"spec.initContainers[{position}]",
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    )
                )
    return errors


def _resize_whole(new: Object | None, old: Object | None) -> Errors:
    """Check the requests and limits at pod level."""
    if old is not None and new is None:
        return [fe.forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors = _removed(new, old, "spec.resources", "pod-level resource")
    if _beyond_resize({"resources": new}) != _beyond_resize({"resources": old}):
        errors.append(fe.forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return errors


def _removed(new: Object | None, old: Object | None, path: str, what: str) -> Errors:
    return [
        fe.forbidden(f"{path}.{part}", f"{what} {part} cannot be removed")
        for part in ("requests", "limits")
        if ((old or {}).get(part) or {}).keys() - ((new or {}).get(part) or {}).keys()
    ]


def _reordered(new: Object, old: Object) -> Errors:
    errors: Errors = []
    for kind in ("containers", "initContainers"):
        after, before = new.get(kind) or [], old.get(kind) or []
        if len(after) != len(before):
            errors.append(fe.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize"))
            continue
        for position, (one, previous) in enumerate(zip(after, before, strict=True)):
            if one.get("name") != previous.get("name"):
                text = f"{kind} may not be renamed or reordered on resize"
                errors.append(fe.forbidden(f"spec.{kind}[{position}].name", text))
    return errors


def _beyond_resize(container: Object) -> Object:
    """Return a container without the fields that a resize can change."""
    resources = container.get("resources") or {}
    rest = {key: value for key, value in container.items() if key != "resources"}
    for part in ("requests", "limits"):
        amounts: Object = resources.get(part) or {}
        if fixed := {name: text for name, text in amounts.items() if name not in ("cpu", "memory")}:
            rest[f"resources.{part}"] = fixed
    return rest


def restore_all_but_status(new: Object, old: Object) -> None:
    """Restore what an update of the status must not change; labels and annotations may change."""
    for field in ("ownerReferences", "deletionTimestamp"):
        _restore(new["metadata"], old["metadata"], field)
    status, before = new.setdefault("status", {}), old.get("status") or {}
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field) and before.get(field):
            status[field] = before[field]
    restore_absent(status, before if serving_version().includes("1.37-") else {})
    generations: dict[str, list[int]] = {}
    for condition in before.get("conditions") or ():
        generation = condition.get("observedGeneration") or 0
        generations.setdefault(condition.get("type") or "", []).append(generation)
    for condition in status.get("conditions") or ():
        known = generations.get(condition.get("type") or "")
        generation = known.pop(0) if known else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def pod_status_errors(new: Object, old: Object) -> Errors:
    """Check an update of the status of a pod."""
    after, before = new.get("status") or {}, old.get("status") or {}
    annotations = [pod["metadata"].get("annotations") or {} for pod in (new, old)]
    errors = annotation_change_errors(annotations[0], annotations[1], "metadata.annotations")
    errors += annotation_errors(annotations[0], new["spec"], "metadata.annotations")
    for position, condition in enumerate(after.get("conditions") or ()):
        path, kind = f"status.conditions[{position}]", condition.get("type") or ""
        errors += _counter_errors(condition.get("observedGeneration"), f"{path}.observedGeneration")
        if kind not in ("PodScheduled", "Ready", "Initialized"):
            errors += qualified_name(kind, f"{path}.Type")
    nominated = after.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += dns_subdomain(nominated, "status.nominatedNodeName")
        if old["spec"].get("nodeName"):
            text = "may not be set on pods that are already bound to a node"
            errors.append(fe.forbidden("status.nominatedNodeName", text))
    errors += _counter_errors(after.get("observedGeneration"), "status.observedGeneration")
    errors += immutable(after.get("qosClass"), before.get("qosClass"), "status.qosClass")
    if old["spec"].get("restartPolicy") != "Always":
        ended = {
            one.get("name"): one
            for one in before.get("containerStatuses") or ()
            if (one.get("state") or {}).get("terminated")
        }
        for position, one in enumerate(after.get("containerStatuses") or ()):
            previous = ended.get(one.get("name"))
            if previous is None or (one.get("state") or {}).get("terminated"):
                continue
            failed = (previous["state"]["terminated"].get("exitCode") or 0) != 0
            if not failed or old["spec"].get("restartPolicy") == "Never":
                path = f"status.containerStatuses[{position}].state"
                errors.append(fe.forbidden(path, "may not be transitioned to non-terminated state"))
    errors += _claim_status_errors(after.get("resourceClaimStatuses") or [], new["spec"])
    for kind in ("podIP", "hostIP"):
        errors += _address_errors(kind, after, before)
    return errors


def _counter_errors(value: int | None, path: str) -> Errors:
    return [fe.invalid(path, value, "must be a non-negative integer")] if (value or 0) < 0 else []


def _claim_status_errors(statuses: list[Object], spec: Object) -> Errors:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    errors: Errors = []
    seen: set[str] = set()
    for position, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{position}]", status.get("name") or ""
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(fe.invalid(f"{path}.name", name, text))
        if name in seen:
            errors.append(fe.duplicate(f"{path}.name", name))
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            errors += dns_subdomain(status["resourceClaimName"], f"{path}.resourceClaimName")
    return errors


def _address_errors(kind: str, after: Object, before: Object) -> Errors:
    """Check the addresses of a pod or of its host: at most one per family."""
    path, listed = f"status.{kind}s", after.get(f"{kind}s") or []
    first = fe.invalid(f"{path}[0].ip", listed[0].get("ip"), f"must be equal to `{kind}`") if listed else None
    differs = bool(listed) and listed[0].get("ip") != after.get(kind)
    errors: Errors = [first] if first is not None and differs and kind == "hostIP" else []
    known = [one.get("ip") for one in before.get(f"{kind}s") or ()]
    for position, one in enumerate(listed):
        errors += legacy_ip_errors(one.get("ip") or "", f"{path}[{position}]", known)
    families = [getattr(parse_ip(one.get("ip") or ""), "version", 0) for one in listed]
    shown = [fe.GoStruct({"IP": one.get("ip") or ""}) for one in listed]
    if len(listed) > 1 and sorted(families) != [4, 6]:
        text = "may specify no more than one IP for each IP family"
        errors.append(fe.invalid(path, shown, text))
    if first is not None and differs and kind == "podIP":
        errors.append(first)
    return errors


def set_pod_condition(pod: Object, type: str, status: str, reason: str = "", message: str = "") -> None:
    """Set a condition of a pod; the transition time changes if the status does."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    condition: Object = {"type": type, "status": status, "lastProbeTime": None}
    condition["lastTransitionTime"] = format_time(now())
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    for position, existing in enumerate(conditions):
        if existing.get("type") == type:
            if existing.get("status") == status and existing.get("lastTransitionTime"):
                condition["lastTransitionTime"] = existing["lastTransitionTime"]
            conditions[position] = condition
            return
    conditions.append(condition)
