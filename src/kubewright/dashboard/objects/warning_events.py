"""The latest Warning events of a cluster, from a watch with a field selector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, loads
from kubewright.api.gvk import GroupVersion, GroupVersionKind
from kubewright.background import run_forever
from kubewright.cache.reflectors.list_watch import ListWatch
from kubewright.cache.reflectors.lister_watcher import ObjectEvent
from kubewright.cache.reflectors.reflector import Reflector

from .object_records import milliseconds
from .readable_namespaces import find_readable_namespace

if TYPE_CHECKING:
    from kubewright.client import Client

    from .object_index import ObjectIndex

MAX_EVENTS: Final = 500
_EVENT: Final = GroupVersionKind("", "v1", "Event")


class WarningEvents:
    """Stores the latest events of type Warning, without duplicates."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._events: dict[str, dict[str, Any]] = {}
        self.error = ""
        """Why events cannot be read."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to watch."""
        if self._task is None:
            self._task = run_forever(self._run, name="dashboard events", required=False)

    async def _run(self) -> None:
        namespace, self.error = await find_readable_namespace(self._client, _EVENT, namespaced=True)
        if namespace is not None:
            source = ListWatch(self._client, _EVENT, namespace=namespace, fields={"type": "Warning"})
            await Reflector("events", source, self, namespace=namespace).run()

    async def stop(self) -> None:
        """Stop to watch, and drop the events."""
        task, self._task = self._task, None
        self._events.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def latest(self, index: ObjectIndex, limit: int, *, namespace: str = "") -> list[dict[str, Any]]:
        """Return the latest events of a namespace or all, newest first."""
        events = (each for each in self._events.values() if not namespace or each["namespace"] == namespace)
        newest = sorted(events, key=lambda each: each["lastSeen"], reverse=True)[:limit]
        return [{**each, "object": _with_resource(index, each["object"])} for each in newest]

    def begin(self) -> None:
        """Start to receive a complete state."""

    def initial(self, event: ObjectEvent) -> None:
        """Store one event."""
        header = event.header
        try:
            described = _describe(loads(event.raw), header)
        except (DecodeError, ValueError, TypeError, AttributeError):
            return
        self._events.pop(header.metadata.uid or "", None)
        self._events[header.metadata.uid or ""] = described
        if len(self._events) > 2 * MAX_EVENTS:
            newest = sorted(self._events.items(), key=lambda each: each[1]["lastSeen"])[-MAX_EVENTS:]
            self._events = dict(newest)
        self._changed()

    def replace(self, resource_version: str) -> bool:
        """Keep events that have expired on the server: they are sorted out by age."""
        return True

    def event(self, event: ObjectEvent) -> None:
        """Store a new or repeated event."""
        if event.type != "DELETED":
            self.initial(event)

    def progress(self, resource_version: str) -> None:
        """Nothing depends on the position of the watch."""


def _describe(event: dict[str, Any], header: ObjectHeader) -> dict[str, Any]:
    series = event.get("series") or {}
    seen = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    about = event.get("involvedObject") or {}
    group, version = GroupVersion.parse(about.get("apiVersion") or "v1")
    created = milliseconds(header.metadata.creation_timestamp)
    return {
        "namespace": header.metadata.namespace or "",
        "reason": event.get("reason") or "",
        "message": event.get("message") or "",
        "count": series.get("count") or event.get("count") or 1,
        "lastSeen": milliseconds(datetime.fromisoformat(seen)) if seen else created,
        "source": event.get("reportingComponent") or (event.get("source") or {}).get("component") or "",
        "object": {
            "group": group,
            "version": version,
            "kind": about.get("kind") or "",
            "namespace": about.get("namespace") or "",
            "name": about.get("name") or "",
        },
    }


def _with_resource(index: ObjectIndex, about: dict[str, Any]) -> dict[str, Any]:
    kind = index.kind_of(about["group"], about["kind"])
    return {
        **about,
        "resource": kind.resource.plural if kind is not None else "",
        "namespaced": kind.namespaced if kind is not None else bool(about["namespace"]),
    }
