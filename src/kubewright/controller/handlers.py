"""From a change to the requests it makes necessary.

A handler is a function from a `Change` to requests. `for_object` asks for the object itself, `for_owner` for
the owner of the object (both the old and the new one, if it moved); any function of yours will do as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from kubewright.api.gvk import GroupKind, GroupVersion, GroupVersionKind
from kubewright.cache.store import Change, Entry

from .request import Request

R = TypeVar("R", bound=Hashable)
Handler = Callable[[Change], Iterable[R]]


def for_object(change: Change) -> Iterable[Request]:
    """The object itself."""
    return (Request(*change.key),)


def for_owner(
    owner: GroupVersionKind, *, controller_only: bool = True, namespaced: bool = True
) -> Handler[Request]:
    """The owners of that kind, in any version; only the one that is its controller, or all of them.

    `namespaced` says whether the owner's kind has namespaces: it then lives in the namespace of the object.
    """
    wanted = owner.group_kind

    def owners(entry: Entry, namespace: str) -> Iterable[Request]:
        for reference in entry.header().metadata.owner_references or ():
            if controller_only and not reference.controller:
                continue
            group, _ = GroupVersion.parse(reference.api_version)
            if GroupKind(group, reference.kind) == wanted:
                yield Request(namespace if namespaced else "", reference.name)

    def handler(change: Change) -> Iterable[Request]:
        found: dict[Request, None] = {}
        for entry in (change.old, change.new):
            if entry is not None:
                found.update(dict.fromkeys(owners(entry, change.key.namespace)))
        return found

    return handler
