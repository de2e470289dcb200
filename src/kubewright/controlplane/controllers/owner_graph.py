"""The graph of owner references under garbage collection.

A node is an object, identified by its uid; an edge is an owner reference. An owner that has not been observed
is only a uid with dependents (a *virtual* owner): the collector finds out whether it exists. The graph does
no input or output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kubewright.cache.stores.object_metadata import Metadata, OwnerReference

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class Node:
    """One object: its place, its owners, and the progress of its deletion."""

    __slots__ = ("deleting", "deleting_dependents", "metadata", "namespace", "orphaning", "resource")

    def __init__(self, resource: Resource, metadata: Metadata, namespace: str) -> None:
        self.resource = resource
        self.metadata = metadata
        self.namespace = namespace
        self.deleting = False
        self.deleting_dependents = False
        """Foreground deletion: it waits until its dependents are deleted."""
        self.orphaning = False
        """It waits until its dependents do not refer to it any more."""

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return self.metadata.uid

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.metadata.name

    @property
    def owners(self) -> list[OwnerReference]:
        """The owner references of the object."""
        return self.metadata.owner_references or []

    def __repr__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"[{self.resource.group}/{self.resource.kind} {path} {self.uid}]"


class Step:
    """The nodes that a change of the graph makes it necessary to process."""

    __slots__ = ("delete", "mismatched", "orphan", "wait")

    def __init__(self) -> None:
        self.delete: list[str] = []
        self.orphan: list[str] = []
        self.wait: list[str] = []
        """Objects that refer to an owner that was not observed yet."""
        self.mismatched: list[tuple[Node, OwnerReference]] = []
        """Dependents whose reference has the uid of an owner, but another kind, name or namespace."""


class OwnerGraph:
    """Nodes by uid, and dependents by the uid of their owner."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def dependents(self, uid: str) -> list[Node]:
        """Return the objects that refer to `uid` as an owner."""
        return [self.nodes[each] for each in self._dependents.get(uid, ()) if each in self.nodes]

    def blocking(self, uid: str) -> Iterator[Node]:
        """Yield the dependents that block the deletion of `uid`."""
        for node in self.dependents(uid):
            if any(owner.uid == uid and owner.block_owner_deletion for owner in node.owners):
                yield node

    def put(self, resource: Resource, metadata: Metadata, namespace: str) -> Step:
        """Add or update an object."""
        step = Step()
        node = self.nodes.get(metadata.uid)
        before: list[OwnerReference] = []
        if node is None:
            node = self.nodes[metadata.uid] = Node(resource, metadata, namespace)
            # Dependents may have referred to it before it was observed, with another kind or name.
            for dependent in self.dependents(node.uid):
                self._check(step, dependent, node)
        else:
            before = node.owners
            node.resource, node.metadata = resource, metadata
        self._update_owners(step, node, before)
        self._progress(step, node, metadata)
        return step

    def _update_owners(self, step: Step, node: Node, owners_before: list[OwnerReference]) -> None:
        if not owners_before and not node.metadata.owner_references:
            return
        before = {owner.uid: owner for owner in owners_before}
        after = {owner.uid: owner for owner in node.owners}
        for uid, owner in before.items():
            now = after.get(uid)
            if now is None:
                dependents = self._dependents.get(uid)
                if dependents is not None:
                    dependents.pop(node.uid, None)
                    if not dependents:
                        del self._dependents[uid]
            if owner.block_owner_deletion and (now is None or not now.block_owner_deletion):
                self._wake(step, uid)
        for uid in after:
            if uid in before and before[uid] == after[uid]:
                continue
            self._dependents.setdefault(uid, {})[node.uid] = None
            observed = self.nodes.get(uid)
            if observed is None:
                step.wait.append(node.uid)
            elif observed.deleting_dependents:
                step.delete.append(node.uid)
            else:
                self._check(step, node, observed)

    def _check(self, step: Step, dependent: Node, owner: Node) -> None:
        for reference in dependent.owners:
            if reference.uid == owner.uid and not describes(reference, dependent, owner):
                step.mismatched.append((dependent, reference))
                step.delete.append(dependent.uid)

    def _wake(self, step: Step, uid: str) -> None:
        owner = self.nodes.get(uid)
        if owner is not None and owner.deleting_dependents:
            step.delete.append(uid)

    def _progress(self, step: Step, node: Node, metadata: Metadata) -> None:
        finalizers = metadata.finalizers or ()
        node.deleting = metadata.deletion_timestamp is not None
        orphaning = node.deleting and ORPHAN in finalizers
        if orphaning and not node.orphaning:
            step.orphan.append(node.uid)
        node.orphaning = orphaning
        foreground = node.deleting and FOREGROUND in finalizers
        if foreground and not node.deleting_dependents:
            step.delete += [dependent.uid for dependent in self.dependents(node.uid)]
            step.delete.append(node.uid)
        node.deleting_dependents = foreground

    def remove(self, uid: str) -> Step:
        """Remove a deleted object: its dependents lose an owner, its owners may have waited for it."""
        step = Step()
        node = self.nodes.pop(uid, None)
        if node is not None:
            for owner in node.owners:
                dependents = self._dependents.get(owner.uid)
                if dependents is not None:
                    dependents.pop(uid, None)
                    if not dependents:
                        del self._dependents[owner.uid]
                self._wake(step, owner.uid)
        step.delete += [dependent.uid for dependent in self.dependents(uid)]
        return step

    def uids(self) -> Iterable[str]:
        """Return the uids of all objects."""
        return list(self.nodes)


def describes(reference: OwnerReference, dependent: Node, owner: Node) -> bool:
    """Whether a reference has the kind, name and namespace of the owner."""
    group = reference.api_version.rpartition("/")[0]
    return (
        group == owner.resource.group
        and reference.kind == owner.resource.kind
        and reference.name == owner.name
        and (not owner.namespace or owner.namespace == dependent.namespace)
    )
