"""What the dashboard stores of an object: identity, owners, health and troubles.

Health follows the rules of kstatus (`kubewright.client.readiness`). A pod whose containers are restarted
again and again is `Failed`, as in kstatus; so is an object whose operator raises an exception every time,
which its status may not show. Objects whose status cannot be evaluated are `Unknown`.
"""

from __future__ import annotations

import statistics
from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, loads
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.readiness import readiness_of

from .troubles import CERTIFICATE_KINDS, Trouble, milliseconds_of, troubles_of

if TYPE_CHECKING:
    from kubewright.cache.reflectors.reflector import Reflector

Health = Literal["Current", "InProgress", "Failed", "Terminating", "Unknown"]
HEALTHS: Final[tuple[Health, ...]] = ("Current", "InProgress", "Failed", "Terminating", "Unknown")
MESSAGE_LENGTH: Final = 300
MIN_SAMPLES: Final = 3
"""Objects that must have become ready before the usual time of a kind is known."""
_POD: Final = GroupKind("", "Pod")
_FAILED_WAITING: Final = ("CrashLoopBackOff",)
_READY_TYPES: Final = ("Ready", "Available", "Complete", "Established")
_REVISION: Final = "deployment.kubernetes.io/revision"


class Owner(NamedTuple):
    """An owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    controller: bool


class KindState:
    """One kind of the cluster with the number of its objects by namespace and health."""

    __slots__ = (
        "counts",
        "custom",
        "error",
        "gvk",
        "metadata_only",
        "namespaced",
        "objects",
        "ready_seconds",
        "reflector",
        "resource",
        "scope",
        "synced",
    )

    def __init__(self, resource: APIResource) -> None:
        self.resource = resource
        self.gvk: GroupVersionKind = resource.gvk
        self.namespaced = resource.namespaced
        group = resource.gvr.group
        self.custom = "." in group and not group.endswith(".k8s.io")
        has_status = "status" in resource.subresources or self.gvk.group_kind in CERTIFICATE_KINDS
        self.metadata_only = not self.custom and not has_status
        """Whether its objects have nothing that health depends on; only their metadata is read then."""
        self.counts: dict[str, dict[Health, int]] = {}
        """Numbers of objects by namespace."""
        self.objects: dict[tuple[str, str], ObjectRecord] = {}
        self.error = ""
        """Why its objects cannot be read."""
        self.scope = ""
        """The only namespace whose objects can be read; empty for all namespaces."""
        self.synced = False
        self.reflector: Reflector | None = None
        self.ready_seconds: deque[float] = deque(maxlen=100)
        """How long objects took to become ready."""

    @property
    def stale(self) -> str:
        """Why the objects may have changed since they were received."""
        failure = self.reflector.last_error if self.reflector is not None else None
        return "" if failure is None else str(failure) or type(failure).__name__

    @property
    def usual_seconds(self) -> float | None:
        """How long objects of this kind usually take to become ready; `None` if it is unknown."""
        known = len(self.ready_seconds) >= MIN_SAMPLES
        return statistics.median(self.ready_seconds) if known else None

    def absence(self, namespace: str) -> str:
        """Return what follows from an object not being here: `missing`, `unreadable` or `unknown`."""
        if self.error or (self.scope and namespace != self.scope):
            return "unreadable"
        return "missing" if self.synced and not self.stale else "unknown"

    def count(self, health: Health, change: int, namespace: str) -> None:
        """Change the number of objects of a namespace."""
        counts = self.counts.setdefault(namespace, dict.fromkeys(HEALTHS, 0))
        counts[health] += change

    def identity(self) -> dict[str, Any]:
        """Return the fields that identify the kind in responses."""
        return {
            "group": self.resource.gvr.group,
            "version": self.resource.gvr.version,
            "kind": self.gvk.kind,
            "resource": self.resource.plural,
            "namespaced": self.namespaced,
        }

    def summary(self, namespace: str = "") -> dict[str, Any]:
        """Return the kind for the overview, with the objects of one namespace or all."""
        counts = self.counts.values() if not namespace else [self.counts.get(namespace) or {}]
        health = {each: sum(found.get(each, 0) for found in counts) for each in HEALTHS}
        return {
            **self.identity(),
            "count": sum(health.values()),
            "custom": self.custom,
            "error": self.error,
            "scope": self.scope,
            "stale": self.stale,
            "synced": self.synced,
            "health": health,
        }


class ObjectRecord:
    """One object."""

    __slots__ = (
        "badges",
        "changed",
        "changed_exactly",
        "created",
        "deleting",
        "failure",
        "finalizers",
        "kind",
        "name",
        "namespace",
        "owners",
        "status_health",
        "status_message",
        "troubles",
        "uid",
    )

    def __init__(
        self,
        kind: KindState,
        namespace: str,
        name: str,
        uid: str,
        created: float,
        owners: tuple[Owner, ...],
        health: Health,
        message: str,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.created = created
        self.owners = owners
        self.status_health: Health = health
        """Health according to the status."""
        self.status_message = message
        self.failure = ""
        """The error that the operator of this object raises every time."""
        self.changed = 0.0
        """Since when it has this health, in milliseconds."""
        self.changed_exactly = False
        """Whether `changed` is not only the time at which it was first seen."""
        self.deleting = 0.0
        self.finalizers: tuple[str, ...] = ()
        self.troubles: tuple[Trouble, ...] = ()
        self.badges: tuple[str, ...] = ()
        """Short facts for the tree: ready replicas, revision, restarts."""

    @property
    def health(self) -> Health:
        """Health as it is shown."""
        return "Failed" if self.failure and self.status_health != "Terminating" else self.status_health

    @property
    def message(self) -> str:
        """The reason if it is not current; that of the status, if the status is not current, either."""
        hidden = self.health == "Failed" and self.status_health != "Failed"
        return self.failure if hidden else self.status_message

    def with_failure(self, failure: str) -> ObjectRecord:
        """Return a copy with another error of the operator."""
        copy = ObjectRecord.__new__(ObjectRecord)
        for name in ObjectRecord.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.failure = failure[:MESSAGE_LENGTH]
        return copy

    def reference(self) -> dict[str, Any]:
        """Return the fields that identify the object in responses."""
        return {**self.kind.identity(), "namespace": self.namespace, "name": self.name}

    def node(self) -> dict[str, Any]:
        """Return the object as a node of a tree."""
        return {
            "id": self.uid,
            "apiVersion": str(self.kind.resource.gvr.group_version),
            **self.reference(),
            "health": self.health,
            "message": self.message,
            "created": self.created,
            "since": self.changed or None,
            "state": "exists",
            "badges": self.badges,
            "owners": [{"id": each.uid, "controller": each.controller} for each in self.owners],
        }

    def is_same(self, other: ObjectRecord) -> bool:
        """Whether both versions are shown in the same way."""
        return (
            self.uid == other.uid
            and self.health == other.health
            and self.message == other.message
            and self.owners == other.owners
            and self.troubles == other.troubles
            and self.badges == other.badges
            and self.finalizers == other.finalizers
        )


def read_record(kind: KindState, raw: bytes, header: ObjectHeader) -> ObjectRecord:
    """Return the record of an object."""
    meta = header.metadata
    owners = tuple(
        Owner(each.uid, each.api_version, each.kind, each.name, bool(each.controller))
        for each in meta.owner_references or ()
    )
    record = ObjectRecord(
        kind,
        meta.namespace or "",
        meta.name or "",
        meta.uid or "",
        milliseconds(meta.creation_timestamp),
        owners,
        "Current",
        "",
    )
    if meta.deletion_timestamp is not None:
        record.deleting = milliseconds(meta.deletion_timestamp)
        record.finalizers = tuple(meta.finalizers or ())
    if not kind.metadata_only or meta.deletion_timestamp is not None:
        _read_status(record, raw)
    return record


def _read_status(record: ObjectRecord, raw: bytes) -> None:
    kind = record.kind
    try:
        data: dict[str, Any] = loads(raw)
        data.setdefault("apiVersion", kind.gvk.api_version)
        # PartialObjectMetadata has a kind of its own, and rules depend on that of the object.
        data["kind"] = kind.gvk.kind
        if kind.gvk.group_kind == _POD and (loop := _crash_loop(data)):
            record.status_health, record.status_message = "Failed", loop
        else:
            state = readiness_of(data)
            record.status_health, record.status_message = state.state, state.message[:MESSAGE_LENGTH]
        record.troubles = troubles_of(kind.gvk.group_kind, data)
        record.badges = _badges(data)
        if (changed := _transition(data, ready=record.status_health == "Current")) is not None:
            record.changed, record.changed_exactly = changed, True
    except (DecodeError, msgspec.DecodeError, TypeError, ValueError, AttributeError, KeyError) as error:
        record.status_health = "Unknown"
        record.status_message = f"the status cannot be evaluated: {error}"[:MESSAGE_LENGTH]


def _transition(data: dict[str, Any], *, ready: bool) -> float | None:
    """Return when the condition that says whether an object is ready got its status, if it has one."""
    for condition in (data.get("status") or {}).get("conditions") or ():
        if condition.get("type") in _READY_TYPES and (condition.get("status") == "True") == ready:
            return milliseconds_of(condition.get("lastTransitionTime"))
    return None


def _badges(data: dict[str, Any]) -> tuple[str, ...]:
    spec, status = data.get("spec") or {}, data.get("status") or {}
    found = []
    if isinstance(spec.get("replicas"), int) and isinstance(status, dict):
        found.append(f"{status.get('readyReplicas') or 0}/{spec['replicas']}")
    elif "desiredNumberScheduled" in status:
        found.append(f"{status.get('numberReady') or 0}/{status['desiredNumberScheduled']}")
    revision = ((data.get("metadata") or {}).get("annotations") or {}).get(_REVISION)
    if revision:
        found.append(f"rev {revision}")
    if data["kind"] == "Pod":
        restarts = sum(each.get("restartCount") or 0 for each in status.get("containerStatuses") or ())
        if restarts:
            found.append(f"{restarts} restart{'s' if restarts > 1 else ''}")
    return tuple(found)


def _crash_loop(pod: dict[str, Any]) -> str:
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return ""
    status = pod.get("status") or {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(field) or ():
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _FAILED_WAITING:
                text = f"container {each.get('name')}: {waiting.get('message') or waiting['reason']}"
                return text[:MESSAGE_LENGTH]
    return ""


def milliseconds(time: datetime | None) -> float:
    """Return a time in milliseconds since 1970; 0 if it is unknown."""
    return time.timestamp() * 1000 if time is not None else 0.0
