"""The tree of owners and owned objects around one object.

Owners are found by the uid of owner references, up to the roots; owned objects by the index, down to the
leaves. An owner that does not exist is a node as well, because it is often the cause of a problem. So is
one that the user cannot read, or of which the index does not know whether it exists: these are states of
their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kubewright.api.gvk import GroupVersion

from .object_index import ObjectIndex
from .object_records import ObjectRecord, Owner

MAX_NODES: Final = 1000
_ABSENCES: Final = {
    "missing": "the owner does not exist",
    "unreadable": "the user of the dashboard is not allowed to read the owner",
    "unknown": "whether the owner exists is unknown",
}


def describe_tree(index: ObjectIndex, wanted: Sequence[str], *, whole: bool = False) -> dict[str, Any]:
    """Return the tree around an object; with `whole`, the trees of its topmost owners.

    `wanted` is group, kind, namespace and name.
    """
    group, kind, namespace, name = wanted
    root = index.find(group, kind, namespace, name)
    if root is None:
        state = index.absence(group, kind, namespace)
        return {"root": None, "state": state, "truncated": False, "synced": index.synced, "nodes": []}
    nodes: dict[str, dict[str, Any]] = {}
    above = _owners(index, root, nodes)
    tops = [each for each in above if not any(owner.uid in index.by_uid for owner in each.owners)]
    complete = _add_owned(index, (tops or [root]) if whole else [root], nodes)
    return {
        "root": root.uid,
        "state": "exists",
        "truncated": not complete,
        "synced": index.synced,
        "nodes": list(nodes.values()),
    }


def _owners(index: ObjectIndex, root: ObjectRecord, nodes: dict[str, dict[str, Any]]) -> list[ObjectRecord]:
    """Add an object and all of its owners to the nodes; return those that exist."""
    found: dict[str, ObjectRecord] = {}
    waiting = deque([root])
    while waiting and len(nodes) < MAX_NODES:
        record = waiting.popleft()
        if record.uid in found:
            continue
        found[record.uid] = record
        nodes[record.uid] = record.node()
        for owner in record.owners:
            existing = index.by_uid.get(owner.uid)
            if existing is None:
                nodes.setdefault(owner.uid, _missing(index, owner, record.namespace))
            else:
                waiting.append(existing)
    return list(found.values())


def _add_owned(index: ObjectIndex, roots: Iterable[ObjectRecord], nodes: dict[str, dict[str, Any]]) -> bool:
    """Add everything that is owned, level by level; return whether it is complete."""
    waiting = deque(roots)
    visited: set[str] = set()
    while waiting:
        record = waiting.popleft()
        if record.uid in visited:
            continue
        visited.add(record.uid)
        if record.uid not in nodes:
            if len(nodes) >= MAX_NODES:
                return False
            nodes[record.uid] = record.node()
        waiting.extend(index.children(record.uid))
    return True


def _missing(index: ObjectIndex, owner: Owner, namespace: str) -> dict[str, Any]:
    group, version = GroupVersion.parse(owner.api_version)
    kind = index.kind_of(group, owner.kind)
    namespaced = kind.namespaced if kind is not None else bool(namespace)
    owner_namespace = namespace if namespaced else ""
    state = index.absence(group, owner.kind, owner_namespace)
    return {
        "id": owner.uid,
        "apiVersion": owner.api_version,
        "group": group,
        "version": version,
        "kind": owner.kind,
        "resource": kind.resource.plural if kind is not None else "",
        "namespaced": namespaced,
        "namespace": owner_namespace,
        "name": owner.name,
        "health": "Unknown",
        "message": _ABSENCES[state],
        "created": 0,
        "since": None,
        "state": state,
        "badges": [],
        "owners": [],
    }
