"""The garbage collector: deletes objects whose owners are all deleted.

It maintains a graph of all owner references and processes an object when its owners change. Decisions are
made from storage, never from the graph:

- an owner that exists and is not in foreground deletion is *solid*, one that does not exist (or has another
  uid) is *dangling*, one that waits for its dependents is *waiting*;
- an object with a solid owner stays, and its references to other owners are removed;
- an object without is deleted: in the foreground if an owner waits and it has dependents itself, otherwise
  according to its own finalizers, by default in the background.

Deletions carry the uid and resourceVersion of the decision as preconditions. An object that was changed
meanwhile is processed again. An owner whose kind is not served does not count as missing unless its deletion
was observed (a definition is deleted right after its last object). An owner that was never observed counts
as missing only after a delay, because the client that wrote the reference may be about to create the owner.

Objects of extension API servers are part of the graph. They are read and deleted through the aggregator;
while their server is unavailable, decisions that depend on them are retried.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Set
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.meta import Preconditions
from kubewright.api.values.times import format_time
from kubewright.cache.stores.object_metadata import Metadata, OwnerReference, metadata_of, metadata_of_object
from kubewright.client.patches import merge_patch
from kubewright.controlplane.in_process_clients import controller_client

from . import Component, new_controller
from .owner_graph import FOREGROUND, ORPHAN, Node, OwnerGraph, Step
from .source import all_resources_source

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.client.arguments import Propagation
    from kubewright.client.discovery.api_resource import APIResource
    from kubewright.controlplane.aggregation.informers import AggregatedInformers
    from kubewright.controlplane.informers import Informers

IGNORED = frozenset((("", "events"), ("events.k8s.io", "events")))
"""Resources without owners and dependents."""

VIRTUAL_OWNER_DELAY = 0.25
"""Seconds until an owner that was never observed counts as missing."""

MAX_DELETED = 500
"""How many observed deletions are remembered."""


class UnknownKind(Exception):
    """The kind of an owner is not served."""


class _NamespacedOwner(Exception):
    """A cluster-scoped object refers to a namespaced owner, which cannot exist."""


class GarbageCollector(Component):
    """Deletes dependents of deleted owners; requests are uids."""

    def __init__(
        self, server: APIServer, informers: Informers, *, aggregated: AggregatedInformers | None = None
    ) -> None:
        self.server = server
        self.graph = OwnerGraph()
        self.aggregated = aggregated
        self.client = controller_client(server, "generic-garbage-collector")
        self._deletions = new_controller("garbage-collector", self._reconcile, workers=4)
        self._orphanings = new_controller("garbage-collector-orphans", self._orphan_dependents, workers=4)
        self._deletions.watch(all_resources_source(informers, self._object_changed))
        if aggregated is not None:
            self._deletions.watch(all_resources_source(aggregated, self._object_changed))
            aggregated.add_resource_callback(self._check_resources)
        self.controllers = (self._orphanings, self._deletions)
        self._unknown_kind: set[str] = set()
        """Objects with an owner of a kind that is not served."""
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._pending: set[str] = set()
        """Objects that wait for an owner to be created."""
        self._none_pending = asyncio.Event()
        self._none_pending.set()
        informers.add_resource_callback(self._resources_changed)

    @property
    def has_pending_checks(self) -> bool:
        """Whether objects wait for an owner that was not observed yet."""
        return bool(self._pending)

    async def wait_for_pending_checks(self) -> None:
        """Wait until no object does."""
        await self._none_pending.wait()

    def _object_changed(self, resource: Resource, change: ObjectChange) -> Iterable[str]:
        metadata, old = change.entry.metadata, change.old
        if (resource.group, resource.plural) not in IGNORED:
            if change.type == "DELETED":
                self._remove(metadata.uid)
            else:
                if old is not None and old.uid != metadata.uid:
                    self._remove(old.uid)
                self._deleted.pop(metadata.uid, None)  # restored from a backup or the history
                self._enqueue(self.graph.put(resource, metadata, change.namespace))
        return ()

    def _remove(self, uid: str) -> None:
        self._deleted[uid] = None
        if len(self._deleted) > MAX_DELETED:
            self._deleted.popitem(last=False)
        self._enqueue(self.graph.remove(uid))

    def _enqueue(self, step: Step) -> None:
        deletions, orphanings = self._deletions.queue, self._orphanings.queue
        assert deletions is not None
        assert orphanings is not None
        for dependent, reference in step.mismatched:
            owner = self.graph.nodes[reference.uid]
            if owner.namespace and owner.namespace != dependent.namespace:
                deletions.add(f"report/{dependent.uid}/{reference.uid}")
        for uid in step.delete:
            deletions.add(uid)
        for uid in step.wait:
            self._pending.add(uid)
            self._none_pending.clear()
            deletions.add(uid, after=VIRTUAL_OWNER_DELAY)
        for uid in step.orphan:
            orphanings.add(uid)

    def _resources_changed(self, resources: Set[GroupResource]) -> None:
        self._check_resources(removed=any(self.server.store(*resource) is None for resource in resources))

    def _check_resources(self, removed: bool = True) -> None:
        queue = self._deletions.queue
        if queue is None:
            return
        if removed:
            for uid in [node.uid for node in self.graph.nodes.values() if not self._is_served(node)]:
                self._enqueue(self.graph.remove(uid))  # listed again if its resource is served again
        waiting, self._unknown_kind = self._unknown_kind, set()
        for uid in waiting:
            queue.add(uid)

    async def _reconcile(self, uid: str) -> None:
        try:
            if uid.startswith("report/"):
                _, dependent_uid, owner_uid = uid.split("/")
                await self._report(dependent_uid, owner_uid)
            else:
                await self._delete_without_owner(uid)
        finally:
            self._pending.discard(uid)
            if not self._pending:
                self._none_pending.set()

    async def _delete_without_owner(self, uid: str) -> None:
        """Delete one object if it has owner references and none of its owners exists."""
        node = self.graph.nodes.get(uid)
        if node is None:
            return
        if not self._is_served(node):
            return
        metadata = await self._read(node.resource, node.namespace, node.name)
        if metadata is None or metadata.uid != uid:
            self._remove(uid)
            return
        if node.deleting_dependents:
            await self._finish_foreground(node)
            return
        if metadata.deletion_timestamp is not None:
            return
        references = metadata.owner_references or []
        if not references:
            return
        try:
            solid, others, waiting = await self._classify(node, references)
        except UnknownKind:
            self._unknown_kind.add(uid)
            return
        except _NamespacedOwner:
            return
        if solid:
            if others:
                await self._remove_owners(node, {reference.uid for reference in others})
            return
        revision = metadata.revision
        dependents = self.graph.dependents(uid)
        if waiting and dependents:
            if any(dependent.deleting_dependents for dependent in dependents):
                await self._unblock(node)
                revision = 0
            await self._delete(node, "Foreground", revision)
            return
        finalizers = metadata.finalizers or ()
        policy: Propagation = (
            "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        )
        await self._delete(node, policy, revision)

    def _is_served(self, node: Node) -> bool:
        resource = node.resource
        if self.server.store(resource.group, resource.plural) is not None:
            return True
        return self.aggregated is not None and self.aggregated.serves(resource)

    def _address(self, resource: Resource) -> GroupResource | APIResource:
        """Return how the client addresses a resource: stored ones by name, in their current version."""
        stored = self.server.store(resource.group, resource.plural) is not None
        return resource.group_resource if stored else resource.api_resource()

    async def _read(self, resource: Resource, namespace: str, name: str) -> Metadata | None:
        store = self.server.store(resource.group, resource.plural)
        if store is not None:
            item = await store.storage.get(store.key(namespace, name))
            return metadata_of(item.value, item.mod_revision) if item is not None else None
        try:
            found = await self.client.get(resource.api_resource(), name, namespace=namespace)
            return metadata_of_object(found.raw)
        except NotFound:
            return None

    async def _classify(
        self, node: Node, references: list[OwnerReference]
    ) -> tuple[list[OwnerReference], list[OwnerReference], list[OwnerReference]]:
        """Return the references to solid owners, to all others, and among these to waiting ones."""
        solid, others, waiting = [], [], []
        for reference in references:
            owner = await self._owner(node, reference)
            if owner is None or owner.uid != reference.uid:
                others.append(reference)
            elif owner.deletion_timestamp is not None and FOREGROUND in (owner.finalizers or ()):
                others.append(reference)
                waiting.append(reference)
            else:
                solid.append(reference)
        return solid, others, waiting

    async def _owner(self, node: Node, reference: OwnerReference) -> Metadata | None:
        if reference.uid in self._deleted:
            return None
        group, _, version = reference.api_version.rpartition("/")
        for store in self.server.stores:
            resource = store.resource
            if resource.kind == reference.kind and resource.group == group:
                served = resource.version(version)
                if served is None or not served.served:
                    continue
                if resource.namespaced and not node.namespace:
                    raise _NamespacedOwner
                return await self._read(
                    resource, node.namespace if resource.namespaced else "", reference.name
                )
        found = self.aggregated.find(group, version, reference.kind) if self.aggregated is not None else None
        if found is None:
            raise UnknownKind(reference.kind)
        if found.namespaced and not node.namespace:
            raise _NamespacedOwner
        return await self._read(found, node.namespace if found.namespaced else "", reference.name)

    async def _finish_foreground(self, node: Node) -> None:
        blocking = list(self.graph.blocking(node.uid))
        if not blocking:
            await self._remove_finalizer(node, FOREGROUND)
        for dependent in blocking:
            if not dependent.deleting_dependents and self._deletions.queue is not None:
                self._deletions.queue.add(dependent.uid)

    async def _orphan_dependents(self, uid: str) -> None:
        """Remove an owner from its dependents, then its `orphan` finalizer."""
        node = self.graph.nodes.get(uid)
        if node is None or not node.orphaning:
            return
        for dependent in self.graph.dependents(uid):
            await self._remove_owners(dependent, {uid})
        await self._remove_finalizer(node, ORPHAN)

    async def _patch(self, node: Node, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        """Change the metadata of an object, with its uid and resourceVersion as preconditions."""
        resource = self._address(node.resource)
        try:
            current = (await self.client.get(resource, node.name, namespace=node.namespace))["metadata"]
            patch = change(current) if current.get("uid") == node.uid else None
            if patch is not None:
                patch |= {"uid": node.uid, "resourceVersion": current["resourceVersion"]}
                body = merge_patch({"metadata": patch})
                await self.client.patch(resource, node.name, body, namespace=node.namespace)
        except NotFound:
            return

    async def _remove_owners(self, node: Node, uids: set[str]) -> None:
        def change(current: dict[str, Any]) -> dict[str, Any] | None:
            owners = current.get("ownerReferences") or []
            remaining = [owner for owner in owners if owner.get("uid") not in uids]
            return {"ownerReferences": remaining or None} if len(remaining) != len(owners) else None

        await self._patch(node, change)

    async def _unblock(self, node: Node) -> None:
        def change(current: dict[str, Any]) -> dict[str, Any] | None:
            owners = current.get("ownerReferences") or []
            if not any(owner.get("blockOwnerDeletion") for owner in owners):
                return None
            return {"ownerReferences": [{**owner, "blockOwnerDeletion": False} for owner in owners]}

        await self._patch(node, change)

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        def change(current: dict[str, Any]) -> dict[str, Any] | None:
            finalizers = current.get("finalizers") or []
            if finalizer not in finalizers:
                return None
            return {"finalizers": [each for each in finalizers if each != finalizer] or None}

        await self._patch(node, change)

    async def _delete(self, node: Node, policy: Propagation, revision: int) -> None:
        preconditions = Preconditions(uid=node.uid, resource_version=str(revision) if revision else None)
        try:
            await self.client.delete(
                self._address(node.resource),
                node.name,
                namespace=node.namespace,
                propagation=policy,
                preconditions=preconditions,
            )
        except NotFound:
            self._remove(node.uid)

    async def _report(self, dependent_uid: str, owner_uid: str) -> None:
        """Record an event for an object whose owner is in another namespace."""
        dependent, owner = self.graph.nodes.get(dependent_uid), self.graph.nodes.get(owner_uid)
        if dependent is None or owner is None:
            return
        for reference in dependent.owners:
            if reference.uid == owner_uid:
                break
        else:
            return
        resource = dependent.resource
        version = resource.storage_version
        now = format_time(datetime.now(UTC))
        namespace = dependent.namespace or "default"
        owner_text = (
            f"[{reference.api_version}/{reference.kind}, namespace: {dependent.namespace}, "
            f"name: {reference.name}, uid: {reference.uid}]"
        )
        involved = {
            "apiVersion": f"{resource.group}/{version}" if resource.group else version,
            "kind": resource.kind,
            "name": dependent.name,
            "uid": dependent.uid,
        }
        if dependent.namespace:
            involved["namespace"] = dependent.namespace
        try:
            await self.client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": f"{dependent.name}.{time.time_ns():x}", "namespace": namespace},
                    "involvedObject": involved,
                    "reason": "OwnerRefInvalidNamespace",
                    "message": f'ownerRef {owner_text} does not exist in namespace "{dependent.namespace}"',
                    "source": {"component": "garbage-collector-controller"},
                    "reportingComponent": "garbage-collector-controller",
                    "firstTimestamp": now,
                    "lastTimestamp": now,
                    "count": 1,
                    "type": "Warning",
                }
            )
        except APIError as error:
            if error.status_code < 500:
                return
            raise
