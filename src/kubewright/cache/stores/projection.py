"""Projection of cached objects: store only the fields that readers declare.

    class SecretType(Struct):
        type: str | None = None

    operator.settings.kinds[Secret] = KindOptions(projection=SecretType)

A cache of 10,000 Secrets then holds their metadata and `type`, not their data. The server still sends full
objects; what is not declared is dropped before an object is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from kubewright.api.encoding.codec import ObjectHeader, decoder, encode

from .store import strip_managed_fields

_IDENTITY = frozenset(("api_version", "kind", "metadata"))


@lru_cache(maxsize=256)
def project_to(fields: type[msgspec.Struct]) -> Callable[[bytes, ObjectHeader], bytes]:
    """Return a transform that keeps apiVersion, kind, metadata and the fields that a class declares.

    Nested classes limit nested fields in the same way. Managed fields are removed.
    """
    declared = [
        (each.name, each.type, msgspec.field(default=msgspec.UNSET, name=each.encode_name))
        for each in msgspec.structs.fields(fields)
        if each.name not in _IDENTITY
    ]
    stored = msgspec.defstruct(
        f"Stored{fields.__name__}",
        [
            ("api_version", str, msgspec.field(default="", name="apiVersion")),
            ("kind", str, ""),
            ("metadata", msgspec.Raw, msgspec.Raw(b"{}")),
            *((name, type_ | msgspec.UnsetType, default) for name, type_, default in declared),
        ],
        gc=False,
    )
    decode = decoder(stored).decode

    def project(raw: bytes, header: ObjectHeader) -> bytes:
        return encode(decode(strip_managed_fields(raw, header)))

    return project
