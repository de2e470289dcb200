"""The garbage collector: objects go when the last of their owners is gone.

It keeps a graph of all owner references and looks at an object when something about its owners changes.
What it decides is never taken from the graph, only from what is stored at that moment:

- an owner that exists and is not being deleted in the foreground is *solid*, one that does not exist (or has
  another uid) is *dangling*, one that waits for its dependents is *waiting*;
- with a solid owner an object stays, and references to others are removed from it;
- without, it is deleted: in the foreground if an owner waits and it has dependents itself, otherwise as its
  own finalizers say, else in the background.

Deletions carry the uid and version that the decision was made for. An object that was changed meanwhile is
looked at again. Owners of a kind that is not served are not taken for missing unless they were seen to go (a
definition goes right after its last object), and an owner that was never seen is given a moment to come,
because who writes a reference may be about to create or correct the owner.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError, NotFound
from kubewright.api.times import format_time

from .changes import Changes, Metadata, ObjectChange, OwnerReference, metadata_of
from .loop import Loop
from .owner_graph import FOREGROUND, ORPHAN, Node, OwnerGraph, Step
from .requests import Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer

IGNORED = frozenset((("", "events"), ("events.k8s.io", "events")))
"""Resources that own nothing and are owned by nothing."""

PATIENCE = 0.25
"""Seconds until an owner that was never seen counts as missing."""

REMEMBERED = 500
"""How many objects that were seen to go are remembered as gone."""

RemoteOwner = Callable[[OwnerReference, str], Awaitable["Metadata | None"]]
"""Looks up an owner that another server keeps; raises `UnknownKind`."""


class UnknownKind(Exception):
    """An owner of a kind that is not served, at least not now."""


class _NamespacedOwner(Exception):
    """A cluster-scoped object that names a namespaced owner: no such owner can exist."""


class GarbageCollector:
    """Follows all objects and deletes what nobody owns any more."""

    def __init__(self, server: APIServer, changes: Changes, *, remote: RemoteOwner | None = None) -> None:
        self.server = server
        self.graph = OwnerGraph()
        self.remote = remote
        self.requests = Requests(server, controller_user("generic-garbage-collector"))
        self.deletions: Loop[str] = Loop("garbage collector", self._attempt, workers=4)
        self.orphanings: Loop[str] = Loop("garbage collector (orphans)", self._orphan, workers=4)
        self.loops = (self.deletions, self.orphanings)
        self._parked: set[str] = set()
        self._gone: OrderedDict[str, None] = OrderedDict()
        changes.follow_all(self._changed)
        changes.on_kinds(self._kinds_changed)
        changes.on_lost(self._look_at_everything)

    def _changed(self, change: ObjectChange) -> None:
        resource = change.store.resource
        if (resource.group, resource.plural) in IGNORED:
            return
        metadata = change.metadata
        if change.type == "DELETED":
            self._remove(metadata.uid)
            return
        if change.old is not None and change.type == "MODIFIED":
            before = metadata_of(change.old)
            if before.uid != metadata.uid:
                self._remove(before.uid)
        self._take(self.graph.put(resource, metadata, change.namespace, change.name))

    def _remove(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        self._take(self.graph.remove(uid))

    def _take(self, step: Step) -> None:
        for dependent, reference in step.mismatched:
            owner = self.graph.nodes[reference.uid]
            if owner.namespace and owner.namespace != dependent.namespace:
                self.deletions.add(f"report/{dependent.uid}/{reference.uid}")
        for uid in step.delete:
            self.deletions.add(uid)
        for uid in step.wait:
            self.deletions.add_after(uid, PATIENCE, expected=True)
        for uid in step.orphan:
            self.orphanings.add(uid)

    def _kinds_changed(self) -> None:
        for uid in [node.uid for node in self.graph.nodes.values() if self._store(node) is None]:
            self._take(self.graph.remove(uid))  # it comes again if its kind does
        parked, self._parked = self._parked, set()
        for uid in parked:
            self.deletions.add(uid)

    def _look_at_everything(self) -> None:
        for uid in self.graph.uids():
            self.deletions.add(uid)

    async def _attempt(self, uid: str) -> None:
        """Delete one object if nobody owns it any more."""
        if uid.startswith("report/"):
            _, dependent_uid, owner_uid = uid.split("/")
            await self._report(dependent_uid, owner_uid)
            return
        node = self.graph.nodes.get(uid)
        if node is None:
            return
        store = self._store(node)
        if store is None:
            return
        found = await self._read(store, node.namespace, node.name)
        if found is None or found[0].uid != uid:
            self._remove(uid)
            return
        metadata, version = found
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
            self._parked.add(uid)
            return
        except _NamespacedOwner:
            return
        if solid:
            if others:
                await self._drop_owners(node, {reference.uid for reference in others})
            return
        dependents = self.graph.dependents(uid)
        if waiting and dependents:
            if any(dependent.deleting_dependents for dependent in dependents):
                await self._unblock(node)
                version = 0
            await self._delete(node, "Foreground", version)
            return
        finalizers = metadata.finalizers or ()
        policy = (
            "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        )
        await self._delete(node, policy, version)

    def _store(self, node: Node) -> ResourceStore | None:
        return self.server.store(node.group, node.plural)

    async def _read(self, store: ResourceStore, namespace: str, name: str) -> tuple[Metadata, int] | None:
        item = await store.storage.get(store.key(namespace, name))
        return (metadata_of(item.value), item.mod_revision) if item is not None else None

    async def _classify(
        self, node: Node, references: list[OwnerReference]
    ) -> tuple[list[OwnerReference], list[OwnerReference], list[OwnerReference]]:
        """The references to solid owners, those to all others, and among them those to waiting ones."""
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
        if reference.uid in self._gone:
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
                found = await self._read(store, node.namespace if resource.namespaced else "", reference.name)
                return found[0] if found is not None else None
        if self.remote is not None:
            return await self.remote(reference, node.namespace)
        raise UnknownKind(reference.kind)

    async def _finish_foreground(self, node: Node) -> None:
        blocking = list(self.graph.blocking(node.uid))
        if not blocking:
            await self._remove_finalizer(node, FOREGROUND)
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self.deletions.add(dependent.uid)

    async def _orphan(self, uid: str) -> None:
        """Make the dependents of an object forget it, then let it go."""
        node = self.graph.nodes.get(uid)
        if node is None or not node.orphaning:
            return
        for dependent in self.graph.dependents(uid):
            await self._drop_owners(dependent, {uid})
        await self._remove_finalizer(node, ORPHAN)

    async def _change(self, node: Node, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        """Change the metadata of an object, on the condition that it is still the same object and version."""
        store = self._store(node)
        if store is None:
            return
        path = resource_path(store.resource, node.namespace, node.name)
        try:
            live = (await self.requests.get(path))["metadata"]
            patch = change(live) if live.get("uid") == node.uid else None
            if patch is not None:
                patch |= {"uid": node.uid, "resourceVersion": live["resourceVersion"]}
                await self.requests.merge(path, {"metadata": patch})
        except NotFound:
            return

    async def _drop_owners(self, node: Node, uids: set[str]) -> None:
        def change(live: dict[str, Any]) -> dict[str, Any] | None:
            owners = live.get("ownerReferences") or []
            kept = [owner for owner in owners if owner.get("uid") not in uids]
            return {"ownerReferences": kept or None} if len(kept) != len(owners) else None

        await self._change(node, change)

    async def _unblock(self, node: Node) -> None:
        def change(live: dict[str, Any]) -> dict[str, Any] | None:
            owners = live.get("ownerReferences") or []
            if not any(owner.get("blockOwnerDeletion") for owner in owners):
                return None
            return {"ownerReferences": [{**owner, "blockOwnerDeletion": False} for owner in owners]}

        await self._change(node, change)

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        def change(live: dict[str, Any]) -> dict[str, Any] | None:
            finalizers = live.get("finalizers") or []
            if finalizer not in finalizers:
                return None
            return {"finalizers": [each for each in finalizers if each != finalizer] or None}

        await self._change(node, change)

    async def _delete(self, node: Node, policy: str, version: int) -> None:
        store = self._store(node)
        if store is None:
            return
        try:
            await self.requests.delete(
                resource_path(store.resource, node.namespace, node.name),
                propagation=policy,
                uid=node.uid,
                resource_version=str(version) if version else "",
            )
        except NotFound:
            self._remove(node.uid)

    async def _report(self, dependent_uid: str, owner_uid: str) -> None:
        """Tell that an object names an owner in a namespace where it cannot be."""
        dependent, owner = self.graph.nodes.get(dependent_uid), self.graph.nodes.get(owner_uid)
        events = self.server.store("", "events")
        store = self._store(dependent) if dependent is not None else None
        if dependent is None or owner is None or events is None or store is None:
            return
        for reference in dependent.owners:
            if reference.uid == owner_uid:
                break
        else:
            return
        resource = store.resource
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
            await self.requests.create(
                resource_path(events.resource, namespace, version="v1"),
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
                },
            )
        except APIError as error:
            if error.status_code < 500:
                return
            raise
