"""`CheckedStorage`: the storage of one resource, whose reads fail if a value cannot be decoded."""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

from collections.abc import Sequence

from kubewright.apiserver.metrics.storage import InstrumentedStorage
from kubewright.apiserver.resources.stored_objects import StoredObjects, UndecodableObject
from kubewright.storage.contract import KeyValue, Page, Storage


class CheckedStorage(InstrumentedStorage):
    """Storage of one resource. `get` and `list` raise the errors of `StoredObjects`.

    Whatever reads a resource through it (requests, admission, controllers) cannot take an object that it is
    unable to decode for one that does not exist. `get_stored` and `list_stored` are for the few that handle
    such objects.
    """

    def __init__(self, storage: Storage, objects: StoredObjects, prefix: str, *, checked: bool) -> None:
        super().__init__(storage)
        self._objects = objects
        self._prefix = prefix
        self._is_checked = checked

    async def get(self, key: str) -> KeyValue | None:
        item = await super().get(key)
        if item is not None and self._is_checked:
            error = self._objects.check_item(item)
            if error is not None:
                raise error.copy()
        return item

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        page, errors = await self.list_stored(prefix, start=start, limit=limit, revision=revision)
        self._objects.raise_for(errors)
        return page

    async def get_stored(self, key: str) -> tuple[KeyValue | None, UndecodableObject | None]:
        """Return a value, and the error if it cannot be decoded."""
        item = await super().get(key)
        if item is None or not self._is_checked:
            return item, None
        return item, self._objects.check(item.key, item.value, item.mod_revision)

    async def list_stored(
        self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0
    ) -> tuple[Page, Sequence[UndecodableObject]]:
        """Return a page with all values, and the errors of those that cannot be decoded."""
        page = await super().list(prefix, start=start, limit=limit, revision=revision)
        if not self._is_checked:
            return page, []
        complete = prefix == self._prefix and start is None and not page.more
        if not complete and self.shares_values and self._objects.can_check_all:
            # Once, so that lists of a part are not checked each time. Other storages would send all values.
            await self._objects.check_page(await self.storage.list(self._prefix), complete=True)
        return page, await self._objects.check_page(page, complete=complete)
