"""How many seats of its priority level a request occupies: estimates with the rules of kube-apiserver.

- A list, and a watch that starts with the existing objects: one seat per 100 kB that are read, which is the
  number of objects, or the limit, times their average size. At most 1 MB counts, unless the list is of a
  certain revision.
- Create, update, patch and delete: one seat, and for 5 ms after the response one per ten watchers of the
  object. If these are more than ten seats, ten are occupied for a longer time. Watchers of the pods of one
  node are not counted.
- All others: one seat.

No request occupies more than its level allows (`PriorityLevel.max_seats`). Number and size of the objects of
a resource are measured with a few of them, at most once a minute.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kubewright.storage.contract import StorageError

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest, Query
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer

BYTES_PER_SEAT: Final = 100_000
MAX_BYTES_AT_ONCE: Final = 1_000_000
"""Bytes of a list that are in memory at the same time; longer lists are sent in parts."""
WATCHERS_PER_SEAT: Final = 10
EVENT_SECONDS: Final = 0.005
"""Seconds in which the watchers of one seat process an event."""
MAX_LIST_SEATS: Final = 100
MAX_WRITE_SEATS: Final = 10
STATISTICS_SECONDS: Final = 60.0
_SAMPLE: Final = 16
_WRITES: Final = frozenset(("create", "update", "patch", "delete"))
ESTIMATED_VERBS: Final = _WRITES | {"list", "watch"}
"""Verbs of requests that can occupy more than one seat."""


class WorkEstimate(NamedTuple):
    """Seats during a request, and those for some time after its response."""

    seats: int = 1
    final_seats: int = 0
    seconds: float = 0.0
    """How long the final seats are occupied."""

    @property
    def width(self) -> int:
        """The seats that must be free when the request starts."""
        return max(self.seats, self.final_seats)


ONE_SEAT: Final = WorkEstimate()

Estimate = Callable[["HTTPRequest", "RequestInfo", int], Awaitable[WorkEstimate]]
"""Returns the estimate of a request whose level allows a number of seats (0: any)."""


class ResourceStatistics(NamedTuple):
    """Number and average size of the objects of a resource, at a time of the server's clock."""

    objects: int
    average_bytes: int
    at: float


class WorkEstimator:
    """Estimates the work of requests to the resources of a server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._statistics: dict[tuple[str, str], ResourceStatistics] = {}

    async def estimate(self, request: HTTPRequest, info: RequestInfo, max_seats: int) -> WorkEstimate:
        """Return the seats of a request, at most those that its level allows (0: any)."""
        store = self._server.store(info.group, info.resource)
        if store is None:
            return ONE_SEAT  # another server does the work
        if info.verb in _WRITES:
            return self._write(store, info, max_seats)
        if info.name or (info.verb == "watch" and not _has_initial_events(request.query)):
            return ONE_SEAT
        limit = min(max_seats or MAX_LIST_SEATS, MAX_LIST_SEATS)
        seats = list_seats(request.query, await self._measure(store), watch=info.verb == "watch")
        return WorkEstimate(max(1, min(seats, limit)))

    def _write(self, store: ResourceStore, info: RequestInfo, max_seats: int) -> WorkEstimate:
        cache = store.watch_cache
        if cache.active < WATCHERS_PER_SEAT or info.subresource == "token":
            return ONE_SEAT
        watchers = cache.interested(info.namespace, info.name)
        if watchers < WATCHERS_PER_SEAT:
            return ONE_SEAT
        wanted = -(-watchers // WATCHERS_PER_SEAT)
        final = min(wanted, max_seats or MAX_WRITE_SEATS, MAX_WRITE_SEATS)
        return WorkEstimate(1, final, EVENT_SECONDS * wanted / final)

    async def _measure(self, store: ResourceStore) -> ResourceStatistics:
        key = (store.resource.group, store.resource.plural)
        found, now = self._statistics.get(key), self._server.clock()
        if found is None or now - found.at >= STATISTICS_SECONDS:
            try:
                page = await self._server.storage.list(store.prefix, limit=_SAMPLE)
            except StorageError:
                return found or ResourceStatistics(0, 0, now)
            total, count = sum(len(item.value) for item in page.items), len(page.items)
            average = total // count if count else 0
            found = self._statistics[key] = ResourceStatistics(count + page.remaining, average, now)
        return found


def _has_initial_events(query: Query) -> bool:
    """Whether a watch starts with the existing objects."""
    return query.get("sendInitialEvents") == "true" or query.get("resourceVersion") in ("", "0")


def list_seats(query: Query, statistics: ResourceStatistics, *, watch: bool = False) -> int:
    """Return the seats of a list, without limits; 0 if nothing is stored."""
    version, match, limit = query.get("resourceVersion"), query.get("resourceVersionMatch"), 0
    if query.get("limit").isdecimal():
        limit = int(query.get("limit"))
    count = min(limit, statistics.objects) if limit else statistics.objects
    is_exact = match == "Exact" or (not match and limit > 0 and version not in ("", "0"))
    if watch or not (is_exact or query.get("continue")):
        size = min(count * statistics.average_bytes, MAX_BYTES_AT_ONCE)
    else:
        if query.get("labelSelector") or query.get("fieldSelector"):
            count = max(count, statistics.objects // 2)
        size = count * statistics.average_bytes
    return -(-size // BYTES_PER_SEAT)
