"""Who owns what: the graph under garbage collection.

A node is an object, known by its uid; an edge is an owner reference. An owner that has not been seen is
only a uid with dependents (a *virtual* owner): whether it exists is for the collector to find out. The
graph knows no server and does no input or output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .changes import Metadata, OwnerReference

if TYPE_CHECKING:
    from kubewright.apiserver.resource import Resource

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class Node:
    """One object: where it is, who owns it, and how far its deletion is."""

    __slots__ = (
        "deleting",
        "deleting_dependents",
        "group",
        "kind",
        "name",
        "namespace",
        "orphaning",
        "owners",
        "plural",
        "uid",
    )

    def __init__(self, resource: Resource, metadata: Metadata, namespace: str, name: str) -> None:
        self.group = resource.group
        self.plural = resource.plural
        self.kind = resource.kind
        self.uid = metadata.uid
        self.namespace = namespace
        self.name = name
        self.owners: list[OwnerReference] = []
        self.deleting = False
        self.deleting_dependents = False
        """It waits for its dependents to go (foreground deletion)."""
        self.orphaning = False
        """It waits for its dependents to forget it."""

    def __repr__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"[{self.group}/{self.kind} {where} {self.uid}]"


class Step:
    """What a change of the graph makes necessary: nodes to look at."""

    __slots__ = ("delete", "mismatched", "orphan", "wait")

    def __init__(self) -> None:
        self.delete: list[str] = []
        self.orphan: list[str] = []
        self.wait: list[str] = []
        """Objects that name an owner that was not seen yet."""
        self.mismatched: list[tuple[Node, OwnerReference]] = []
        """Dependents whose reference describes an existing owner wrongly."""


class OwnerGraph:
    """Nodes by uid, and dependents by the uid of their owner."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def dependents(self, uid: str) -> list[Node]:
        """The objects that name `uid` as an owner."""
        return [self.nodes[each] for each in self._dependents.get(uid, ()) if each in self.nodes]

    def blocking(self, uid: str) -> Iterator[Node]:
        """The dependents for which the deletion of `uid` has to wait."""
        for node in self.dependents(uid):
            if any(owner.uid == uid and owner.block_owner_deletion for owner in node.owners):
                yield node

    def put(self, resource: Resource, metadata: Metadata, namespace: str, name: str) -> Step:
        """Take in an object as it is now."""
        step = Step()
        node = self.nodes.get(metadata.uid)
        if node is None:
            node = self.nodes[metadata.uid] = Node(resource, metadata, namespace, name)
            # Some may have named it before it was seen, with other coordinates.
            for dependent in self.dependents(node.uid):
                self._check(step, dependent, node)
        self._own(step, node, metadata.owner_references or [])
        self._progress(step, node, metadata)
        return step

    def _own(self, step: Step, node: Node, owners: list[OwnerReference]) -> None:
        before = {owner.uid: owner for owner in node.owners}
        after = {owner.uid: owner for owner in owners}
        node.owners = owners
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
            seen = self.nodes.get(uid)
            if seen is None:
                step.wait.append(node.uid)
            elif seen.deleting_dependents:
                step.delete.append(node.uid)
            else:
                self._check(step, node, seen)

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
        """An object is gone: its dependents lose an owner, its owners may have waited for it."""
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
        """Every object that is known."""
        return list(self.nodes)


def describes(reference: OwnerReference, dependent: Node, owner: Node) -> bool:
    """Whether a reference names the kind, name and namespace that the owner really has."""
    group = reference.api_version.rpartition("/")[0]
    return (
        group == owner.group
        and reference.kind == owner.kind
        and reference.name == owner.name
        and (not owner.namespace or owner.namespace == dependent.namespace)
    )
