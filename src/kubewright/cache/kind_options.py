"""`KindOptions`: which objects of a kind a cache holds, and how much of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import msgspec

from kubewright.api.gvk import GroupKind
from kubewright.client.selectors import Fields, Labels

from .informers.resync import check_resync
from .informers.version_decoder import EntryForm, Transform
from .stores.indexes import Index
from .stores.projection import project_to
from .stores.store import Store, strip_managed_fields

RESTRICTED_KINDS: Final = (GroupKind("", "Secret"), GroupKind("", "ConfigMap"))
"""Kinds that are only cached cluster-wide if requested: they can be large and confidential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """Options of one kind. By default, all objects are cached in full, without managed fields.

    - `labels`, `fields`: cache only objects that match; the server does not send others
    - `namespaces`: cache only these namespaces; `None` means the namespaces of the cache
    - `metadata_only`: cache only metadata until full objects are read
    - `projection`: a class with the fields to keep besides metadata, as in `class SecretType(Struct): type:
      str | None = None`; reads return objects without the others. Unlimited Secrets and ConfigMaps can then
      be cached
    - `transform`: changes the bytes of each object before they are stored
    - `form`: how objects are stored instead of as transformed bytes; `SharedEntry.of` decodes each version
      once for all readers of `entry.object`, who must not change it
    - `indexes`: indexes that exist from the start
    - `spill`: keep the bytes of the objects in a temporary file in this directory instead of in memory;
      `True` means the directory for temporary files (`TMPDIR`)
    - `resync`: seconds within which handlers are called again for every object; 0: never, `None`: the period
      of the cache
    - `optional`: a kind that not every server has, such as one of a later Kubernetes version; where it is not
      served there are no objects of it, and it is watched as soon as it is served
    """

    labels: Labels | None = None
    fields: Fields | None = None
    namespaces: tuple[str, ...] | None = None
    metadata_only: bool = False
    projection: type[msgspec.Struct] | None = None
    transform: Transform | None = strip_managed_fields
    form: EntryForm | None = None
    indexes: tuple[Index, ...] = ()
    spill: bool | str | os.PathLike[str] = False
    resync: float | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if self.resync is not None:
            check_resync(self.resync)
        if self.projection is not None and self.transform is not strip_managed_fields:
            raise ValueError("KindOptions: projection and transform exclude each other; set one of them")
        if self.form is not None and (
            self.spill is not False or self.stored_form is not strip_managed_fields
        ):
            raise ValueError("KindOptions: form excludes projection, transform and spill")

    @property
    def stored_form(self) -> Transform | None:
        """The function that is applied to the bytes of each object before they are stored."""
        return self.transform if self.projection is None else project_to(self.projection)

    def create_store(self) -> Store:
        """Return an empty store for the objects. Raises `CacheError` if its spill file cannot be created."""
        if self.spill is False:
            return Store()
        from .stores.spill import SpilledStore

        return SpilledStore(None if self.spill is True else self.spill)
