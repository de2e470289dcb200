"""Initial events of a watch: the existing objects, encoded while the client reads them.

The objects of one revision are read from storage in pages. Storages that keep their values in memory return
references, so one page has all objects; others are read in pages of about 1 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kubewright.api.errors import Expired
from kubewright.apiserver.rest.scope import EndpointScope
from kubewright.apiserver.watch.watcher import Watcher
from kubewright.storage.contract import Compacted, KeyValue, Page

SLICE_BYTES = 64 * 1024
"""Bytes of encoded events that are produced before the client must read."""
PAGE_BYTES = 1024 * 1024
_FIRST_PAGE = 64
_LARGEST_PAGE = 500


class InitialEvents:
    """The initial events of one watcher. `read` reads the first page and sets the watcher's revision."""

    def __init__(self, scope: EndpointScope, watcher: Watcher) -> None:
        self._scope = scope
        self._watcher = watcher
        self._page = Page([], 0, False, 0)
        self.is_small = True

    """Whether all events fit into one slice."""

    async def read(self) -> None:
        """Read the first page; the watch continues from its revision."""
        store = self._scope.store
        namespace, name = self._watcher.scope
        if name and (namespace or not self._scope.resource.namespaced):
            # A range of one key: value and revision come from the same read.
            key = store.key(namespace, name)
            page = await store.storage.list(key, limit=1)
            items = [item for item in page.items if item.key == key]
            self._page = Page(items, page.revision, False, 0)
        else:
            limit = 0 if store.storage.shares_values else _FIRST_PAGE
            self._page = await store.storage.list(store.range(namespace), limit=limit)
        self._watcher.after = self._page.revision
        items = self._page.items
        self.is_small = (
            not self._page.more
            and len(items) <= _LARGEST_PAGE
            and sum(len(item.value) for item in items) <= SLICE_BYTES
        )

    async def events(self, bookmark: bool) -> AsyncGenerator[list[bytes]]:
        """Yield encoded ADDED events in slices, then the bookmark that marks their end, if requested."""
        watcher = self._watcher
        while True:
            page = self._page
            last = page.items[-1].key if page.items else ""
            size = sum(len(item.value) for item in page.items) // len(page.items) if page.more else 0
            # The page is consumed from its end, so that values are released as they are sent.
            waiting = (await self._selected(page.items))[::-1]
            page.items.clear()
            while waiting:
                yield await self._encode(waiting)
                if waiting:
                    await asyncio.sleep(0)
            if not page.more:
                break
            await self._read_next(last + "\0", max(min(PAGE_BYTES // (size or 1), _LARGEST_PAGE), 1))
        if bookmark:
            yield [watcher.representation.bookmark(watcher.after, initial=True)]

    async def _read_next(self, start: str, limit: int) -> None:
        store, watcher = self._scope.store, self._watcher
        try:
            self._page = await store.storage.list(
                store.range(watcher.scope[0]), start=start, limit=limit, revision=watcher.after
            )
        except Compacted:
            raise Expired("the initial state was compacted before it was sent; list again") from None

    async def _selected(self, items: list[KeyValue]) -> list[KeyValue]:
        watcher = self._watcher
        name, selection = watcher.scope[1], watcher.selection
        if name:
            items = [item for item in items if item.key.rpartition("/")[2] == name]
        if selection is not None:
            return await self._scope.store.select(items, selection)
        return list(items)

    async def _encode(self, waiting: list[KeyValue]) -> list[bytes]:
        """Encode and remove the next objects, up to the size of a slice."""
        watcher, size = self._watcher, 0
        batch: list[KeyValue] = []
        while waiting and (not batch or size + len(waiting[-1].value) <= SLICE_BYTES):
            item = waiting.pop()
            batch.append(item)
            size += len(item.value)
        representation = watcher.representation
        if representation.direct:
            spliced = [representation.splice(item.value, item.mod_revision) for item in batch]
            if None not in spliced:
                return [b'{"type":"ADDED","object":%b}\n' % each for each in spliced if each is not None]
        objects = await representation.objects_async([(item.value, item.mod_revision) for item in batch])
        return [watcher.encode_object("ADDED", obj) for obj in objects]
