"""What happened to the objects of a namespace, in a form that two runs can be compared in.

A `HistoryRecorder` watches the namespace. Its result has no times, and no names of nodes and generated names
of pods:

- `conditions`: for each object and condition type, the values `status reason` in their order
- `sizes`: the values of `spec.replicas` of all ReplicaSets, in the order of the writes
- `pods`: how many pods had which sequence of phases; for StatefulSets, by the name of the pod
- `order`: for StatefulSets, the order in which pods were created, ready and deleted
- `final`: the status of each object at the end
- `events`: reporter, object, reason and message, with the number of occurrences
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from types import TracebackType
from typing import Any, Self

from kubewright.api.gvk import GroupVersionKind
from kubewright.client import Client

KINDS = tuple(
    GroupVersionKind(*each)
    for each in (
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "ReplicaSet"),
        ("apps", "v1", "StatefulSet"),
        ("batch", "v1", "Job"),
        ("policy", "v1", "PodDisruptionBudget"),
        ("", "v1", "Pod"),
    )
)
OMITTED = frozenset(
    (
        "completionTime",
        "disruptedPods",
        "lastProbeTime",
        "lastTransitionTime",
        "lastUpdateTime",
        "startTime",
    )
)
NODE_NAME = re.compile(r"\bnode-\d+\b")
Object = dict[str, Any]


class HistoryRecorder:
    """Records the history of the objects of a namespace while it is entered."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._states: dict[str, dict[str, list[tuple[int, Object | None]]]] = {}
        """Versions by kind and name, with their resource version; `None` after the deletion."""
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._watches = [asyncio.create_task(self._watch(kind)) for kind in KINDS]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _watch(self, kind: GroupVersionKind) -> None:
        states = self._states.setdefault(kind.kind, {})
        async for event in self.client.watch(kind, namespace=self.namespace):
            obj: Object = event.object.raw
            version = int(obj["metadata"]["resourceVersion"])
            versions = states.setdefault(obj["metadata"]["name"], [])
            versions.append((version, None if event.type == "DELETED" else obj))

    async def result(self) -> dict[str, Any]:
        """Return the history so far."""
        return {
            "conditions": self._conditions(),
            "sizes": self._sizes(),
            "pods": self._pods(),
            "order": self._order(),
            "final": self._final(),
            "events": await self._events(),
        }

    def _label(self, kind: str, name: str) -> str:
        return f"{kind}/{self._stable_name(name) if kind == 'Pod' else name}"

    def _stable_name(self, pod: str) -> str:
        """Return the name of a pod, with `*` for its generated part."""
        versions = self._states.get("Pod", {}).get(pod, ())
        prefix = next((obj["metadata"].get("generateName", "") for _, obj in versions if obj), "")
        owners = next((obj["metadata"].get("ownerReferences") or [] for _, obj in versions if obj), [])
        return f"{prefix}*" if prefix and owners and owners[0]["kind"] != "StatefulSet" else pod

    def _conditions(self) -> dict[str, dict[str, list[str]]]:
        found: dict[str, dict[str, list[str]]] = {}
        for kind in ("Deployment", "Job", "PodDisruptionBudget"):
            for name, versions in self._states.get(kind, {}).items():
                history = found.setdefault(f"{kind}/{name}", {})
                for _, obj in versions:
                    for condition in ((obj or {}).get("status") or {}).get("conditions") or ():
                        values = history.setdefault(condition["type"], [])
                        value = f"{condition['status']} {condition.get('reason', '')}".strip()
                        if values[-1:] != [value]:
                            values.append(value)
        return found

    def _sizes(self) -> list[str]:
        changes: list[tuple[int, str]] = []
        for name, versions in self._states.get("ReplicaSet", {}).items():
            before = None
            for version, obj in versions:
                size = obj["spec"].get("replicas") if obj is not None else None
                if size != before:
                    changes.append((version, f"{name} {size}"))
                before = size
        return [text for _, text in sorted(changes)]

    def _pods(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for name, versions in self._states.get("Pod", {}).items():
            phases: list[str] = []
            for _, obj in versions:
                phase = describe_pod(obj)
                if phases[-1:] != [phase]:
                    phases.append(phase)
            counts[f"{self._stable_name(name)}: {' > '.join(phases)}"] += 1
        return dict(sorted(counts.items()))

    def _order(self) -> list[str]:
        """Return the order of the steps of pods that are not generated names."""
        steps: list[tuple[int, str]] = []
        for name, versions in self._states.get("Pod", {}).items():
            if self._stable_name(name) != name or "ownerReferences" not in (versions[0][1] or {})["metadata"]:
                continue
            ready, exists = False, False
            for version, obj in versions:
                if obj is None:
                    steps.append((version, f"{name} deleted"))
                    ready = exists = False
                    continue
                if not exists:
                    steps.append((version, f"{name} created"))
                exists = True
                if is_ready(obj) and not ready:
                    steps.append((version, f"{name} ready"))
                    ready = True
        return [text for _, text in sorted(steps)]

    def _final(self) -> dict[str, Any]:
        return {
            f"{kind}/{name}": _without_times(versions[-1][1].get("status") or {})
            for kind, objects in self._states.items()
            if kind != "Pod"
            for name, versions in sorted(objects.items())
            if versions[-1][1] is not None
        }

    async def _events(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for event in await self.client.list("events", namespace=self.namespace):
            raw = event.raw
            reporter = raw.get("reportingComponent") or (raw.get("source") or {}).get("component") or ""
            if reporter == "kubelet":
                continue
            about = raw["involvedObject"]
            message = self._stable_text(raw.get("message") or "")
            label = self._label(about["kind"], about["name"])
            series = (raw.get("series") or {}).get("count")
            counts[f"{reporter} {label} {raw['type']} {raw['reason']}: {message}"] += (
                series or raw.get("count") or 1
            )
        return dict(sorted(counts.items()))

    def _stable_text(self, text: str) -> str:
        for pod, versions in self._states.get("Pod", {}).items():
            text = text.replace(pod, self._stable_name(pod))
            for _, obj in versions:
                if obj is not None:
                    text = text.replace(obj["metadata"]["uid"], "<uid>")
        return NODE_NAME.sub("<node>", text)


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready of a pod is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def describe_pod(pod: Object | None) -> str:
    """Return the phase of a pod with what else controllers decide on it."""
    if pod is None:
        return "deleted"
    status = pod.get("status") or {}
    parts = [status.get("phase") or "none"]
    if pod["spec"].get("nodeName"):
        parts.append("bound")
    if is_ready(pod):
        parts.append("ready")
    if pod["metadata"].get("deletionTimestamp"):
        parts.append("terminating")
    if status.get("nominatedNodeName"):
        parts.append("nominated")
    for condition in status.get("conditions") or ():
        if condition["type"] == "DisruptionTarget" or (
            condition["type"] == "PodScheduled" and condition["status"] == "False"
        ):
            parts.append(condition["reason"])
    return "+".join(parts)


def _without_times(status: Any) -> Any:
    if isinstance(status, dict):
        return {key: _without_times(status[key]) for key in sorted(status) if key not in OMITTED}
    if isinstance(status, list):
        items = [_without_times(item) for item in status]
        return sorted(items, key=json.dumps) if items and isinstance(items[0], dict) else items
    return status
