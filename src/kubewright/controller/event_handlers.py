"""Event handlers: functions, plain or async, that return the requests to enqueue for a `ObjectChange`.

`enqueue_object` enqueues the changed object, `enqueue_owner` its owners (of the old and the new version, if
they differ), `enqueue_mapped` the requests that a function of yours returns for the object. `in_cluster` sets
the cluster of the requests of another handler.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar

from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionKind
from kubewright.cache.stores.store import CacheEntry, ObjectChange

from .request import Request

R = TypeVar("R", bound=Hashable)
EventHandler = Callable[[ObjectChange], Iterable[R] | Awaitable[Iterable[R]]]
"""Function, plain or async, from a change to the requests to enqueue."""
MapFunction = Callable[[Any], Iterable[R] | Awaitable[Iterable[R]]]
"""Function, plain or async, from an object to the requests to enqueue."""


def enqueue_object(change: ObjectChange) -> Iterable[Request]:
    """Enqueue the changed object."""
    return (Request(*change.key),)


def enqueue_owner(
    owner: GroupVersionKind, *, controller_only: bool = True, namespaced: bool = True
) -> EventHandler[Request]:
    """Return a handler that enqueues the owners of a kind, in any version of its group.

    With `controller_only`, only the controlling owner. `namespaced`: whether the owner's kind is namespaced;
    the owner is then in the namespace of the object.
    """
    wanted = owner.group_kind

    def owners(entry: CacheEntry, namespace: str) -> Iterable[Request]:
        for reference in entry.header().metadata.owner_references or ():
            if controller_only and not reference.controller:
                continue
            group, _ = GroupVersion.parse(reference.api_version)
            if GroupKind(group, reference.kind) == wanted:
                yield Request(namespace if namespaced else "", reference.name)

    def handler(change: ObjectChange) -> Iterable[Request]:
        found: dict[Request, None] = {}
        for entry in (change.old, change.new):
            if entry is not None:
                found.update(dict.fromkeys(owners(entry, change.key.namespace)))
        return found

    return handler


def enqueue_mapped(read: Callable[[CacheEntry], Any], map_function: MapFunction[R]) -> EventHandler[R]:
    """Return a handler that calls `map_function` with the old and the new object; `read` decodes them."""

    def versions(change: ObjectChange) -> list[Any]:
        new, old = change.new, change.old
        if old is new:
            old = None
        return [read(entry) for entry in (old, new) if entry is not None]

    if inspect.iscoroutinefunction(map_function):

        async def async_handler(change: ObjectChange) -> Iterable[R]:
            return dict.fromkeys([request for obj in versions(change) for request in await map_function(obj)])

        return async_handler

    def handler(change: ObjectChange) -> Iterable[R] | Awaitable[Iterable[R]]:
        found: dict[R, None] = {}
        results = [map_function(obj) for obj in versions(change)]
        for result in results:
            if isinstance(result, Awaitable):
                return _await_all(results)
            found.update(dict.fromkeys(result))
        return found

    return handler


def in_cluster(handler: EventHandler[Any], cluster: str) -> EventHandler[Any]:
    """Return a handler whose requests are for objects of a cluster of a fleet; without a cluster, the same.

    Raises a `ValueError` for a request of another cluster: each cluster of a fleet has its own queues.
    """
    if not cluster:
        return handler

    def assign(requests: Iterable[Any]) -> Iterable[Any]:
        found = []
        for request in requests:
            if isinstance(request, Request) and request.cluster != cluster:
                if request.cluster:
                    raise ValueError(f"{request} is not in cluster {cluster}, whose object changed")
                request = request._replace(cluster=cluster)
            found.append(request)
        return found

    async def assign_async(requests: Awaitable[Iterable[Any]]) -> Iterable[Any]:
        return assign(await requests)

    def handle(change: ObjectChange) -> Iterable[Any] | Awaitable[Iterable[Any]]:
        requests = handler(change)
        if inspect.isawaitable(requests):
            return assign_async(requests)
        return assign(requests)

    return handle


async def _await_all(results: Iterable[Iterable[R] | Awaitable[Iterable[R]]]) -> Iterable[R]:
    """Return the requests of a plain function that returns awaitables."""
    found: dict[R, None] = {}
    for result in results:
        found.update(dict.fromkeys(await result if inspect.isawaitable(result) else result))
    return found
