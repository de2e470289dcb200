"""`/api/stream`: one stream of Server-Sent Events per page.

The overview and the tree are sent complete and at most twice per second, because a page shows their latest
state; spans are sent one by one. A page that reads too slowly misses spans and is sent their number.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import encode

from .objects.object_index import ObjectIndex
from .objects.object_records import ObjectRecord
from .objects.owner_tree import describe_tree
from .operators.traces import RecordType, TraceStore
from .responses import DATA_HEADERS, RequestError

if TYPE_CHECKING:
    from aiohttp import web

INTERVAL_SECONDS: Final = 0.5
"""Minimum time between two overviews, and between two trees."""
HEARTBEAT_SECONDS: Final = 15.0
MAX_PENDING: Final = 1000
MAX_PENDING_BYTES: Final = 8 << 20
_PLURALS: Final[dict[RecordType, str]] = {"reconcile": "reconciles", "webhook": "webhooks", "queue": "queues"}


class OverviewEncoder:
    """Encodes the overview once for all pages."""

    def __init__(self, index: ObjectIndex) -> None:
        self._index = index
        self._revision = -1
        self._body = b""

    def encode(self) -> bytes:
        """Return the current overview as JSON."""
        if self._revision != self._index.revision:
            self._revision = self._index.revision
            self._body = encode(describe_overview(self._index))
        return self._body


class PageStream:
    """The subscriptions of one page."""

    def __init__(self, index: ObjectIndex, overview: OverviewEncoder, traces: TraceStore, query: Any) -> None:
        self._index = index
        self._encoder = overview
        self._traces = traces
        self._wants_overview = query.get("overview", "") not in ("", "0")
        self._tree = _parse_tree(query.get("tree", ""))
        self._whole = query.get("whole", "") not in ("", "0")
        self._types = {type_ for type_, name in _PLURALS.items() if query.get(name, "") not in ("", "0")}
        self._wake = asyncio.Event()
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._lost = 0
        self._overview_sent = -1
        self._tree_dirty = self._tree is not None
        self._tree_ids: frozenset[str] = frozenset()
        self._tree_body = b""

    async def serve(self, request: Any) -> web.StreamResponse:
        """Send events until the page closes the connection."""
        from aiohttp import web

        headers = {**DATA_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        self._traces.add_listener(self._record)
        try:
            await response.write(_event("ready", b"{}"))
            if self._wants_overview or self._tree is not None:
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
        next_state = 0.0
        while True:
            self._wake.clear()
            if self._pending or self._lost:
                await response.write(self._take_spans())
            stale = self._is_stale()
            if stale and loop.time() >= next_state:
                next_state = loop.time() + INTERVAL_SECONDS
                body = self._take_state()
                if body:
                    await response.write(body)
                stale = False
            delay = max(0.0, next_state - loop.time()) if stale else HEARTBEAT_SECONDS
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                if not stale:
                    await response.write(b": heartbeat\n\n")

    def _is_stale(self) -> bool:
        changed = self._wants_overview and self._overview_sent != self._index.revision
        return changed or self._tree_dirty

    def _take_state(self) -> bytes:
        parts = []
        if self._wants_overview and self._overview_sent != self._index.revision:
            self._overview_sent = self._index.revision
            parts.append(_event("overview", self._encoder.encode()))
        if self._tree_dirty and self._tree is not None:
            self._tree_dirty = False
            tree = describe_tree(self._index, self._index.find(*self._tree), whole=self._whole)
            self._tree_ids = frozenset(node["id"] for node in tree["nodes"])
            body = encode(tree)
            if body != self._tree_body:
                self._tree_body = body
                parts.append(_event("tree", body))
        return b"".join(parts)

    def _take_spans(self) -> bytes:
        body = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        if self._lost:
            body += _event("lost", encode({"spans": self._lost}))
            self._lost = 0
        return body

    def _record(self, type_: RecordType, record: dict[str, Any]) -> None:
        if type_ not in self._types:
            return
        event = _event(type_, encode(record))
        self._pending.append(event)
        self._pending_bytes += len(event)
        while len(self._pending) > MAX_PENDING or self._pending_bytes > MAX_PENDING_BYTES:
            self._pending_bytes -= len(self._pending.popleft())
            self._lost += 1
        self._wake.set()

    def _change(self, old: ObjectRecord | None, new: ObjectRecord | None) -> None:
        if self._tree is not None and not self._tree_dirty and self._concerns_tree(old, new):
            self._tree_dirty = True
        if self._wants_overview or self._tree_dirty:
            self._wake.set()

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


MAX_UNHEALTHY: Final = 50
MAX_WARNINGS: Final = 100


def describe_overview(index: ObjectIndex) -> dict[str, Any]:
    """Return the overview of an index."""
    namespaces = index.kinds.get(("", "namespaces"))
    failed, progressing = index.by_health["Failed"], index.by_health["InProgress"]
    unhealthy = islice(chain(failed.values(), progressing.values()), MAX_UNHEALTHY)
    return {
        "synced": index.synced,
        "truncated": index.truncated > 0,
        "namespaces": sorted(name for _, name in namespaces.objects) if namespaces is not None else [],
        "kinds": [each.summary() for each in index.kinds.values()],
        "unhealthy": [each.node() for each in unhealthy],
        "warnings": index.warnings.latest(index, MAX_WARNINGS),
    }
