"""The owner graph of a state as trees: objects without an existing owner, and below them their children.

Two graphs are compared by kind, namespace and name: an object that exists in only one of them, that was
deleted and created again, or that has another spec or other owners, is marked.
"""

from __future__ import annotations

from typing import Any, Literal

from kubewright.explore.state import ClusterState, StateObject

from .model import OwnerNode

MAX_CHILDREN = 12
"""Number of children of an object that are listed."""


def owner_graph(
    state: ClusterState,
    *,
    compared_with: ClusterState | None = None,
    is_after: bool = True,
    is_same_run: bool = True,
) -> list[OwnerNode]:
    """Return the objects of a state as trees.

    With `compared_with`, differences to that state are marked; `is_after` is whether it is the earlier one,
    and `is_same_run` whether UIDs can be compared.
    """
    other = compared_with.objects if compared_with is not None else None
    shown: set[str] = set()

    def node(obj: StateObject) -> OwnerNode:
        shown.add(obj.storage_key)
        children = [each for each in state.children_of(obj) if each.storage_key not in shown]
        shown.update(each.storage_key for each in children[MAX_CHILDREN:])
        change, note = _difference(obj, other, is_after=is_after, is_same_run=is_same_run)
        notes = [each for each in (note, _condition_of(obj, state)) if each]
        return OwnerNode(text=str(obj), change=change, note=", ".join(notes), children=nodes(children))

    def nodes(objects: list[StateObject]) -> list[OwnerNode]:
        result = [node(each) for each in objects[:MAX_CHILDREN]]
        if len(objects) > MAX_CHILDREN:
            result.append(OwnerNode(text=f"and {len(objects) - MAX_CHILDREN} more"))
        return result

    return nodes([root for root in state.roots() if root.storage_key not in shown])


def _difference(
    obj: StateObject, others: Any, *, is_after: bool, is_same_run: bool
) -> tuple[Literal["", "added", "removed", "changed"], str]:
    if others is None:
        return "", ""
    other = others.get(obj.storage_key)
    if other is None:
        return ("added", "") if is_after else ("removed", "")
    if not is_after:
        return "", ""
    if is_same_run and other.uid != obj.uid:
        return "changed", "created again"
    parts = [name for name in ("spec", "data", "status") if other.data.get(name) != obj.data.get(name)]
    if is_same_run and other.owner_references != obj.owner_references:
        parts.append("owners")
    return ("changed", f"other {' and '.join(parts)}") if parts else ("", "")


def _condition_of(obj: StateObject, state: ClusterState) -> str:
    if obj.is_deleting:
        names = ", ".join(obj.finalizers)
        return f"being deleted, finalizers: {names}" if names else "being deleted"
    if obj.owner_references and not state.owners_of(obj):
        names = ", ".join(f"{each.get('kind')} {each.get('name')}" for each in obj.owner_references)
        return f"orphan: owner {names} does not exist"
    return ""
