"""`ClusterHistory`: earlier states of a control plane, and the way back to them.

    changes = await plane.history.changes(before, after)
    await plane.rewind(before)

The storage in memory or in a SQLite file has the changes of the last minutes, or with the option `history`
those of the last day. A rewind writes the differences between the current state and the earlier one as
ordinary changes, which become visible together: revisions continue to grow, watches receive the events, and
what was undone remains in the history. Leases and Events are not changed: they belong to processes that
continue to run. Objects that the control plane itself needs, such as its credentials, are not in the API and
do not change either.

With the option `history` the server has these endpoints, for administrators (`nonResourceURLs`):

| endpoint | response |
|---|---|
| `GET /kubewright/history?limit=N` | `revision`, `oldest`, and the last changes with their times |
| `GET /kubewright/history/diff?from=A&to=B` | the objects that differ, `before` and `after` |
| `POST /kubewright/history/rewind?to=A` | the number of objects that were written and deleted |

`A` and `B` are revisions or times (RFC 3339).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import BadRequest, Expired
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, page_not_found
from kubewright.storage import Compacted, FutureRevision, History, StorageError
from kubewright.storage.contract import KeyValue, StorageEvent
from kubewright.storage.local import LocalStorage, Rewound

if TYPE_CHECKING:
    from .plane import ControlPlane

PATH = "/kubewright/history"
LONG_HISTORY = History(
    seconds=24 * 3600.0, max_events=2_000_000, max_bytes=256 * 1024 * 1024, stores_times=True
)
"""Limits with the option `history`."""
DEFAULT_LIMIT = 50
_KEPT_RESOURCES = frozenset(("leases", "events"))
"""Storage prefixes of built-in resources, without that of the server."""

Moment = int | datetime
"""A revision or a time."""


class NoHistory(Exception):
    """The state at a moment is not available; the message says what is."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that differs between two revisions."""

    key: str
    """Key in the storage."""
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ClusterHistory:
    """The earlier states of a control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        if plane.options.history:
            self._local()  # raises an error early
            plane.server.add_prefix_handler(PATH, self._handle)

    def _local(self) -> LocalStorage:
        store = self._plane.store
        if not isinstance(store, LocalStorage):
            raise StorageError("time travel requires --store memory: or sqlite:PATH")
        return store

    @property
    def revision(self) -> int:
        """The current revision."""
        return self._local().keyspace.revision

    def resolve(self, moment: Moment) -> int:
        """Return the revision of a moment. Raises `NoHistory`."""
        keyspace = self._local().keyspace
        if isinstance(moment, datetime):
            found = keyspace.timeline.revision_at(moment.timestamp())
            if found is None:
                first = next(iter(keyspace.timeline), None)
                since = f"starts at {_text(first[0])}" if first is not None else "is empty"
                raise NoHistory(f"{_text(moment.timestamp())} is not in the history, which {since}")
            moment = found
        try:
            keyspace.check_revision(moment)
        except Compacted as error:
            advice = "" if self._plane.options.history else "; keep more with --history"
            raise NoHistory(f"{error}{advice}") from None
        except FutureRevision as error:
            raise NoHistory(str(error)) from None
        return moment

    async def changes(self, before: Moment, after: Moment) -> list[ObjectChange]:
        """Return the objects that differ between two moments, by key, without Leases and Events."""
        plane, first, last = self._plane, self.resolve(before), self.resolve(after)
        old, new = [
            {each.key: each for each in (await plane.storage.list(plane.server.prefix, revision=each)).items}
            for each in (first, last)
        ]
        found = []
        for key in sorted(old.keys() | new.keys()):
            one, other = old.get(key), new.get(key)
            if self._is_kept(key) or (one is not None and other is not None and one.value == other.value):
                continue
            try:
                found.append(ObjectChange(key, _decode(one), _decode(other)))
            except msgspec.DecodeError:
                continue  # not an object of the API
        return found

    def recent(self, limit: int = DEFAULT_LIMIT) -> list[dict[str, Any]]:
        """Return the last changes, the newest first: revision, time, operation and key."""
        keyspace = self._local().keyspace
        found = []
        for event in self._newest_first():
            time = keyspace.timeline.time_of(event.revision)
            found.append(
                {
                    "revision": event.revision,
                    "time": _text(time) if time is not None else None,
                    "operation": _operation(event),
                    "key": event.key,
                }
            )
            if len(found) >= limit:
                break
        return found

    def _newest_first(self) -> Iterator[StorageEvent]:
        keyspace = self._local().keyspace
        prefix = self._plane.server.prefix
        for event in reversed(keyspace.events_after(keyspace.compacted, prefix)):
            if not self._is_kept(event.key):
                yield event

    def _is_kept(self, key: str) -> bool:
        """Whether an object is not changed by a rewind: it belongs to a running process, or is a log."""
        return key.removeprefix(self._plane.server.prefix).partition("/")[0] in _KEPT_RESOURCES

    async def rewind(self, to: Moment) -> Rewound:
        """Restore the objects as they were at a moment; return when the API server serves them."""
        plane, store = self._plane, self._local()
        done = await store.rewind(plane.server.prefix, self.resolve(to), keeps=self._is_kept)
        await plane.server.dispatcher.catch_up()
        await plane.informers.wait_for_sync()
        return done

    def branch(self, at: Moment | None = None) -> ControlPlane:
        """Return another control plane with the objects of a moment, by default now; start it."""
        options = self._plane.options
        store = self._local().branch(0 if at is None else self.resolve(at))
        return type(self._plane).from_options(
            replace(
                options,
                store=store,
                port=None if options.port is None else 0,
                kubeconfig=None,
                history=False,
                accept_data_loss=False,
            )
        )

    # Endpoints

    async def _handle(self, request: HTTPRequest) -> HTTPResponse:
        path = request.path.removeprefix(PATH).rstrip("/")
        query = request.query
        try:
            match request.method, path:
                case "GET", "":
                    keyspace = self._local().keyspace
                    limit = query.get("limit") or str(DEFAULT_LIMIT)
                    if not limit.isdecimal():
                        raise BadRequest(f"limit {limit!r} is not a number")
                    return _json(
                        {
                            "revision": keyspace.revision,
                            "oldest": keyspace.oldest_list,
                            "changes": self.recent(int(limit)),
                        }
                    )
                case "GET", "/diff":
                    first, last = parse_moment(query.get("from")), parse_moment(query.get("to"))
                    changes = await self.changes(first, last)
                    return _json({"from": self.resolve(first), "to": self.resolve(last), "changes": changes})
                case "POST", "/rewind":
                    moment = parse_moment(query.get("to"))
                    target = self.resolve(moment)
                    done = await self.rewind(target)
                    return _json({"to": target, **done._asdict()})
        except NoHistory as error:
            raise Expired(str(error)) from None
        except ValueError as error:
            raise BadRequest(str(error)) from None
        return page_not_found()


def parse_moment(text: str) -> Moment:
    """Return the revision or time (RFC 3339) of a text; raise `ValueError`."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a revision nor a time such as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.astimezone()


def _operation(event: StorageEvent) -> str:
    return "delete" if event.value is None else "create" if event.previous is None else "update"


def _decode(item: KeyValue | None) -> dict[str, Any] | None:
    if item is None:
        return None
    obj: dict[str, Any] = msgspec.json.decode(item.value)
    obj.setdefault("metadata", {})["resourceVersion"] = str(item.mod_revision)
    return obj


def _text(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: Any) -> HTTPResponse:
    return HTTPResponse(200, msgspec.json.encode(value))
