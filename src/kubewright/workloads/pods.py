"""States of pods: active, ready, available; and lists of cached pods that decode each version only once.

Controllers look at all pods of an owner for every change of one of them. A `PodSummary` has the fields they
need and takes a fraction of the time of a whole `Pod`; `PodLister` keeps it as long as the version is cached.
Summaries are shared: do not change them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.selectors.label_selectors import Selector
from kubewright.api.values.times import parse_time
from kubewright.cache.stores.indexes import OWNER
from kubewright.cache.stores.store import CacheEntry, ObjectChange, ObjectKey

if TYPE_CHECKING:
    from kubewright.api.meta import ObjectReference
    from kubewright.cache import Cache
    from kubewright.cache.informers.informer import Informer

POD = GroupVersionKind("", "v1", "Pod")
ORPHAN = ""
"""Value of the owner index for objects without a controller."""


def pod_reference(metadata: dict[str, Any]) -> ObjectReference:
    """Return the reference of events about a pod with this metadata."""
    from kubewright.api.meta import ObjectReference

    return ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
    )


class OwnerSummary(msgspec.Struct, gc=False, rename="camel"):
    """An owner reference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class MetadataSummary(msgspec.Struct, rename="camel"):
    """The metadata that controllers use."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerSummary] | None = None
    finalizers: list[str] | None = None


class ConditionSummary(msgspec.Struct, gc=False, rename="camel"):
    """A condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerSummary(msgspec.Struct, gc=False, rename="camel"):
    """A container: whether it is a sidecar."""

    name: str = ""
    restart_policy: str = ""


class ContainerStatusSummary(msgspec.Struct, gc=False, rename="camel"):
    """How often a container was restarted."""

    name: str = ""
    restart_count: int = 0


class _FieldRequirement(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _NodeSelectorTerm(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    match_fields: tuple[_FieldRequirement, ...] = ()


class _NodeSelector(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    node_selector_terms: tuple[_NodeSelectorTerm, ...] = ()


class _NodeAffinity(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class PodSpecSummary(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of the spec that controllers use."""

    node_name: str = ""
    affinity: _Affinity | None = None
    init_containers: list[ContainerSummary] | None = None


class PodStatusSummary(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of the status that controllers use."""

    phase: str = ""
    reason: str = ""
    conditions: list[ConditionSummary] | None = None
    container_statuses: list[ContainerStatusSummary] | None = None
    init_container_statuses: list[ContainerStatusSummary] | None = None


class PodSummary(msgspec.Struct, rename="camel"):
    """The part of a pod that workload controllers use."""

    metadata: MetadataSummary
    spec: PodSpecSummary = PodSpecSummary()
    status: PodStatusSummary = PodStatusSummary()

    @property
    def name(self) -> str:
        """The name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.metadata.namespace

    @property
    def labels(self) -> dict[str, str]:
        """The labels."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations."""
        return self.metadata.annotations or {}

    @property
    def controller(self) -> OwnerSummary | None:
        """The reference to the controller."""
        return next((each for each in self.metadata.owner_references or () if each.controller), None)

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """Whether the pod runs or will run."""
        return not self.is_finished and not self.is_terminating

    @property
    def target_node(self) -> str:
        """The node that the pod is bound to, or the only one that its node affinity allows by name."""
        if self.spec.node_name:
            return self.spec.node_name
        affinity = self.spec.affinity.node_affinity if self.spec.affinity is not None else None
        required = (
            affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        )
        for term in required.node_selector_terms if required is not None else ():
            for field in term.match_fields:
                if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                    return field.values[0]
        return ""

    def condition(self, type: str) -> ConditionSummary | None:
        """Return the condition of a type."""
        return next((each for each in self.status.conditions or () if each.type == type), None)

    @property
    def is_ready(self) -> bool:
        """Whether the condition `Ready` is true."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True"

    @property
    def ready_since(self) -> datetime | None:
        """Time at which the pod became ready; `None` if it is not ready."""
        ready = self.condition("Ready")
        if ready is None or ready.status != "True" or ready.last_transition_time is None:
            return None
        return parse_time(ready.last_transition_time)

    @property
    def created(self) -> datetime | None:
        """Time of the creation."""
        created = self.metadata.creation_timestamp
        return parse_time(created) if created else None

    def is_available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Whether the pod has been ready for at least `min_ready_seconds`."""
        if min_ready_seconds <= 0:
            return self.is_ready
        since = self.ready_since
        return since is not None and since + timedelta(seconds=min_ready_seconds) <= now

    def seconds_until_available(self, min_ready_seconds: int, now: datetime) -> float | None:
        """Return the time until a ready pod becomes available; `None` if it is not ready or available."""
        since = self.ready_since
        if since is None or min_ready_seconds <= 0:
            return None
        left = (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()
        return left if left > 0 else None


_decode = msgspec.json.Decoder(PodSummary).decode


def next_availability(pods: Iterable[PodSummary], min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until the next of the ready pods becomes available."""
    delays = (pod.seconds_until_available(min_ready_seconds, now) for pod in pods)
    return min((delay for delay in delays if delay is not None), default=None)


class PodLister:
    """Lists of cached pods, as shared summaries."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._informer: Informer | None = None
        self._decoded: dict[int, tuple[bytes, PodSummary]] = {}
        """Summaries by the identity of the bytes of their version, which are kept alive."""
        self._last: tuple[ObjectChange | None, tuple[PodSummary | None, PodSummary | None]]
        self._last = (None, (None, None))

    def summary(self, entry: CacheEntry) -> PodSummary:
        """Return the summary of a cached version."""
        found = self._decoded.get(id(entry.raw))
        if found is None:
            summary = _decode(entry.raw)
            if self._informer is not None:
                self._decoded[id(entry.raw)] = (entry.raw, summary)
            return summary
        return found[1]

    async def owned_by(self, uid: str, namespace: str, *, orphans: bool = False) -> list[PodSummary]:
        """Return the pods with an owner; with `orphans`, also pods of the namespace without a controller."""
        informer = await self._synced(namespace)
        found = dict(informer.store.indexed(OWNER, uid, namespace))
        if orphans:
            found.update(informer.store.indexed(OWNER, ORPHAN, namespace))
        return [self.summary(entry) for entry in found.values()]

    async def matching(self, selector: Selector, namespace: str) -> list[PodSummary]:
        """Return the pods of a namespace that match a selector."""
        informer = await self._synced(namespace)
        pods = [self.summary(entry) for _, entry in informer.store.entries(namespace)]
        return [pod for pod in pods if selector.matches(pod.labels)]

    async def on_node(self, name: str) -> list[PodSummary]:
        """Return the pods that are bound to a node."""
        informer = await self._synced(None)
        return [self.summary(entry) for _, entry in informer.store.indexed("spec.nodeName", name)]

    async def get(self, name: str, namespace: str) -> PodSummary | None:
        """Return one pod."""
        informer = await self._synced(namespace)
        entry = informer.store.get(ObjectKey(namespace, name))
        return self.summary(entry) if entry is not None else None

    async def _synced(self, namespace: str | None) -> Informer:
        informer = self._informer
        if informer is None:
            informer = await self._cache.informer(POD)
            await informer.wait_for_sync()
            if self._informer is None:
                self._informer = informer
                informer.add_handler(self._forget, resync=0)
        if informer.has_pending_writes(namespace):
            await informer.wait_for_pending_writes(namespace)
        return informer

    def versions(self, change: ObjectChange) -> tuple[PodSummary | None, PodSummary | None]:
        """Return the summaries of the old and the new version of a change; handlers share them."""
        if self._last[0] is change:
            return self._last[1]
        old = new = None
        if change.old is not None:
            found = self._decoded.pop(id(change.old.raw), None)
            old = found[1] if found is not None else _decode(change.old.raw)
        if change.new is not None:
            new = self.summary(change.new)
        self._last = (change, (old, new))
        return old, new

    def _forget(self, change: ObjectChange) -> None:
        """Drop the summary of the old version."""
        self.versions(change)
