"""`VersionDecoder`: the entries of received versions, and the versions that cannot be decoded.

An object that cannot be decoded is reported and keeps its last version: it is neither changed nor deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from kubewright.api.encoding.codec import ObjectHeader
from kubewright.cache.errors import UndecodableVersion
from kubewright.cache.reflectors.lister_watcher import ObjectError, ObjectEvent
from kubewright.cache.stores.store import CacheEntry, MemoryEntry, ObjectKey, Store

logger = logging.getLogger(__name__)

Transform = Callable[[bytes, ObjectHeader], bytes]
"""Changes the bytes of an object before it is stored; removing unused fields saves memory."""
EntryForm = Callable[[ObjectEvent], CacheEntry]
"""Returns what is stored of a received version, such as `SharedEntry.of`; raises `msgspec.DecodeError`."""


class VersionDecoder:
    """Decodes the versions of the objects of one informer."""

    def __init__(
        self,
        kind: str,
        store: Store,
        *,
        form: EntryForm | None,
        transform: Transform | None,
        report_failure: Callable[[str], None],
    ) -> None:
        """`form`: how objects are stored, by default as bytes to which `transform` was applied."""
        self.form = form or self._memory_entry
        self.undecodable: dict[ObjectKey, ObjectError] = {}
        """Objects that cannot be decoded now; the store has their last good version, if there was one."""
        self._kind = kind
        self._store = store
        self._transform = transform
        self._report_failure = report_failure

    def decode(self, key: ObjectKey, event: ObjectEvent) -> CacheEntry | None:
        """Return the entry of a version; `None` if it cannot be decoded: the last good one stays."""
        error = event.error
        if error is None:
            try:
                entry = self.form(event)
            except msgspec.DecodeError as failure:
                error = UndecodableVersion(str(failure))
            else:
                if self.undecodable:
                    self.undecodable.pop(key, None)
                return entry
        if self.undecodable.get(key) is not error:
            self.undecodable[key] = error
            self._report_failure("undecodable")
            known = self._store.get(key) is not None
            logger.error(
                "object cannot be decoded; its last state stays in use"
                if known
                else "object cannot be decoded and has no last state",
                extra={**key.log_fields(self._kind), "error": str(error)},
            )
        return None

    def unknown(self, namespace: str = "") -> Sequence[ObjectError]:
        """Return the errors of objects that cannot be decoded and of which no earlier version is stored."""
        return [
            error
            for key, error in self.undecodable.items()
            if namespace in ("", key.namespace) and self._store.get(key) is None
        ]

    def _memory_entry(self, event: ObjectEvent) -> CacheEntry:
        header = event.header
        return MemoryEntry(self._transformed(event.raw, header), event.revision, header.metadata.uid or "")

    def _transformed(self, raw: bytes, header: ObjectHeader) -> bytes:
        if self._transform is None:
            return raw
        try:
            return self._transform(raw, header)
        except Exception:
            key = ObjectKey(header.metadata.namespace or "", header.metadata.name or "")
            logger.exception(
                "transform failed, storing the object unchanged", extra=key.log_fields(self._kind)
            )
            return raw
