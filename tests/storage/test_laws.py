"""The laws of the storage contract, for every implementation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubewright.storage import MemoryStorage, Storage, open_storage
from kubewright.storage.testing import StorageLaws

NewURL = Callable[[], str]


class TestStorages(StorageLaws):
    """The storages of Kubewright."""

    new_url: NewURL

    @pytest.fixture(autouse=True)
    def set_url(self, new_url: NewURL) -> None:
        self.new_url = new_url
        # Examples are a hundred times slower with a storage in another process.
        self.examples = 150 if new_url().startswith(("memory:", "sqlite:")) else 8

    def new_storage(self) -> Storage:
        return open_storage(self.new_url())


async def test_durable_storage_has_a_size(new_url: NewURL) -> None:
    url = new_url()
    async with open_storage(url) as store:
        await store.create("/a", b"x" * 1000)
        size = await store.size()
        assert size is None if url == "memory:" else size is not None and size > 1000


class _IgnoresPreconditions(MemoryStorage):
    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        current = await self.get(key)
        known = current.mod_revision if current is not None else expected
        return await super().update(key, value, expected=known, ttl=ttl)


def test_a_storage_that_breaks_the_contract_fails() -> None:
    class Broken(StorageLaws):
        def new_storage(self) -> Storage:
            return _IgnoresPreconditions()

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Broken().test_conflicts_return_the_current_value()
