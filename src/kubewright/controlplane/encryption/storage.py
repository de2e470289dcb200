"""`EncryptedStorage`: encrypts the values of some resources in another storage.

Readers and watchers see plain values, and resources without a rule pass through. A value that cannot be
decrypted is logged and returned as it is stored, so the API server treats it as any other object that cannot
be decoded: it is an error of that object alone.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Self

from kubewright.apiserver.resources.stored_objects import ENCRYPTED
from kubewright.apiserver.server import STORAGE_PREFIX
from kubewright.controlplane.undecodable_values import resource_finder
from kubewright.storage.contract import (
    KeyExists,
    KeyValue,
    Page,
    RevisionMismatch,
    Storage,
    StorageError,
    StorageEvent,
    StorageWatch,
)

from .config import EncryptionRules, load_encryption_config
from .providers import DecryptionError, KeyNotLoaded, ProviderChain

logger = logging.getLogger("kubewright.controlplane")

_PAGE = 500

ResourceOf = Callable[[str], tuple[str, str] | None]
"""Returns group and resource of a storage key; `None` for keys that are not of a resource."""


class EncryptedStorage(Storage):
    """A storage whose values are encrypted in `inner` by the providers of `rules`."""

    decrypts = True

    def __init__(self, inner: Storage, rules: EncryptionRules, resource_of: ResourceOf) -> None:
        self.inner = inner
        self.rules = rules
        self.shares_values = inner.shares_values
        self.manages_compaction = inner.manages_compaction
        self.is_shared = inner.is_shared
        self._resource_of = resource_of
        self._stale: dict[str, int] = {}
        """Keys whose value another provider or key than the first has encrypted, with their revision."""
        self._reported: set[tuple[str, int]] = set()
        self.load_changes: Callable[[], Awaitable[object]] | None = None
        """Loads the configuration file if it has changed. It is called for values that cannot be decrypted:
        another process of the same store may have loaded the file already, and use a new key."""

    @classmethod
    def from_config(cls, inner: Storage, path: str | Path) -> Self:
        """Return the encrypted storage of a configuration file; raises `ConfigFileError`."""
        return cls(inner, load_encryption_config(path), resource_finder(STORAGE_PREFIX))

    async def open(self) -> None:
        await self.inner.open()
        await self.rules.open()

    async def close(self) -> None:
        await self.rules.close()
        await self.inner.close()

    async def reload(self, path: str | Path) -> Callable[[], Awaitable[None]]:
        """Use the rules of a changed file; return the function that closes the previous providers.

        Raises `ConfigFileError`, or `StorageError` if a KMS plug-in does not respond; the present rules stay
        in use then.
        """
        rules = load_encryption_config(path)
        await rules.open()
        previous, self.rules = self.rules, rules
        self._reported.clear()
        try:
            await self._find_stale()
        except StorageError as error:
            logger.warning("cannot find objects of previous encryption keys", extra={"error": str(error)})
        return previous.close

    async def _find_stale(self) -> None:
        """Read all encrypted objects, to find those that another key than the present first has encrypted."""
        start: str | None = None
        while True:
            page = await self.inner.list(STORAGE_PREFIX, start=start, limit=_PAGE)
            for item in page.items:
                chain = self._chain(item.key)
                if chain is not None:
                    await self._decrypted(item, chain, may_load=False)
            if not page.more:
                return
            start = page.items[-1].key + "\0"

    def check_health(self) -> None:
        """Raise `RuntimeError` if a provider cannot encrypt."""
        for provider in self.rules.providers:
            error = provider.health_error()
            if error:
                raise RuntimeError(f"{provider.prefix.decode()}: {error}")

    async def revision(self) -> int:
        return await self.inner.revision()

    async def get(self, key: str) -> KeyValue | None:
        item = await self.inner.get(key)
        return None if item is None else await self._read(item)

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        page = await self.inner.list(prefix, start=start, limit=limit, revision=revision)
        return page._replace(items=[await self._read(item) for item in page.items])

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        chain = self._chain(key)
        stored = value if chain is None else chain.encrypt(value, key.encode())
        try:
            return await self.inner.create(key, stored, ttl=ttl)
        except KeyExists as error:
            raise KeyExists(await self._read(error.current)) from None

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        chain = self._chain(key)
        stored = value if chain is None else chain.encrypt(value, key.encode())
        try:
            revision = await self.inner.update(key, stored, expected=expected, ttl=ttl)
        except RevisionMismatch as error:
            current = error.current
            raise RevisionMismatch(key, None if current is None else await self._read(current)) from None
        self._stale.pop(key, None)
        return revision

    async def delete(self, key: str, *, expected: int) -> int:
        try:
            revision = await self.inner.delete(key, expected=expected)
        except RevisionMismatch as error:
            current = error.current
            raise RevisionMismatch(key, None if current is None else await self._read(current)) from None
        self._stale.pop(key, None)
        return revision

    def watch(self, prefix: str, revision: int) -> StorageWatch:
        return DecryptedWatch(self.inner.watch(prefix, revision), self)

    async def compact(self, revision: int) -> None:
        await self.inner.compact(revision)

    async def size(self) -> int | None:
        return await self.inner.size()

    def is_stale(self, item: KeyValue) -> bool:
        return self._stale.get(item.key) == item.mod_revision

    def _chain(self, key: str) -> ProviderChain | None:
        found = self._resource_of(key)
        return None if found is None else self.rules.chain(*found)

    async def _read(self, item: KeyValue) -> KeyValue:
        chain = self._chain(item.key)
        if chain is None and item.value.startswith(ENCRYPTED):
            chain = await self._changed_chain(item.key, None)
        return item if chain is None else await self._decrypted(item, chain)

    async def _changed_chain(self, key: str, chain: ProviderChain | None) -> ProviderChain | None:
        """Return the providers of a key if the configuration has changed since `chain` was in use."""
        if self.load_changes is None:
            return None
        await self.load_changes()
        found = self._chain(key)
        return found if found is not chain else None

    async def _decrypted(self, item: KeyValue, chain: ProviderChain, *, may_load: bool = True) -> KeyValue:
        context = item.key.encode()
        try:
            try:
                plain, stale = chain.decrypt(item.value, context)
            except KeyNotLoaded:
                await chain.load_key(item.value)
                plain, stale = chain.decrypt(item.value, context)
        except DecryptionError as error:
            changed = await self._changed_chain(item.key, chain) if may_load else None
            if changed is not None:
                return await self._decrypted(item, changed)
            self._report(item, error)
            return item
        if stale:
            if item.mod_revision > self._stale.get(item.key, 0):
                self._stale[item.key] = item.mod_revision
        elif self._stale.get(item.key) == item.mod_revision:
            del self._stale[item.key]  # its key is the first one again
        return item._replace(value=plain)

    def _report(self, item: KeyValue, error: DecryptionError) -> None:
        """Log a value that cannot be decrypted, once."""
        identity = (item.key, item.mod_revision)
        if identity not in self._reported:
            self._reported.add(identity)
            logger.error("stored object cannot be decrypted", extra={"key": item.key, "error": str(error)})

    async def decrypt_event(self, event: StorageEvent) -> StorageEvent:
        """Return an event with plain values."""
        value, previous = event.value, event.previous
        if self._chain(event.key) is None and not (
            (value is not None and value.startswith(ENCRYPTED))
            or (previous is not None and previous.value.startswith(ENCRYPTED))
        ):
            return event
        if previous is not None:
            previous = await self._read(previous)
        if value is not None:
            stored = KeyValue(event.key, value, event.create_revision, event.revision)
            value = (await self._read(stored)).value
        else:
            self._stale.pop(event.key, None)
        return event._replace(value=value, previous=previous)


class DecryptedWatch(StorageWatch):
    """A watch on encrypted values."""

    def __init__(self, inner: StorageWatch, storage: EncryptedStorage) -> None:
        self._inner = inner
        self._storage = storage
        self._decrypting = False
        self.connected = inner.connected
        inner.on_connection_change = self._forward_connection

    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[list[StorageEvent]]:
        async for batch in self._inner:
            self._decrypting = True
            decrypted = [await self._storage.decrypt_event(event) for event in batch]
            self._decrypting = False
            yield decrypted

    async def progress(self) -> int:
        return await self._inner.progress()

    @property
    def pending(self) -> bool:
        return self._decrypting or self._inner.pending

    def _forward_connection(self, connected: bool) -> None:
        self.connected = connected
        if self.on_connection_change is not None:
            self.on_connection_change(connected)

    def close(self) -> None:
        self._inner.close()
