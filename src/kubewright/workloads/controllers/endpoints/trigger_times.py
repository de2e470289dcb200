"""Time of the change that caused an update of endpoints: `endpoints.kubernetes.io/last-change-trigger-time`.

A change is the creation of a service, or a transition of the readiness of one of its pods. Of several changes
since the last update the earliest counts, because the annotation is used to measure programming latency.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Pod, Service
from kubewright.api.meta import ObjectMeta
from kubewright.api.values.times import format_time
from kubewright.controller import Request

LAST_CHANGE = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """The last known transitions of the pods of each service."""

    def __init__(self) -> None:
        self._seen: dict[Request, tuple[str | None, dict[str, datetime]]] = {}

    def forget(self, service: Request) -> None:
        """Drop the state of a deleted service."""
        self._seen.pop(service, None)

    def observe(self, service: Service, pods: Iterable[Pod]) -> datetime | None:
        """Return the earliest change since the last call for this service; `None` if nothing changed."""
        key = Request.of(service)
        uid, before = self._seen.get(key, (None, {}))
        if uid != service.metadata.uid:
            before = {}
        times: dict[str, datetime] = {}
        changes: list[datetime] = []
        for pod in pods:
            ready = get_condition(pod.status, "Ready")
            moment = ready.last_transition_time if ready is not None else None
            if moment is None:
                continue
            times[pod.name] = moment
            known = before.get(pod.name)
            if known is None or moment > known:
                changes.append(moment)
        created = service.metadata.creation_timestamp
        if uid != service.metadata.uid and created is not None:
            changes.append(created)
        self._seen[key] = (service.metadata.uid, times)
        return min(changes, default=None)


def set_trigger_time(metadata: ObjectMeta, moment: datetime | None) -> None:
    """Set the annotation, or remove it if there is no time."""
    annotations = dict(metadata.annotations or {})
    annotations.pop(LAST_CHANGE, None)
    if moment is not None:
        annotations[LAST_CHANGE] = format_time(moment)
    metadata.annotations = annotations or None
