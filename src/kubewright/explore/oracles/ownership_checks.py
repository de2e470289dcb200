"""Checks of owners, deletion and namespaces.

- `owners`: an owner reference names an object that exists, in the same namespace, with its kind and name
- `deleting-owner`: a child is not created again while its owner is being deleted
- `terminating`: nothing is created again and again in a namespace that is being deleted
- `finalizers`: a custom resource that is deleted does not exist any more when the operator is idle
- `adoption`: an object that a user created is not taken over and changed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.explore.state import is_of_user

if TYPE_CHECKING:
    from kubewright.explore.state import ClusterState, RequestRecord, StateObject

    from .history import RunHistory

MAX_REJECTED = 3
"""Creates in a terminating namespace after which they are reported; a race causes one."""


def invalid_owners(history: RunHistory) -> Iterator[str]:
    """Return owner references that the garbage collector cannot resolve."""
    seen: set[tuple[str, str]] = set()
    for change in history.changes:
        if change.write is None:
            continue
        for reference in change.object.owner_references:
            key = (change.object.uid, str(reference.get("uid")))
            if key in seen:
                continue
            seen.add(key)
            problem = _problem_of(change.object, reference, history)
            if problem:
                yield f"{change.object}: its owner reference {problem}; use ctx.own, which sets all of it"


def _problem_of(obj: StateObject, reference: dict[str, Any], history: RunHistory) -> str:
    name = f"{reference.get('kind')} {reference.get('name')}"
    owner = history.by_uid.get(str(reference.get("uid")))
    if owner is None:
        return f"to {name} has a UID that no object has had"
    if owner.namespace and owner.namespace != obj.namespace:
        return f"to {name} crosses namespaces: the owner is in {owner.namespace}"
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    if (group, reference.get("kind"), reference.get("name")) != (owner.key.group, owner.key.kind, owner.name):
        return f"has the UID of {owner}, and names {reference.get('apiVersion')} {name}"
    return ""


def created_while_deleting(history: RunHistory) -> Iterator[str]:
    """Return children that were created again although their owner was being deleted."""
    existed: set[tuple[str, str]] = set()
    for change in history.changes:
        obj = change.object
        if not obj.controller_uid:
            continue
        key = (obj.storage_key, obj.controller_uid)
        owner = change.state.by_uid(obj.controller_uid)
        is_created = change.before is None and change.write is not None and key in existed
        if is_created and owner is not None and owner.is_deleting:
            yield (
                f"{obj} was created again while its owner {owner} is being deleted; check the deletion "
                "timestamp first"
            )
            return
        existed.add(key)


def creates_in_terminating_namespaces(
    requests: Sequence[RequestRecord], state: ClusterState
) -> Iterator[str]:
    """Return objects that are created again and again in a namespace that is being deleted."""
    rejected = Counter(
        str(each)
        for each in requests
        if each.actor == "operator" and each.verb == "create" and each.code == 403
    )
    for each in requests:
        text = str(each)
        if rejected.get(text, 0) < MAX_REJECTED:
            continue
        namespace = next(
            (
                found
                for objects in (state.objects, state.baseline)
                for found in objects.values()
                if found.key.kind == "Namespace" and found.name == each.namespace
            ),
            None,
        )
        if namespace is not None and namespace.is_deleting:
            yield (
                f"`{text}` was rejected {rejected.pop(text)} times, because the namespace is terminating; "
                "stop when a namespace has a deletion timestamp"
            )


def remaining_finalizers(state: ClusterState, kinds: Collection[tuple[str, str]]) -> Iterator[str]:
    """Return custom resources that wait for a finalizer."""
    for obj in state:
        if obj.is_deleting and obj.finalizers and obj.key[:2] in kinds:
            yield (
                f"{obj} is still being deleted when the operator is idle (finalizers: "
                f"{', '.join(obj.finalizers)}); the finalizer must end, also if what it deletes does not "
                "exist"
            )


def adopted_objects(history: RunHistory) -> Iterator[str]:
    """Return objects of users that the operator has made its own, with another content."""
    seen: set[str] = set()
    for change in history.changes:
        obj, before = change.object, change.before
        if change.write is None or before is None or obj.uid in seen or not is_of_user(before):
            continue
        if obj.controller_uid and _content(obj) != _content(before):
            seen.add(obj.uid)
            yield (
                f"{obj} was created by a user, and the operator has overwritten it and become its owner; "
                "check the owner first, as ctx.ensure does"
            )


def _content(obj: StateObject) -> dict[str, Any]:
    return {name: value for name, value in obj.data.items() if name not in ("metadata", "status")}
