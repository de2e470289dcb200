"""Finalizers: names on an object that keep it from disappearing until each is taken off.

Put yours on before you make anything outside the cluster, take it off when that is cleaned up. A server
accepts new finalizers only while the object is not being deleted, so `add_finalizer` refuses as well.
"""

from __future__ import annotations

from typing import Protocol

from .meta import ObjectMeta


class HasMetadata(Protocol):
    """Any object: typed, partial or unstructured."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""


class FinalizerError(ValueError):
    """A finalizer that cannot be added any more."""


def has_finalizer(obj: HasMetadata, name: str) -> bool:
    """Whether the finalizer is on the object."""
    return name in (obj.metadata.finalizers or ())


def is_deleting(obj: HasMetadata) -> bool:
    """Whether the object is on its way out and only waits for its finalizers."""
    return obj.metadata.deletion_timestamp is not None


def add_finalizer(obj: HasMetadata, name: str) -> bool:
    """Put the finalizer on; tells whether it was missing."""
    if has_finalizer(obj, name):
        return False
    if is_deleting(obj):
        raise FinalizerError(
            f"cannot add finalizer {name!r}: {obj.metadata.name!r} is being deleted; "
            "look at is_deleting() first and clean up instead"
        )
    obj.metadata.finalizers = [*(obj.metadata.finalizers or ()), name]
    return True


def remove_finalizer(obj: HasMetadata, name: str) -> bool:
    """Take the finalizer off; tells whether it was there."""
    if not has_finalizer(obj, name):
        return False
    obj.metadata.finalizers = [one for one in obj.metadata.finalizers or () if one != name] or None
    return True
