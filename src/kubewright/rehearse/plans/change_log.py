"""`ChangeLog`: the objects that changed since a moment, with their first and last state.

It is a listener of the dispatcher of a control plane, and stores only what changes: the cost of a plan
depends on the number of changes, not of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError
from kubewright.recording.redaction import Redactor
from kubewright.rehearse.snapshot import ObjectName
from kubewright.workloads.controllers import COMPONENTS

from .disruptions import disruption_of
from .model import PlannedChange, PlannedCondition, PlannedEvent, Verb
from .object_changes import MISSING, FieldChange, compare, unified_diff

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.explore.state import RequestRecord

MAX_OWNERS = 10
_EVENTS: Final = frozenset(("events", "events.events.k8s.io"))
_IGNORED: Final = frozenset(("leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io"))
_CLUSTER_SOURCES: Final = frozenset(each.event_source or each.name for each in COMPONENTS)
"""What the controllers of the cluster name themselves in Events."""
_REVISION: Final = "deployment.kubernetes.io/revision"
"""Annotation that the controller of Deployments sets."""
WrittenObject = tuple[str, str, str, str]
"""Group, resource (or `resource/status`), namespace and name."""


@dataclass(slots=True)
class ChangedObject:
    """An object with its state before its first and after its last change."""

    resource: str
    before: bytes | None
    after: bytes | None
    order: int
    seconds: float
    is_recreated: bool = False


class ChangeLog:
    """Records the changes of a control plane."""

    def __init__(
        self,
        server: APIServer,
        *,
        clock: Callable[[], float],
        redactor: Redactor,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.redactor = redactor
        self.changed: dict[str, ChangedObject] = {}
        """By storage key."""
        self.changed_at = clock()
        self.uncertain = 0
        """Number of values that were redacted in the source, and could not be compared."""
        self._server = server
        self._clock = clock
        self._on_change = on_change
        self._began = clock()
        self._events: dict[str, bytes] = {}

    def start(self) -> None:
        """Record the changes from now on."""
        self._began = self._clock()
        self._server.dispatcher.listeners.append(self)

    def stop(self) -> None:
        """Record no more changes."""
        self._server.dispatcher.listeners.remove(self)

    # Listener of the dispatcher

    def on_resource_added(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_watch_lost(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_watch_restarted(self) -> None:
        """Do nothing."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Record a change."""
        change, resource = event.event, str(cache.resource)
        if resource in _EVENTS:
            if change.value is not None:
                self._events[change.key] = change.value
            return
        if resource in _IGNORED:
            return
        self.changed_at = self._clock()
        if self._on_change is not None:
            self._on_change()
        before = change.previous.value if change.previous is not None else None
        known = self.changed.get(change.key)
        if known is None:
            known = self.changed[change.key] = ChangedObject(
                resource, before, change.value, len(self.changed), self.changed_at - self._began
            )
        elif change.value is not None and known.after is None and known.before is not None:
            known.is_recreated = True
        known.after = change.value

    # Result

    async def changes(self, written: Iterable[WrittenObject], groups: Iterable[str]) -> list[PlannedChange]:
        """Return the changes; `written` is what the operator wrote, `groups` are those of CRDs."""
        by_operator, custom = frozenset(written), tuple(groups)
        found: list[PlannedChange] = []
        for key, entry in self.changed.items():
            before = codec.loads(entry.before) if entry.before is not None else None
            after = codec.loads(entry.after) if entry.after is not None else None
            if before is not None and after is not None:
                before = await self._in_version(before, after["apiVersion"])
            name = ObjectName.of(after or before or {})
            resource, _, group = entry.resource.partition(".")
            is_written, has_status = (
                (group, each, name.namespace, name.name) in by_operator
                for each in (resource, f"{resource}/status")
            )
            is_operator = is_written or has_status
            if is_operator and not has_status and before is not None and after is not None:
                after = _with_status_of(before, after)
            change = self._change(entry, before, after)
            if change is None:
                continue
            change.actor = "operator" if is_operator else "cluster"
            change.disruption = disruption_of(change, before, custom)
            change.owners = await self._owners(after or before or {}, key)
            found.append(change)
        return sorted(found, key=lambda each: each.order)

    def _change(
        self, entry: ChangedObject, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> PlannedChange | None:
        obj = after or before
        if obj is None:
            return None  # created and deleted again
        verb: Verb = "change"
        fields: list[FieldChange] = []
        if before is None:
            verb = "create"
        elif after is None or after["metadata"].get("deletionTimestamp") != before["metadata"].get(
            "deletionTimestamp"
        ):
            verb = "delete"
        elif entry.is_recreated:
            verb = "recreate"
        if before is not None and after is not None and verb != "delete":
            comparison = compare(before, after, self.redactor)
            self.uncertain += comparison.uncertain
            fields = comparison.fields
            if not fields and verb == "change":
                return None
        has_diff = verb != "change" or any(not each.is_status for each in fields)
        shown_after = None if verb == "delete" else after
        return PlannedChange(
            name=ObjectName.of(obj),
            verb=verb,
            fields=fields,
            diff=unified_diff(before, shown_after, self.redactor) if has_diff else "",
            order=entry.order,
            seconds=entry.seconds,
        )

    async def _owners(self, obj: Mapping[str, Any], key: str) -> tuple[ObjectName, ...]:
        """Return the controlling owner of an object, its owner, and so on."""
        owners: list[ObjectName] = []
        seen = {key}
        while len(owners) < MAX_OWNERS:
            metadata = obj.get("metadata") or {}
            references = metadata.get("ownerReferences") or ()
            reference = next((each for each in references if each.get("controller")), None)
            reference = reference or next(iter(references), None)
            if reference is None:
                break
            group, slash, _ = str(reference.get("apiVersion") or "").rpartition("/")
            name = ObjectName(
                group if slash else "",
                str(reference.get("kind")),
                str(metadata.get("namespace") or ""),
                str(reference.get("name")),
            )
            found, owner_key = await self._read(name)
            owners.append(name if found is None else ObjectName.of(found))
            if found is None or owner_key in seen:
                break
            seen.add(owner_key)
            obj = found
        return tuple(owners)

    async def _in_version(self, obj: dict[str, Any], version: str) -> dict[str, Any]:
        """Return an object in another version, in which the server stores it now."""
        if obj["apiVersion"] == version:
            return obj
        group, _, wanted = version.rpartition("/")
        stores = (each for each in self._server.stores if each.resource.group == group)
        store = next((each for each in stores if each.resource.kind == obj["kind"]), None)
        if store is None:
            return obj
        try:
            converted = await store.convert(obj, obj["apiVersion"].rpartition("/")[2], wanted)
        except APIError:  # the webhook that converts it is not part of the plan
            return obj
        return dict(converted)

    async def _read(self, name: ObjectName) -> tuple[dict[str, Any] | None, str]:
        for store in self._server.stores:
            resource = store.resource
            if (resource.group, resource.kind) != (name.group, name.kind):
                continue
            where = f"{name.namespace}/{name.name}" if resource.namespaced else name.name
            key = f"{store.prefix}{where}"
            found = await self._server.storage.get(key)
            if found is not None:
                return codec.loads(found.value), key
            deleted = self.changed.get(key)
            if deleted is not None and deleted.before is not None:
                return codec.loads(deleted.before), key
        return None, ""

    def events(self) -> list[PlannedEvent]:
        """Return the Events that the operator recorded: those that no controller of the cluster did."""
        found: dict[tuple[str, str, str, str], int] = {}
        for value in self._events.values():
            event = codec.loads(value)
            source = event.get("reportingComponent") or (event.get("source") or {}).get("component")
            if source in _CLUSTER_SOURCES:
                continue
            target = event.get("involvedObject") or event.get("regarding") or {}
            kind = ObjectName.of({**target, "metadata": target}).full_kind
            where = "/".join(filter(None, (target.get("namespace"), target.get("name"))))
            message = self.redactor.text(str(event.get("message") or event.get("note") or ""))
            key = (f"{kind} {where}", str(event.get("type")), str(event.get("reason")), message)
            found[key] = found.get(key, 0) + (event.get("count") or 1)
        return [
            PlannedEvent(object=target, type=type_, reason=reason, message=message, count=count)
            for (target, type_, reason, message), count in found.items()
        ]


def _with_status_of(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return an object with what controllers of the cluster maintain as it was before."""
    after = {name: value for name, value in after.items() if name != "status"}
    if "status" in before:
        after["status"] = before["status"]
    revision = (before["metadata"].get("annotations") or {}).get(_REVISION)
    if revision is not None:
        metadata = after["metadata"]
        annotations = {**(metadata.get("annotations") or {}), _REVISION: revision}
        after["metadata"] = {**metadata, "annotations": annotations}
    return after


def written_objects(requests: Iterable[RequestRecord]) -> set[WrittenObject]:
    """Return what the operator has written."""
    return {
        (
            each.group,
            f"{each.resource}/status" if each.subresource == "status" else each.resource,
            each.namespace,
            each.name,
        )
        for each in requests
        if each.actor == "operator"
        and each.verb not in ("get", "list", "watch")
        and each.is_applied
        and each.is_changed
    }


def condition_changes(changes: Iterable[PlannedChange]) -> list[PlannedCondition]:
    """Return the conditions with another status."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for change in changes:
        if change.actor != "operator":
            continue
        for each in change.fields:
            head, _, rest = each.path.partition(".status.conditions[")
            name, bracket, field_name = rest.partition("]")
            if head or not bracket:
                continue
            values = found.setdefault((str(change.name), name), {})
            if isinstance(each.before, dict) or isinstance(each.after, dict):  # added or removed
                before, after = _dict(each.before), _dict(each.after)
                values |= {"before": _text(before.get("status", "")), "after": _text(after.get("status", ""))}
                values |= {name: _text(after.get(name, "")) for name in ("reason", "message")}
            elif field_name == ".status":
                values |= {"before": _text(each.before), "after": _text(each.after)}
            elif field_name in (".reason", ".message"):
                values[field_name[1:]] = _text(each.after)
    return [
        PlannedCondition(
            object=name,
            type=type_,
            before=values.get("before", ""),
            after=values.get("after", ""),
            reason=values.get("reason", ""),
            message=values.get("message", ""),
        )
        for (name, type_), values in found.items()
        if values.get("before") != values.get("after")
    ]


def _text(value: Any) -> str:
    return "" if value == MISSING else str(value)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
