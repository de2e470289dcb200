"""What the dashboard stores of an object: identity, owners and health.

Health follows the rules of kstatus (`kubewright.client.readiness`). A pod whose containers are restarted
again and again is `Failed`, as in kstatus. Objects whose status cannot be evaluated are `Unknown`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, loads
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.readiness import readiness_of

Health = Literal["Current", "InProgress", "Failed", "Terminating", "Unknown"]
HEALTHS: Final[tuple[Health, ...]] = ("Current", "InProgress", "Failed", "Terminating", "Unknown")
MESSAGE_LENGTH: Final = 300
_POD: Final = GroupKind("", "Pod")
_FAILED_WAITING: Final = ("CrashLoopBackOff",)


class Owner(NamedTuple):
    """An owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    controller: bool


class KindState:
    """One kind of the cluster with the number of its objects by health."""

    __slots__ = (
        "counts",
        "custom",
        "error",
        "gvk",
        "metadata_only",
        "namespaced",
        "objects",
        "resource",
        "synced",
    )

    def __init__(self, resource: APIResource) -> None:
        self.resource = resource
        self.gvk: GroupVersionKind = resource.gvk
        self.namespaced = resource.namespaced
        group = resource.gvr.group
        self.custom = "." in group and not group.endswith(".k8s.io")
        self.metadata_only = not self.custom and "status" not in resource.subresources
        """Whether its objects have no status that health depends on; only their metadata is read then."""
        self.counts: dict[Health, int] = dict.fromkeys(HEALTHS, 0)
        self.objects: dict[tuple[str, str], ObjectRecord] = {}
        self.error = ""
        """Why its objects cannot be read."""
        self.synced = False

    def identity(self) -> dict[str, Any]:
        """Return the fields that identify the kind in responses."""
        return {
            "group": self.resource.gvr.group,
            "version": self.resource.gvr.version,
            "kind": self.gvk.kind,
            "resource": self.resource.plural,
            "namespaced": self.namespaced,
        }

    def summary(self) -> dict[str, Any]:
        """Return the kind for the overview."""
        return {
            **self.identity(),
            "count": len(self.objects),
            "custom": self.custom,
            "error": self.error,
            "health": self.counts,
        }


class ObjectRecord:
    """One object."""

    __slots__ = ("created", "health", "kind", "message", "name", "namespace", "owners", "uid")

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
        self.health = health
        self.message = message

    def node(self) -> dict[str, Any]:
        """Return the object as a node of a tree."""
        return {
            "id": self.uid,
            "apiVersion": str(self.kind.resource.gvr.group_version),
            **self.kind.identity(),
            "namespace": self.namespace,
            "name": self.name,
            "health": self.health,
            "message": self.message,
            "created": self.created,
            "missing": False,
            "owners": [{"id": each.uid, "controller": each.controller} for each in self.owners],
        }

    def is_same(self, other: ObjectRecord) -> bool:
        """Whether both versions are shown in the same way."""
        return (
            self.uid == other.uid
            and self.health == other.health
            and self.message == other.message
            and self.owners == other.owners
        )


def read_record(kind: KindState, raw: bytes, header: ObjectHeader) -> ObjectRecord:
    """Return the record of an object."""
    meta = header.metadata
    owners = tuple(
        Owner(each.uid, each.api_version, each.kind, each.name, bool(each.controller))
        for each in meta.owner_references or ()
    )
    health: Health = "Current"
    message = ""
    if not kind.metadata_only or meta.deletion_timestamp is not None:
        health, message = health_of(kind, raw)
    return ObjectRecord(
        kind,
        meta.namespace or "",
        meta.name or "",
        meta.uid or "",
        milliseconds(meta.creation_timestamp),
        owners,
        health,
        message,
    )


def health_of(kind: KindState, raw: bytes) -> tuple[Health, str]:
    """Return the health of an object and the reason if it is not current."""
    try:
        data: dict[str, Any] = loads(raw)
        data.setdefault("apiVersion", kind.gvk.api_version)
        # PartialObjectMetadata has a kind of its own, and rules depend on that of the object.
        data["kind"] = kind.gvk.kind
        if kind.gvk.group_kind == _POD and (loop := _crash_loop(data)):
            return "Failed", loop
        state = readiness_of(data)
    except (DecodeError, msgspec.DecodeError, TypeError, ValueError, AttributeError, KeyError) as error:
        return "Unknown", f"the status cannot be evaluated: {error}"[:MESSAGE_LENGTH]
    return state.state, state.message[:MESSAGE_LENGTH]


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
