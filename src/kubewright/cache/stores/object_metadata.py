"""The part of an object's metadata that controllers read, decoded without the rest of the object."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.api.meta import revision_number


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


_decode = msgspec.json.Decoder(_Object, strict=False).decode


def metadata_of(value: bytes, revision: int = 0) -> Metadata:
    """Decode the metadata of an object; raises `msgspec.DecodeError`."""
    metadata = _decode(value).metadata
    metadata.revision = revision
    return metadata


def metadata_of_object(obj: dict[str, Any]) -> Metadata:
    """Return the metadata of a decoded object.

    The revision is its resourceVersion, 0 if that is not a number. Raises `msgspec.ValidationError`.
    """
    metadata = msgspec.convert(obj["metadata"], Metadata, strict=False)
    metadata.revision = revision_number(obj["metadata"].get("resourceVersion"))
    return metadata
