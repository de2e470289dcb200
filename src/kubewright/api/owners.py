"""Owner references.

The garbage collector deletes an object when none of its owners exists. At most one owner is the *controller*,
which manages the object. An owner must be in the same namespace or cluster-scoped; other references raise an
error, because the garbage collector would delete the object.
"""

from __future__ import annotations

from typing import Any

from .finalizers import HasMetadata
from .gvk import GroupVersion, GroupVersionKind
from .meta import OwnerReference


class OwnerError(ValueError):
    """The owner is not allowed for this object."""


class AlreadyOwnedError(OwnerError):
    """The object already has another controller; `owner` is the reference to it."""

    def __init__(self, obj: HasMetadata, owner: OwnerReference) -> None:
        metadata = obj.metadata
        super().__init__(
            f"Object {metadata.namespace or ''}/{metadata.name or ''} is already owned by another "
            f"{owner.kind} controller {owner.name}"
        )
        self.owner = owner


def _group(reference: OwnerReference) -> str:
    return GroupVersion.parse(reference.api_version).group


def _same_object(one: OwnerReference, other: OwnerReference) -> bool:
    return one.name == other.name and one.kind == other.kind and _group(one) == _group(other)


def owner_reference(
    owner: HasMetadata, *, controller: bool | None = None, block_owner_deletion: bool | None = None
) -> OwnerReference:
    """Return a reference to `owner`, which must have a uid, that is, exist on a server."""
    gvk = _gvk_of(owner)
    metadata = owner.metadata
    if not metadata.name or not metadata.uid:
        raise OwnerError(f"{gvk.kind} {metadata.name or ''!r} has no uid; create or read it first")
    return OwnerReference(
        api_version=gvk.api_version,
        kind=gvk.kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=controller,
        block_owner_deletion=block_owner_deletion,
    )


def _gvk_of(obj: Any) -> GroupVersionKind:
    if getattr(obj, "kind", ""):
        return GroupVersionKind.from_api_version(obj.api_version, obj.kind)
    raise OwnerError(f"{type(obj).__name__} has no kind; declare it with @resource")


def _check_namespaces(owner: HasMetadata, obj: HasMetadata) -> None:
    owner_namespace, namespace = owner.metadata.namespace or "", obj.metadata.namespace or ""
    if not owner_namespace or owner_namespace == namespace:
        return
    if not namespace:
        raise OwnerError(
            "cluster-scoped resource must not have a namespace-scoped owner, "
            f"owner's namespace {owner_namespace}"
        )
    raise OwnerError(
        f"cross-namespace owner references are disallowed, owner's namespace {owner_namespace}, "
        f"obj's namespace {namespace}"
    )


def _put(obj: HasMetadata, reference: OwnerReference) -> None:
    references = list(obj.metadata.owner_references or ())
    for position, existing in enumerate(references):
        if _same_object(existing, reference):
            references[position] = reference
            break
    else:
        references.append(reference)
    obj.metadata.owner_references = references


def set_controller_reference(
    owner: HasMetadata, obj: HasMetadata, *, block_owner_deletion: bool = True
) -> None:
    """Make `owner` the controller of `obj`; raise `AlreadyOwnedError` if there is another controller."""
    _check_namespaces(owner, obj)
    reference = owner_reference(owner, controller=True, block_owner_deletion=block_owner_deletion)
    existing = controller_of(obj)
    if existing is not None and not _same_object(existing, reference):
        raise AlreadyOwnedError(obj, existing)
    _put(obj, reference)


def set_owner_reference(
    owner: HasMetadata, obj: HasMetadata, *, block_owner_deletion: bool | None = None
) -> None:
    """Make `owner` an owner of `obj`, but not its controller."""
    _check_namespaces(owner, obj)
    _put(obj, owner_reference(owner, block_owner_deletion=block_owner_deletion))


def controller_of(obj: HasMetadata) -> OwnerReference | None:
    """Return the reference to the controller, or `None`."""
    references: list[OwnerReference] = obj.metadata.owner_references or []
    return next((reference for reference in references if reference.controller), None)


def is_controlled_by(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Return whether `owner`, by uid, is the controller of `obj`."""
    reference = controller_of(obj)
    return reference is not None and reference.uid == owner.metadata.uid


def has_owner_reference(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Return whether `owner` is one of the owners of `obj`."""
    references: list[OwnerReference] = obj.metadata.owner_references or []
    return any(_refers_to(reference, owner) for reference in references)


def remove_owner_reference(obj: HasMetadata, owner: HasMetadata) -> bool:
    """Remove the reference to `owner`; return whether it existed."""
    references: list[OwnerReference] = obj.metadata.owner_references or []
    kept = [reference for reference in references if not _refers_to(reference, owner)]
    if len(kept) == len(references):
        return False
    obj.metadata.owner_references = kept or None
    return True


def _refers_to(reference: OwnerReference, owner: HasMetadata) -> bool:
    gvk = _gvk_of(owner)
    return (
        reference.name == owner.metadata.name
        and reference.kind == gvk.kind
        and _group(reference) == gvk.group
    )
