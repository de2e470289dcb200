"""Informers of the resources that extension API servers serve.

    aggregated = AggregatedInformers(server, informers)
    aggregated.add_handler_for_all(handler)            # metadata of existing objects, then of each change
    toys = aggregated.find("toys.example.com", "v1", "Toy")

The garbage collector and the namespace controller use them beside the informers of stored resources. They
send requests through the aggregator, start with the first handler, and list and watch in the background: an
extension API server that does not respond never delays the control plane. While it is unavailable, the last
known objects remain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.gvk import GroupResource, GroupVersionKind
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Resource, Version
from kubewright.controlplane.in_process_clients import controller_client
from kubewright.controlplane.informers import AllHandlers

from .local import API_SERVICES

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.informers.informer import Informer
    from kubewright.controlplane.informers import AllHandler, Informers


WATCHED_VERBS = frozenset(("delete", "list", "watch"))
"""The verbs of a resource whose owner references are followed."""


class AggregatedInformers:
    """The resources of all APIServices with a service, and the metadata of their objects."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self._stored = informers
        self._versions: dict[tuple[str, str], list[Resource]] = {}
        """Group version to its resources, in the order of preference."""
        self._unavailable: set[tuple[str, str]] = set()
        self._encoded = b""
        self._informers: dict[GroupResource, tuple[Informer, str]] = {}
        """With the version that is watched."""
        self._handlers = AllHandlers()
        self._callbacks: list[Callable[[], object]] = []

    # Resources

    def resources(self) -> Iterable[Resource]:
        """Return the resources of available APIServices, each in its preferred version."""
        return self._preferred(self._unavailable).values()

    def unavailable(self) -> list[str]:
        """Return the group versions whose APIService is not available."""
        return sorted(f"{group}/{version}" for group, version in self._unavailable)

    def find(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, also while its APIService is not available."""
        for resource in self._versions.get((group, version), ()):
            if resource.kind == kind:
                return resource
        return None

    def serves(self, resource: Resource) -> bool:
        """Whether an APIService declares a resource."""
        return resource.group_resource in self._preferred(())

    def _preferred(self, excluded: Iterable[tuple[str, str]]) -> dict[GroupResource, Resource]:
        found: dict[GroupResource, Resource] = {}
        for key, resources in self._versions.items():
            if key not in excluded:
                for resource in resources:
                    found.setdefault(resource.group_resource, resource)
        return found

    def update(self, versions: Iterable[tuple[str, Object, bool]]) -> None:
        """Set the group versions: group, entry in aggregated discovery and availability of each.

        Versions of a group are in the order of preference.
        """
        versions = list(versions)
        encoded = msgspec.json.encode(versions)
        if encoded == self._encoded:
            return
        self._encoded = encoded
        self._versions, self._unavailable = {}, set()
        for group, entry, available in versions:
            key = (group, entry["version"])
            self._versions[key] = _resources(group, entry)
            if not available:
                self._unavailable.add(key)
        self._update_informers()
        for callback in self._callbacks:
            callback()

    # Handlers, as `kubewright.controlplane.informers.Informers` has them

    def add_handler_for_all(self, handler: AllHandler) -> None:
        """Call `handler` for the metadata of every object of every resource."""
        self._handlers.add(handler)
        self._update_informers()

    def remove_handler_for_all(self, handler: AllHandler) -> None:
        """Stop calling a handler."""
        self._handlers.remove(handler)

    async def wait_for_sync(self) -> None:
        """Wait until the APIServices are known; extension API servers may be unavailable."""
        await self._stored.wait_for_sync(API_SERVICES)

    def add_resource_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` when resources are added or removed, or become available or unavailable."""
        self._callbacks.append(callback)

    async def stop(self) -> None:
        """Stop all informers."""
        informers, self._informers = self._informers, {}
        await asyncio.gather(*(informer.stop() for informer, _ in informers.values()))

    def _update_informers(self) -> None:
        wanted = {
            key: resource
            for key, resource in (self._preferred(()) if self._handlers else {}).items()
            if WATCHED_VERBS.issubset(resource.verbs)
        }
        for key, (informer, version) in list(self._informers.items()):
            declared = wanted.get(key)
            if declared is None or declared.storage_version != version:
                self._handlers.remove_informer(informer)
                informer.cancel()
                del self._informers[key]
            elif (key.group, version) not in self._unavailable and informer.last_error is not None:
                informer.retry_now()
        for key, resource in wanted.items():
            if key not in self._informers:
                informer = _metadata_informer(self.server, resource)
                self._informers[key] = informer, resource.storage_version
                self._handlers.add_informer(informer, partial(_identity, resource))
                informer.start()


def _resources(group: str, entry: Object) -> list[Resource]:
    version = entry["version"]
    return [
        Resource(
            group=group,
            kind=(each.get("responseKind") or {}).get("kind") or "",
            plural=each.get("resource") or "",
            versions=[Version(name=version)],
            namespaced=each.get("scope") == "Namespaced",
            verbs=tuple(each.get("verbs") or ()),
        )
        for each in entry.get("resources") or ()
    ]


def _identity(resource: Resource) -> Resource:
    return resource


def _metadata_informer(server: APIServer, resource: Resource) -> Informer:
    """Return the informer of a resource, whose requests pass the aggregator."""
    from kubewright.cache.informers.informer import Informer
    from kubewright.cache.reflectors.list_watch import ListWatch
    from kubewright.cache.stores.store import SharedEntry
    from kubewright.client.kind_types import metadata_of

    client = controller_client(server, "metadata-informers")
    kind = GroupVersionKind(resource.group, resource.storage_version, resource.kind)
    return Informer(
        kind,
        {"": ListWatch(client, metadata_of(kind))},
        metadata_only=True,
        form=SharedEntry.of,
        stream_initial_events=False,
    )
