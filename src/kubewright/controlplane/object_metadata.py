"""The part of an object's metadata that controllers read, decoded without the rest of the object."""

from __future__ import annotations

import msgspec


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """Name, identity, owners and deletion of an object, and the revision it was stored at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None
    revision: int = 0
    """Set by informers; not part of the stored object."""


class _Object(msgspec.Struct):
    metadata: Metadata


_decode = msgspec.json.Decoder(_Object).decode


def metadata_of(value: bytes, revision: int = 0) -> Metadata:
    """Decode the metadata of a stored object; raises `msgspec.DecodeError`."""
    metadata = _decode(value).metadata
    metadata.revision = revision
    return metadata


__all__ = ["Metadata", "OwnerReference", "metadata_of"]
