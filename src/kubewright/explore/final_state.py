"""Normalised final states, and their differences.

Two runs of the same scenario end with different UIDs, resource versions and times. `normalise` replaces what
may differ, so that the rest can be compared:

- times, PEM blocks and resource versions become placeholders, `managedFields` are left out; so do UUIDs, and
  the UID of an existing object names the object
- names that the server generated become `<generateName>*`, also where other objects refer to them, and
  addresses and ports that it allocated to Services become placeholders
- `generation` is left out, `observedGeneration` becomes `current` or `old`
- the values of Secrets are left out, their keys remain
- UIDs of owners are left out, kind and name remain
- what workload controllers keep of earlier rollouts is left out: ReplicaSets without pods,
  ControllerRevisions, numbers of revisions, and reasons of progress
- so is what nodes and other controllers of the cluster choose: IDs of containers, the nodes of pods unless
  their creator sets them, and annotations with a time, a leader or a node, which only exist after some
  changes
- and a conflict of owners that was resolved, which `ensure` reports as a condition

Conditions are compared by type, their order is not. A *tolerance* names fields that may differ:
`ConfigMap:data.startedAt`, `status.attempts` for every kind, or `Kind` alone for all objects of a kind; `*`
matches any part of a name. It also applies where one state does not have the parent of the field, if the
parent contains nothing else.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from kubewright.api.conditions import FALSE
from kubewright.manager.contexts.context import OWNERSHIP_CONFLICT

from .state import ClusterState, StateObject, is_of_user

NormalisedState = dict[str, list[Any]]
"""Normalised objects by kind, namespace and name; several if names were generated."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
"""Name of the volume with the token of a pod, which the server generates."""
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)
_METADATA: Final = frozenset(
    ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
)
_ALLOCATED: Final = {
    "resourceVersion": "<revision>",
    "nodePort": "<port>",
    "healthCheckNodePort": "<port>",
}
_HISTORY: Final = frozenset(("collisionCount", "currentRevision", "updateRevision"))
"""Fields in the status of workloads that describe what happened before."""
_GENERATED_ANNOTATIONS: Final = (
    "control-plane.alpha.kubernetes.io/leader",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "volume.kubernetes.io/selected-node",
)
"""Prefixes of annotations in which controllers of the cluster record revisions, times, leaders and nodes."""
_PLACEMENT: Final = {
    ("", "Pod"): ("spec", ("nodeName",)),
    ("", "Endpoints"): ("subsets", ("nodeName",)),
    ("discovery.k8s.io", "EndpointSlice"): ("endpoints", ("nodeName", "zone")),
}
"""Where objects have the node that the scheduler has chosen for a pod."""
_NODE_STATUS: Final = frozenset(("hostIP", "hostIPs"))
_RESOLVED: Final = (OWNERSHIP_CONFLICT, FALSE)
"""Type and status of the condition that `ensure` sets after a conflict; without one, it is missing."""
_WORKLOAD_GROUPS: Final = ("apps", "batch")
_MISSING: Final = "<missing>"
MAX_VALUE = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs from the reference run; `path` is empty for a whole object."""

    object: str
    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        if not self.path:
            if self.actual == _MISSING:
                return f"{self.object} does not exist"
            if self.expected == _MISSING:
                return f"{self.object} exists, and not in the reference run"
            return f"{self.object}: {self.actual} objects instead of {self.expected}"
        return f"{self.object}: {self.path} is {_shown(self.actual)} instead of {_shown(self.expected)}"


def normalise(
    state: ClusterState,
    external: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    compare_secrets: bool = False,
) -> NormalisedState:
    """Return the comparable form of a state and of the data of external systems.

    With `compare_secrets`, values of Secrets are replaced by checksums: for two states of one run.
    """
    generated = _generated_values(state)
    pattern = None
    if generated:
        names = sorted(generated, key=len, reverse=True)
        pattern = re.compile(rf"(?<![\d.])(?:{'|'.join(map(re.escape, names))})(?!\d|\.\d)")
    for existing in (state.baseline, state.objects):
        for obj in existing.values():
            name = generated.get(obj.name, obj.name)
            generated[obj.uid] = f"<uid of {obj.key.kind} {obj.namespace}/{name}>"
    result: NormalisedState = {}
    # Objects of the setup are part of it: the operator may change them.
    for obj in (*filter(is_of_user, state.baseline.values()), *state):
        key = obj.key
        if (key.kind == "ConfigMap" and key.name == "kube-root-ca.crt") or _is_history(obj):
            continue
        data = _object(obj, generated, pattern, compare_secrets)
        name = generated.get(obj.name) or _UUID.sub("<uid>", obj.name)
        kind = f"{key.kind}.{key.group}" if key.group else key.kind
        where = f"{kind} {key.namespace}/{name}" if key.namespace else f"{kind} {name}"
        result.setdefault(where, []).append(data)
    for system, values in (external or {}).items():
        for entry, value in values.items():
            result[f"external {system} {_text(entry, generated, pattern)}"] = [
                _value(value, generated, pattern)
            ]
    for objects in result.values():
        if len(objects) > 1:
            objects.sort(key=repr)
    return result


def _generated_values(state: ClusterState) -> dict[str, str]:
    """Return what the server has chosen: generated names and addresses of Services, with placeholders."""
    values: dict[str, str] = {}
    for each in state:
        prefix = each.metadata.get("generateName")
        if prefix:
            values[each.name] = f"{prefix}*"
        elif each.key.kind == "Service" and not each.key.group:
            for number, address in enumerate(each.get("spec", "clusterIPs") or ()):
                if address != "None":
                    values[address] = f"<address {number} of {each.namespace}/{each.name}>"
        if each.key.kind == "Pod" and not each.key.group:
            for address in each.get("status", "podIPs") or ():
                values[str(address.get("ip"))] = "<address of a pod>"
    return values


def differences(
    expected: NormalisedState, actual: NormalisedState, tolerances: Sequence[str] = ()
) -> list[Difference]:
    """Return what differs, without what is tolerated."""
    found: list[Difference] = []
    for key in sorted({*expected, *actual}):
        left, right = expected.get(key, []), actual.get(key, [])
        if left == right:
            continue
        if len(left) != len(right):
            counts = (len(left) or _MISSING, len(right) or _MISSING)
            found.append(Difference(key, "", *counts))
            continue
        for one, other in zip(left, right, strict=True):
            found.extend(_compare(key, "", one, other))
    return [each for each in found if not _is_tolerated(each, tolerances)]


def _is_tolerated(difference: Difference, tolerances: Sequence[str]) -> bool:
    """Whether rules tolerate a difference, or everything below a field that only one state has."""
    if any(_tolerates(difference, rule) for rule in tolerances):
        return True
    sides = (difference.expected, difference.actual)
    below = next((each for each in sides if isinstance(each, dict)), None)
    if not tolerances or not below or _MISSING not in sides or not difference.path:
        return False
    return all(
        _is_tolerated(Difference(difference.object, f"{difference.path}.{name}", value, _MISSING), tolerances)
        for name, value in below.items()
    )


def _compare(key: str, path: str, one: Any, other: Any) -> Iterable[Difference]:
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            below = f"{path}.{name}" if path else str(name)
            yield from _compare(key, below, one.get(name, _MISSING), other.get(name, _MISSING))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _compare(key, f"{path}[{index}]", left, right)
    else:
        yield Difference(key, path or "value", one, other)


def _tolerates(difference: Difference, rule: str) -> bool:
    kind, colon, path = rule.partition(":")
    full = difference.object.partition(" ")[0]
    kinds = (full, full.partition(".")[0])
    if not colon:
        if any(fnmatchcase(each, rule) for each in kinds):
            return True
        kind, path = "*", rule
    if not any(fnmatchcase(each, kind) for each in kinds):
        return False
    actual = re.sub(r"\[\d+\]", "", difference.path)
    return fnmatchcase(actual, path) or actual.startswith(f"{path}.")


def _object(
    obj: StateObject, names: Mapping[str, str], pattern: re.Pattern[str] | None, compare_secrets: bool
) -> dict[str, Any]:
    data = dict(obj.data)
    if obj.key.kind == "Secret" and not obj.key.group:
        values = data.get("data") or {}
        data["data"] = {
            name: f"<secret {zlib.crc32(value.encode()):08x}>" if compare_secrets else "<secret>"
            for name, value in values.items()
        }
    metadata = {name: value for name, value in obj.metadata.items() if name not in _METADATA}
    if "ownerReferences" in metadata:
        metadata["ownerReferences"] = [
            {name: value for name, value in each.items() if name != "uid"}
            for each in metadata["ownerReferences"]
        ]
    _remove_generated_annotations(metadata)
    data["metadata"] = metadata
    status = data.get("status")
    if isinstance(status, dict):
        data["status"] = _status(obj, status)
    if b'"f:imagePullPolicy"' not in obj.raw and b'"imagePullPolicy"' in obj.raw:
        data = _without(data, "imagePullPolicy")  # the server sets it once, from the tag of the first image
    field, names_of_nodes = _PLACEMENT.get(obj.key[:2], ("", ()))
    if field in data and b'"f:nodeName"' not in obj.raw:
        for name in names_of_nodes:
            data[field] = _without(data[field], name)
    generation = obj.metadata.get("generation")
    result: dict[str, Any] = _value(data, names, pattern)
    if generation is not None:
        _replace_generations(result, generation)
    return result


def _is_history(obj: StateObject) -> bool:
    """Whether an object only exists for a rollback: an old ReplicaSet, or a ControllerRevision."""
    if obj.key[:2] == ("apps", "ReplicaSet"):
        has_pods = obj.get("spec", "replicas") or obj.get("status", "replicas")
        return bool(obj.controller_uid) and not has_pods
    return obj.key[:2] == ("apps", "ControllerRevision")


def _remove_generated_annotations(metadata: dict[str, Any]) -> None:
    annotations = metadata.get("annotations")
    if not annotations or not any(name.startswith(_GENERATED_ANNOTATIONS) for name in annotations):
        return
    kept = {name: value for name, value in annotations.items() if not name.startswith(_GENERATED_ANNOTATIONS)}
    if kept:
        metadata["annotations"] = kept
    else:
        del metadata["annotations"]


def _status(obj: StateObject, status: dict[str, Any]) -> dict[str, Any]:
    """Return a status without what depends on earlier rollouts, containers and conflicts."""
    is_workload = obj.key.group in _WORKLOAD_GROUPS
    if is_workload:
        status = {name: value for name, value in status.items() if name not in _HISTORY}
    elif obj.key.kind == "Pod" and not obj.key.group:
        status = {
            name: _without(value, "containerID") for name, value in status.items() if name not in _NODE_STATUS
        }
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not all(isinstance(each, dict) for each in conditions):
        return status
    kept = [each for each in conditions if (each.get("type"), each.get("status")) != _RESOLVED]
    if is_workload:
        kept = [
            {name: value for name, value in each.items() if name not in ("reason", "message")}
            if each.get("type") == "Progressing"
            else each
            for each in kept
        ]
    status = {**status, "conditions": kept}
    if conditions and not kept:
        del status["conditions"]
    return status


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, name) for key, item in value.items() if key != name}
    return [_without(item, name) for item in value] if isinstance(value, list) else value


def _replace_generations(value: Any, generation: int) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "observedGeneration" and isinstance(item, int):
                value[name] = "current" if item == generation else "old"
            else:
                _replace_generations(item, generation)
    elif isinstance(value, list):
        for item in value:
            _replace_generations(item, generation)


def _value(value: Any, names: Mapping[str, str], pattern: re.Pattern[str] | None) -> Any:
    if isinstance(value, str):
        return _text(value, names, pattern)
    if isinstance(value, dict):
        return {
            _text(str(name), names, pattern): _ALLOCATED.get(name) or _value(item, names, pattern)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        items = [_value(item, names, pattern) for item in value]
        if items and all(isinstance(item, dict) and "type" in item and "status" in item for item in items):
            items.sort(key=lambda item: str(item["type"]))
        return items
    return value


def _text(text: str, names: Mapping[str, str], pattern: re.Pattern[str] | None) -> str:
    if pattern is not None:
        text = pattern.sub(lambda match: names[match[0]], text)
    if len(text) >= 20:
        text = _UUID.sub(lambda match: names.get(match[0], "<uid>"), _TIME.sub("<time>", text))
        if text.startswith("kube-api-access-"):
            text = _TOKEN_VOLUME.sub("kube-api-access-*", text)
        if "-----BEGIN" in text:
            text = _PEM.sub("<pem>", text)
    return text


def _shown(value: Any) -> str:
    text = value if value == _MISSING else repr(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."
