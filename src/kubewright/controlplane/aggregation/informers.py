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
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.gvk import GroupResource
from kubewright.apiserver.resource import Resource, Version
from kubewright.background import run_forever
from kubewright.controlplane.informer import Handler, Key, ResourceEvent
from kubewright.controlplane.loopback_client import controller_user, error_of
from kubewright.controlplane.object_metadata import Metadata, metadata_of_object

from .local import API_SERVICES

if TYPE_CHECKING:
    from kubewright.api.codec import ObjectHeader
    from kubewright.apiserver.server import APIServer
    from kubewright.client.listwatch.raw import RawEvent, RawPage, RawWatch
    from kubewright.controlplane.informers import Informers

logger = logging.getLogger("kubewright.controlplane")

Object = dict[str, Any]

USER = controller_user("metadata-informers")
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
WATCHED_VERBS = frozenset(("delete", "list", "watch"))
"""The verbs of a resource whose owner references are followed."""


_decode = msgspec.json.Decoder().decode


def _decode_metadata(raw: bytes) -> Metadata:
    """Decode the metadata of an object of an extension API server."""
    return metadata_of_object(_decode(raw))


class AggregatedInformers:
    """The resources of all APIServices with a service, and the metadata of their objects."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self._stored = informers
        self._versions: dict[tuple[str, str], list[Resource]] = {}
        """Group version to its resources, in the order of preference."""
        self._unavailable: set[tuple[str, str]] = set()
        self._encoded = b""
        self._informers: dict[GroupResource, _AggregatedInformer] = {}
        self._handlers: list[Handler] = []
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

    def add_handler_for_all(self, handler: Handler) -> None:
        """Call `handler` for the metadata of every object of every resource."""
        self._handlers.append(handler)
        for informer in self._informers.values():
            informer.replay(handler)
        self._update_informers()

    def remove_handler_for_all(self, handler: Handler) -> None:
        """Stop calling a handler."""
        if handler in self._handlers:
            self._handlers.remove(handler)

    async def wait_for_sync(self) -> None:
        """Wait until the APIServices are known; extension API servers may be unavailable."""
        await self._stored.wait_for_sync(API_SERVICES)

    def add_resource_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` when resources are added or removed, or become available or unavailable."""
        self._callbacks.append(callback)

    async def stop(self) -> None:
        """Stop all informers."""
        self._handlers.clear()
        informers, self._informers = self._informers, {}
        for informer in informers.values():
            informer.task.cancel()
        await asyncio.gather(*(each.task for each in informers.values()), return_exceptions=True)

    def _update_informers(self) -> None:
        wanted = {
            key: resource
            for key, resource in (self._preferred(()) if self._handlers else {}).items()
            if WATCHED_VERBS.issubset(resource.verbs)
        }
        for key, informer in list(self._informers.items()):
            resource = wanted.get(key)
            if resource is None or resource.storage_version != informer.resource.storage_version:
                informer.task.cancel()
                del self._informers[key]
            elif (key.group, resource.storage_version) not in self._unavailable:
                informer.retry_now()
        for key, resource in wanted.items():
            if key not in self._informers:
                self._informers[key] = _AggregatedInformer(self.server, resource, self._handlers)


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


class _AggregatedInformer:
    """The objects of one resource; a `ReflectorHandler`."""

    def __init__(self, server: APIServer, resource: Resource, handlers: list[Handler]) -> None:
        from kubewright.cache.reflector import Reflector

        self.resource = resource
        self._handlers = handlers
        self._metadata: dict[Key, Metadata] = {}
        self._listed: set[Key] = set()
        source = _MetadataListWatch(server, resource)
        self._reflector = Reflector(str(resource.group_resource), source, self, stream_initial_events=False)
        self.task = run_forever(self._reflector.run, name=f"informer {resource.group_resource}")

    def retry_now(self) -> None:
        """Retry a failed list or watch now."""
        if self._reflector.last_error is not None:
            self._reflector.retry_now()

    def replay(self, handler: Handler) -> None:
        """Call a new handler for the known objects."""
        for key, metadata in list(self._metadata.items()):
            self._call(handler, self._event(key, metadata, None, initial=True))

    def begin(self) -> None:
        self._listed.clear()

    def initial(self, raw: bytes, header: ObjectHeader) -> None:
        self._listed.add(self._put(raw, initial=True))

    def replace(self, resource_version: str) -> bool:
        for key in [key for key in self._metadata if key not in self._listed]:
            self._delete(key)
        self._listed.clear()
        return True

    def event(self, event: RawEvent) -> None:
        if event.type == "DELETED":
            metadata = _decode_metadata(event.raw)
            self._delete((metadata.namespace, metadata.name))
        else:
            self._put(event.raw)

    def progress(self, resource_version: str) -> None:
        pass

    def _put(self, raw: bytes, *, initial: bool = False) -> Key:
        metadata = _decode_metadata(raw)
        key = (metadata.namespace, metadata.name)
        known = self._metadata.get(key)
        self._metadata[key] = metadata
        if known != metadata:
            self._emit(self._event(key, metadata, known, initial=initial))
        return key

    def _delete(self, key: Key) -> None:
        known = self._metadata.pop(key, None)
        if known is not None:
            self._emit(ResourceEvent(self.resource, key, known, known, new=None, old=None))

    def _event(self, key: Key, metadata: Metadata, old: Metadata | None, *, initial: bool) -> ResourceEvent:
        return ResourceEvent(self.resource, key, metadata, old, new=b"", old=None, initial=initial)

    def _emit(self, event: ResourceEvent) -> None:
        for handler in list(self._handlers):
            self._call(handler, event)

    def _call(self, handler: Handler, event: ResourceEvent) -> None:
        try:
            handler(event)
        except Exception:
            logger.exception(
                "event handler failed",
                extra={"resource": str(self.resource.group_resource), "object": "/".join(event.key)},
            )


class _MetadataListWatch:
    """Lists and watches of one resource through the aggregator; a `ListerWatcher`."""

    def __init__(self, server: APIServer, resource: Resource) -> None:
        from kubewright.apiserver.in_process import InProcessTransport

        self._transport = InProcessTransport(server, USER, {"User-Agent": "kube-controller-manager"})
        self._path = f"/apis/{resource.group}/{resource.storage_version}/{resource.plural}"

    async def list(self, *, limit: int, continue_: str) -> RawPage:
        from urllib.parse import urlencode

        from kubewright.client.listwatch.raw import read_page

        query = {"limit": str(limit)} if limit else {}
        if continue_:
            query["continue"] = continue_
        response = await self._transport.send(
            "GET", self._path, urlencode(query), {"Accept": METADATA_LIST}, timeout=60.0
        )
        if response.status >= 400:
            raise error_of(response.status, response.body)
        return read_page(response.body)

    async def watch(
        self, *, resource_version: str, initial_events: bool, timeout_seconds: int, idle_timeout: float
    ) -> RawWatch:
        from urllib.parse import urlencode

        from kubewright.client.listwatch.raw import RawWatch

        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_seconds)}
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if resource_version:
            query["resourceVersion"] = resource_version
        stream = await self._transport.stream(
            "GET", self._path, urlencode(query), {"Accept": METADATA}, idle_timeout=idle_timeout
        )
        if stream.status >= 400:
            body = b"".join([chunk async for chunk in stream])
            raise error_of(stream.status, body)
        return RawWatch(stream, resource_version)


__all__ = ["AggregatedInformers"]
