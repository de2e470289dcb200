"""`/api/stream`: one stream of Server-Sent Events per page.

The overview and the tree are sent complete and at most twice per second, because a page shows their latest
state; the health of the objects of a kind is sent complete once, then its changes; spans are sent in
batches. A page that reads too slowly misses spans and is sent their number. A `heartbeat` is sent every two
seconds with the state of the API server, so that a page knows within five seconds that it shows old data.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import encode

from .api_server_probe import ApiServerProbe
from .objects.object_index import ObjectIndex
from .objects.object_records import ObjectRecord
from .objects.owner_tree import describe_tree
from .operators.traces import RecordType, TraceStore
from .overview import Overview
from .responses import DATA_HEADERS, RequestError

if TYPE_CHECKING:
    from aiohttp import web

INTERVAL_SECONDS: Final = 0.5
"""Minimum time between two overviews, and between two trees."""
SPAN_SECONDS: Final = 0.25
"""Minimum time between two batches of spans."""
HEARTBEAT_SECONDS: Final = 1.0
MAX_PENDING: Final = 1000
MAX_PENDING_BYTES: Final = 8 << 20
_PLURALS: Final[dict[RecordType, str]] = {"reconcile": "reconciles", "webhook": "webhooks", "queue": "queues"}


class PageStream:
    """The subscriptions of one page."""

    def __init__(
        self, index: ObjectIndex, overview: Overview, traces: TraceStore, probe: ApiServerProbe, query: Any
    ) -> None:
        self._index = index
        self._overview = overview
        self._traces = traces
        self._probe = probe
        self._wants_overview = query.get("overview", "") not in ("", "0")
        self._namespace = query.get("namespace", "")
        self._tree = _parse_tree(query.get("tree", ""))
        self._whole = query.get("whole", "") not in ("", "0")
        self._kind = _parse_kind(query.get("health", ""))
        self._types = {type_ for type_, name in _PLURALS.items() if query.get(name, "") not in ("", "0")}
        self._wake = asyncio.Event()
        self._pending: dict[RecordType, deque[bytes]] = {type_: deque() for type_ in _PLURALS}
        self._pending_bytes = 0
        self._lost = 0
        self._overview_body = b""
        self._overview_dirty = self._wants_overview
        self._tree_dirty = self._tree is not None
        self._tree_ids: frozenset[str] = frozenset()
        self._tree_body = b""
        self._health_sent = False
        self._health: dict[str, tuple[str, str] | None] = {}
        """Changes of the health of objects that are not sent yet, by uid."""

    async def serve(self, request: Any) -> web.StreamResponse:
        """Send events until the page closes the connection."""
        from aiohttp import web

        headers = {**DATA_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        self._traces.add_listener(self._record)
        try:
            with self._probe.hold():
                await response.write(_event("ready", b"{}"))
                if self._wants_overview or self._tree is not None or self._kind is not None:
                    with self._index.hold():
                        self._index.add_listener(self._change)
                        await self._send(response)
                else:
                    await self._send(response)
        except ConnectionError:
            pass
        finally:
            self._index.remove_listener(self._change)
            self._traces.remove_listener(self._record)
        return response

    async def _send(self, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        next_state = next_spans = next_heartbeat = 0.0
        while True:
            self._wake.clear()
            now = loop.time()
            body = b""
            if now >= next_spans and self._has_spans():
                next_spans = now + SPAN_SECONDS
                body += self._take_spans()
            if now >= next_state and self._is_dirty():
                next_state = now + INTERVAL_SECONDS
                body += self._take_state()
            if now >= next_heartbeat:
                next_heartbeat = now + HEARTBEAT_SECONDS
                # Findings depend on the time, too.
                self._overview_dirty = self._wants_overview
                body += _event("heartbeat", encode(self._probe.describe()))
            if body:
                await response.write(body)
            times = [next_heartbeat]
            if self._is_dirty():
                times.append(next_state)
            if self._has_spans():
                times.append(next_spans)
            delay = min(times) - loop.time()
            if delay > 0:
                try:
                    async with asyncio.timeout(delay):
                        await self._wake.wait()
                except TimeoutError:
                    pass

    def _has_spans(self) -> bool:
        return self._lost > 0 or any(self._pending.values())

    def _is_dirty(self) -> bool:
        unsent = self._kind is not None and (not self._health_sent or bool(self._health))
        return self._overview_dirty or self._tree_dirty or unsent

    def _take_state(self) -> bytes:
        parts = []
        if self._overview_dirty:
            self._overview_dirty = False
            body = self._overview.encode(self._namespace)
            if body != self._overview_body:
                self._overview_body = body
                parts.append(_event("overview", body))
        if self._tree_dirty and self._tree is not None:
            self._tree_dirty = False
            tree = describe_tree(self._index, self._tree, whole=self._whole)
            self._tree_ids = frozenset(node["id"] for node in tree["nodes"])
            body = encode(tree)
            if body != self._tree_body:
                self._tree_body = body
                parts.append(_event("tree", body))
        if self._kind is not None:
            parts.append(self._take_health(*self._kind))
        return b"".join(parts)

    def _take_health(self, group: str, kind: str) -> bytes:
        """Return the health of all objects that are not current, or its changes since the last event."""
        state = self._index.kind_of(group, kind)
        if not self._health_sent:
            if state is None or not (state.synced or state.error):
                return b""
            self._health_sent = True
            self._health.clear()
            records = (each for health in self._index.by_health.values() for each in health.values())
            found = {each.uid: (each.health, each.message) for each in records if each.kind is state}
            known = {"error": state.error, "scope": state.scope, "truncated": self._index.truncated > 0}
            return _event("health", encode({"complete": True, "objects": found, **known}))
        changes, self._health = self._health, {}
        return _event("health", encode({"complete": False, "objects": changes})) if changes else b""

    def _take_spans(self) -> bytes:
        parts = []
        for type_, events in self._pending.items():
            if events:
                parts.append(_event(type_, b"[%b]" % b",".join(events)))
                events.clear()
        self._pending_bytes = 0
        if self._lost:
            parts.append(_event("lost", encode({"spans": self._lost})))
            self._lost = 0
        return b"".join(parts)

    def _record(self, type_: RecordType, record: dict[str, Any]) -> None:
        if type_ not in self._types:
            return
        events = self._pending[type_]
        events.append(encode(record))
        self._pending_bytes += len(events[-1])
        while len(events) > MAX_PENDING or self._pending_bytes > MAX_PENDING_BYTES:
            longest = max(self._pending.values(), key=len)
            self._pending_bytes -= len(longest.popleft())
            self._lost += 1
        self._wake.set()

    def _change(self, old: ObjectRecord | None, new: ObjectRecord | None) -> None:
        if self._tree is not None and not self._tree_dirty and self._concerns_tree(old, new):
            self._tree_dirty = True
        self._overview_dirty = self._wants_overview
        record = new or old
        if self._kind is not None and record is not None and self._is_listed(record):
            if new is None or new.health == "Current":
                self._health[record.uid] = None
            else:
                self._health[record.uid] = (new.health, new.message)
        if self._is_dirty():
            self._wake.set()

    def _is_listed(self, record: ObjectRecord) -> bool:
        return (record.kind.resource.gvr.group, record.kind.gvk.kind) == self._kind

    def _concerns_tree(self, old: ObjectRecord | None, new: ObjectRecord | None) -> bool:
        if old is None and new is None:
            return True
        for record in (old, new):
            if record is None:
                continue
            if record.uid in self._tree_ids or any(owner.uid in self._tree_ids for owner in record.owners):
                return True
            assert self._tree is not None
            if (record.namespace, record.name) == self._tree[2:] and record.kind.gvk.kind == self._tree[1]:
                return True
        return False


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _parse_tree(text: str) -> tuple[str, str, str, str] | None:
    """Return group, kind, namespace and name of `group,version,kind,namespace,name`."""
    if not text:
        return None
    parts = text.split(",")
    if len(parts) != 5 or not parts[2] or not parts[4]:
        raise RequestError(400, f"tree={text}: expected group,version,kind,namespace,name")
    return parts[0], parts[2], parts[3], parts[4]


def _parse_kind(text: str) -> tuple[str, str] | None:
    """Return group and kind of `group,kind`."""
    if not text:
        return None
    group, comma, kind = text.partition(",")
    if not comma or not kind:
        raise RequestError(400, f"health={text}: expected group,kind")
    return group, kind
