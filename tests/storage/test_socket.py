"""A storage of another process, over a Unix socket."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kubewright.storage import (
    Compacted,
    History,
    MemoryStorage,
    RequestTooLarge,
    SQLiteStorage,
    Storage,
    StorageError,
    open_storage,
)
from kubewright.storage.local import LocalStorage
from kubewright.storage.socket import server as server_module
from kubewright.storage.socket.server import StorageServer
from kubewright.storage.socket.storage import SocketStorage
from kubewright.storage.testing import StorageLaws


class _Served(SocketStorage):
    """A client with a server of its own."""

    def __init__(self, url: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        super().__init__(Path(self._directory.name) / server_module.SOCKET_NAME)
        self._url = url.format(self._directory.name)
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        storage = await self._stack.enter_async_context(open_storage(self._url))
        assert isinstance(storage, LocalStorage)
        server = StorageServer(storage, self.path.parent)
        await server.start()
        await super().open()

    async def close(self) -> None:
        await super().close()
        await self._stack.aclose()
        self._directory.cleanup()


@pytest.fixture(params=["memory:", "sqlite:{}/state.db"], ids=["memory", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestSocketStorage(StorageLaws):
    """The laws over the socket."""

    url: str

    @pytest.fixture(autouse=True)
    def set_url(self, url: str) -> None:
        self.url = url
        self.examples = 25 if url == "memory:" else 8

    def new_storage(self) -> Storage:
        return _Served(self.url)


@asynccontextmanager
async def _served(
    storage: LocalStorage, directory: Path, clients: int = 2
) -> AsyncIterator[list[SocketStorage]]:
    directory.chmod(0o700)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(storage)
        server = StorageServer(storage, directory)
        await server.start()
        yield [await stack.enter_async_context(SocketStorage(server.path)) for _ in range(clients)]


async def test_writes_of_each_process_are_read_by_all_immediately(tmp_path: Path) -> None:
    owner = MemoryStorage()
    async with _served(owner, tmp_path) as (one, two):
        stores: list[Storage] = [owner, one, two]
        for number in range(60):
            writer, reader = stores[number % 3], stores[(number + 1 + number // 3 % 2) % 3]
            revision = await writer.create(f"/a/{number}", b"%d" % number)
            item = await reader.get(f"/a/{number}")
            assert item is not None
            assert item.mod_revision == revision
            assert await reader.revision() == revision
        assert await one.list("/") == await two.list("/") == await owner.list("/")


async def test_a_new_client_has_the_history(tmp_path: Path) -> None:
    owner = SQLiteStorage(tmp_path / "state.db")
    async with owner:
        first = await owner.create("/a", b"1")
        await owner.update("/a", b"2", expected=first)
    async with _served(SQLiteStorage(tmp_path / "state.db"), tmp_path, 1) as (client,):
        assert [item.value for item in (await client.list("/", revision=first)).items] == [b"1"]
        (event,) = await anext(aiter(client.watch("/", first)))
        assert event.value == b"2"
        assert event.previous is not None
        assert event.previous.value == b"1"


async def test_requests_that_are_too_large_are_rejected(tmp_path: Path) -> None:
    async with _served(MemoryStorage(max_request_bytes=100), tmp_path, 1) as (client,):
        with pytest.raises(RequestTooLarge):
            await client.create("/a", b"x" * 100)
        assert await client.size() is None


async def test_a_client_that_does_not_read_receives_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_BUFFER_LIMIT", 64 * 1024)
    owner = MemoryStorage(history=History(seconds=0, min_events=5, max_events=5))
    async with _served(owner, tmp_path, 1) as (client,):
        assert client._connection is not None
        start = await owner.create("/a", b"")
        assert await client.get("/a") is not None
        watch = client.watch("/", start)
        client._connection.transport.pause_reading()
        revision = start
        for number in range(2000):
            revision = await owner.update("/a", b"%d" % number * 500, expected=revision)
            if number % 20 == 0:
                await asyncio.sleep(0)
        await owner.compact(revision)
        client._connection.transport.resume_reading()
        item = await client.get("/a")
        assert item is not None
        assert item.mod_revision == revision
        with pytest.raises(Compacted):
            async for batch in watch:
                assert batch[-1].revision < revision
        later = client.watch("/", revision)
        latest = await client.update("/a", b"last", expected=revision)
        assert [event.revision for event in await anext(aiter(later))] == [latest]


async def test_the_end_of_the_owner_ends_every_call(tmp_path: Path) -> None:
    owner = MemoryStorage()
    lost: list[str] = []
    async with _served(owner, tmp_path, 0):
        server = StorageServer(owner, Path(tempfile.mkdtemp()))
        await server.start()
        client = SocketStorage(server.path, on_lost=lambda error: lost.append(str(error)))
        await client.open()
        watch = client.watch("/", 0)
        reader = asyncio.ensure_future(anext(aiter(watch)))
        await asyncio.sleep(0)
        server.close()
        with pytest.raises(StorageError, match="the process that owns the store has ended"):
            await reader
        for call in (client.get("/a"), client.list("/"), client.create("/a", b""), client.revision()):
            with pytest.raises(StorageError, match="has ended"):
                await call
        with pytest.raises(StorageError):
            client.check_health()
        assert lost == ["the process that owns the store has ended"]
        await client.close()
        with pytest.raises(StorageError, match="cannot connect to the storage"):
            await client.open()
        server.path.parent.rmdir()


async def test_the_directory_must_be_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    async with MemoryStorage() as storage:
        with pytest.raises(ValueError, match="set its mode to 0700"):
            StorageServer(storage, tmp_path)
