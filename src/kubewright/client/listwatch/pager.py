"""Lists in pages: iterate one, or await the whole.

    async for pod in client.list(Pod): ...     holds one page at a time
    pods = await client.list(Pod)              a list, with the resourceVersion it is true of

A page is split into its items without reading them; they are decoded one after the other, and the loop gets
its turn in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from kubewright.api.errors import Expired
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

from .raw import RawPage

ItemT = TypeVar("ItemT", bound=MetaObject | Unstructured)
PAGE_SIZE = 500
SLICE = 128
"""Items that are decoded before others may run."""

FetchPage = Callable[[int, str], Awaitable[RawPage]]
"""Gets a page of at most so many items (0: all), from a continue token."""


class ObjectList(list[ItemT]):
    """The objects of a list, and the `resource_version` that it is true of."""

    resource_version: str = ""


class ListPager(Generic[ItemT]):
    """A list that has not been fetched yet."""

    def __init__(
        self, fetch: FetchPage, decode: Callable[[Any, RawPage], ItemT], *, page_size: int, limit: int | None
    ) -> None:
        self._fetch = fetch
        self._decode = decode
        self._page_size = page_size
        self._limit = limit
        self.resource_version = ""

    def __await__(self) -> Generator[Any, None, ObjectList[ItemT]]:
        return self._whole().__await__()

    async def __aiter__(self) -> AsyncIterator[ItemT]:
        seen: set[tuple[str, str]] = set()
        count = 0
        async for page, anew in self._pages():
            for raw in page.items:
                item = self._decode(raw, page)
                if anew and _key(item) in seen:
                    continue
                if page.continue_:
                    seen.add(_key(item))
                yield item
                count += 1
                if count == self._limit:
                    return

    async def _whole(self) -> ObjectList[ItemT]:
        items: ObjectList[ItemT] = ObjectList()
        async for page, anew in self._pages():
            if anew:
                items.clear()
            for index, raw in enumerate(page.items):
                if index % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
                items.append(self._decode(raw, page))
            items.resource_version = page.resource_version
            if self._limit is not None and len(items) >= self._limit:
                del items[self._limit :]
                break
        return items

    async def _pages(self) -> AsyncIterator[tuple[RawPage, bool]]:
        """Pages, and whether the list had to be started anew, in one piece, since its token had expired."""
        size = self._page_size if self._limit is None else min(self._page_size, self._limit)
        token, anew = "", False
        while True:
            try:
                page = await self._fetch(size, token)
            except Expired:
                if not token:
                    raise
                page, anew = await self._fetch(0, ""), True
            self.resource_version = page.resource_version
            yield page, anew
            token = page.continue_
            if not token:
                return


def _key(item: MetaObject | Unstructured) -> tuple[str, str]:
    return item.metadata.namespace or "", item.metadata.name or ""


__all__ = ["ListPager", "ObjectList"]
