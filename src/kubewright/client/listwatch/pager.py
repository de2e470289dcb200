"""`ListPager`: a list that is fetched in pages.

    async for pod in client.list(Pod): ...     one page in memory at a time
    pods = await client.list(Pod)              an ListResult with its resource_version

A page is split into its items without decoding them. They are decoded one by one, and the event loop runs in
between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Generic

from kubewright.api.errors import Expired
from kubewright.client.kind_types import ObjectT

from .raw import RawPage

DECODE_BATCH = 128
"""Items that are decoded before other tasks can run."""

FetchPage = Callable[[int, str], Awaitable[RawPage]]
"""Fetch a page of at most so many items (0: all), from a continue token."""


class ListResult(list[ObjectT]):
    """The objects of a list, with the `resource_version` of that state."""

    resource_version: str = ""


class ListPager(Generic[ObjectT]):
    """A list request: `await` it for all objects, or iterate it with `async for`."""

    def __init__(
        self,
        fetch: FetchPage,
        decode: Callable[[Any, RawPage], ObjectT],
        *,
        page_size: int,
        limit: int | None,
    ) -> None:
        self._fetch = fetch
        self._decode = decode
        self._page_size = page_size
        self._limit = limit
        self.resource_version = ""

    def __await__(self) -> Generator[Any, None, ListResult[ObjectT]]:
        return self._all().__await__()

    async def __aiter__(self) -> AsyncIterator[ObjectT]:
        yielded: set[tuple[str, str]] = set()
        count = 0
        async for page, restarted in self._pages():
            for raw in page.items:
                item = self._decode(raw, page)
                if restarted and _key(item) in yielded:
                    continue
                if page.continue_:
                    yielded.add(_key(item))
                yield item
                count += 1
                if count == self._limit:
                    return

    async def _all(self) -> ListResult[ObjectT]:
        items: ListResult[ObjectT] = ListResult()
        async for page, restarted in self._pages():
            if restarted:
                items.clear()
            for index, raw in enumerate(page.items):
                if index % DECODE_BATCH == DECODE_BATCH - 1:
                    await asyncio.sleep(0)
                items.append(self._decode(raw, page))
            items.resource_version = page.resource_version
            if self._limit is not None and len(items) >= self._limit:
                del items[self._limit :]
                break
        return items

    async def _pages(self) -> AsyncIterator[tuple[RawPage, bool]]:
        """Yield pages, and whether the list was restarted without paging because its token had expired."""
        size = self._page_size if self._limit is None else min(self._page_size, self._limit)
        token, restarted = "", False
        while True:
            try:
                page = await self._fetch(size, token)
            except Expired:
                if not token:
                    raise
                page, restarted = await self._fetch(0, ""), True
            self.resource_version = page.resource_version
            yield page, restarted
            token = page.continue_
            if not token:
                return


def _key(item: Any) -> tuple[str, str]:
    return item.metadata.namespace or "", item.metadata.name or ""
