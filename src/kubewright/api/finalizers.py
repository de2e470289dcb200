"""Finalizers: names in the metadata of an object that delay its removal until they are removed.

Add a finalizer before creating anything outside the cluster, and remove it after the cleanup. API servers
reject new finalizers while an object is being deleted; `add_finalizer` raises an error then.
"""

from __future__ import annotations

from typing import Protocol

from .meta import ObjectMeta


class HasMetadata(Protocol):
    """An object with metadata: typed, partial or unstructured."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""


class FinalizerError(ValueError):
    """A finalizer cannot be added because the object is being deleted."""


def has_finalizer(obj: HasMetadata, name: str) -> bool:
    """Return whether the object has the finalizer."""
    return name in (obj.metadata.finalizers or ())


def is_deleting(obj: HasMetadata) -> bool:
    """Return whether deletion of the object was requested; it is removed when it has no finalizers."""
    return obj.metadata.deletion_timestamp is not None


def add_finalizer(obj: HasMetadata, name: str) -> bool:
    """Add the finalizer; return whether it was missing."""
    if has_finalizer(obj, name):
        return False
    if is_deleting(obj):
        raise FinalizerError(
            f"cannot add finalizer {name!r}: {obj.metadata.name!r} is being deleted; "
            "check is_deleting() first"
        )
    obj.metadata.finalizers = [*(obj.metadata.finalizers or ()), name]
    return True


def remove_finalizer(obj: HasMetadata, name: str) -> bool:
    """Remove the finalizer; return whether the object had it."""
    if not has_finalizer(obj, name):
        return False
    obj.metadata.finalizers = [one for one in obj.metadata.finalizers or () if one != name] or None
    return True
