"""`KindOptions`: which objects of a kind a cache holds, and how much of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubewright.api.gvk import GroupKind
from kubewright.client.selectors import Fields, Labels

from .indexes import Index
from .informer import Transform
from .store import strip_managed_fields

RESTRICTED_KINDS: Final = (GroupKind("", "Secret"), GroupKind("", "ConfigMap"))
"""Kinds that are only cached cluster-wide if requested: they can be large and confidential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """Options of one kind. By default, all objects are cached in full, without managed fields.

    - `labels`, `fields`: cache only objects that match; the server does not send others
    - `namespaces`: cache only these namespaces; `None` means the namespaces of the cache
    - `metadata_only`: cache only metadata until full objects are read
    - `transform`: changes the bytes of each object before they are stored
    - `indexes`: indexes that exist from the start
    """

    labels: Labels | None = None
    fields: Fields | None = None
    namespaces: tuple[str, ...] | None = None
    metadata_only: bool = False
    transform: Transform | None = strip_managed_fields
    indexes: tuple[Index, ...] = ()


__all__ = ["RESTRICTED_KINDS", "KindOptions"]
