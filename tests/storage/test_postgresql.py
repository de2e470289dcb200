"""PostgreSQL storage: several servers, restarts, lost responses, authentication, TLS, expiry, compaction."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench._postgresql import PostgreSQLServer
from tests.controlplane.replicas.cluster import FaultProxy, new_postgresql_server, running_postgresql
from tests.storage.test_etcd import fails_with, make_certificates, take

from kubewright.storage import (
    Compacted,
    KeyExists,
    PostgreSQLStorage,
    RequestTooLarge,
    RevisionMismatch,
    StorageError,
    backup,
    open_storage,
    restore,
)
from kubewright.storage.postgresql.connection import PostgreSQLConnections
from kubewright.storage.postgresql.options import PostgreSQLOptions
from kubewright.storage.postgresql.schema import Statements
from kubewright.storage.postgresql.watch import ChangeNotifier

LONG_TIMEOUT = "timeout=60"
"""Option of storages whose requests succeed, however slow the machine is."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgreSQLServer]:
    """A server that tests may kill and start with other settings."""
    with running_postgresql() as server:
        yield server


@pytest.fixture
async def proxy(postgresql_server: PostgreSQLServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgresql_server.address) as proxy:
        yield proxy


def restart(server: PostgreSQLServer) -> None:
    server.kill()
    server.start()


async def test_servers_on_one_database_share_state(postgresql_server: PostgreSQLServer) -> None:
    url = postgresql_server.url("shared", LONG_TIMEOUT)
    # The first three create the tables at the same time.
    stores = [
        open_storage(each) for each in (url, url, url, postgresql_server.url("shared_not", LONG_TIMEOUT))
    ]
    await asyncio.gather(*(store.open() for store in stores))
    one, two, three, other = stores
    watches = [store.watch("/", 0) for store in (one, two, three)]
    await asyncio.gather(*(watch.progress() for watch in watches))

    async def write(store: Any, number: int) -> None:
        for count in range(20):
            revision = await store.create(f"/{number}/{count}", b"v")
            await store.update(f"/{number}/{count}", b"w", expected=revision)

    await asyncio.gather(*(write(store, number) for number in range(4) for store in [stores[number % 3]]))
    received = [await take(watch, 160) for watch in watches]
    assert [event.revision for event in received[0]] == list(range(1, 161)), "no revision is missing"
    assert received[0] == received[1] == received[2]
    found = await two.get("/0/0")
    assert found is not None
    with pytest.raises(KeyExists):
        await three.create("/0/0", b"2")
    assert (await other.list("")).items == []
    outcomes = await asyncio.gather(
        *(store.update("/0/0", b"x", expected=found.mod_revision) for store in stores[:3] for _ in range(10)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, RevisionMismatch) for outcome in outcomes) == 29
    for store in stores:
        await store.close()


async def test_watch_resumes_after_the_server_restarts(own_server: PostgreSQLServer) -> None:
    url = own_server.url("restart", LONG_TIMEOUT)
    async with open_storage(url) as store:
        assert isinstance(store, PostgreSQLStorage)
        watch = store.watch("/", await store.revision())
        states: list[bool] = []
        watch.on_connection_change = states.append
        await store.create("/0", b"v")
        await take(watch, 1)
        own_server.kill()
        store._connections.options = replace(store.options, timeout=1)
        await fails_with("check that it is running", lambda: store.get("/0"))
        await fails_with("check that it is running", lambda: store.create("/lost", b"v"))
        async with asyncio.timeout(60):
            while watch.connected:
                await asyncio.sleep(0.01)
        own_server.start()
        store._connections.options = store.options
        async with open_storage(url) as other:
            for number in range(1, 20):
                await other.create(f"/{number}", b"v")
        assert [event.key for event in await take(watch, 19)] == [f"/{number}" for number in range(1, 20)]
        assert await store.get("/0") is not None
        async with asyncio.timeout(60):
            while not watch.connected:
                await asyncio.sleep(0.01)
        assert states[-2:] == [False, True]


async def test_write_whose_response_was_lost_is_not_repeated(
    postgresql_server: PostgreSQLServer, proxy: FaultProxy
) -> None:
    url = postgresql_server.url("lost", LONG_TIMEOUT, address=proxy.address)
    async with (
        open_storage(url) as store,
        open_storage(postgresql_server.url("lost", LONG_TIMEOUT)) as direct,
    ):
        assert isinstance(store, PostgreSQLStorage)
        watch = direct.watch("/", await direct.revision())
        first = await store.create("/k", b"1")
        proxy.stall(requests=False)
        # The server applies the writes, whenever that is: its own timeout is that of the open connections.
        store._connections.options = replace(store.options, timeout=2)
        writing = [
            asyncio.create_task(store.update("/k", b"2", expected=first)),
            asyncio.create_task(store.create("/k", b"conflict")),
            asyncio.create_task(store.create("/l", b"1")),
        ]
        applied = await take(watch, 3)
        assert [(event.key, event.value) for event in applied] == [("/k", b"1"), ("/k", b"2"), ("/l", b"1")]
        # A server that does not read its responses does not hold the lock.
        assert await direct.create("/m", b"1") > applied[-1].revision
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        assert all(isinstance(outcome, StorageError) for outcome in outcomes)
        assert all("may or may not have been applied" in str(outcomes[number]) for number in (0, 2))
        proxy.restore()
        store._connections.options = store.options
        current = await store.get("/k")
        assert current is not None
        assert (current.value, current.create_revision) == (b"2", first)
        assert await direct.revision() == applied[-1].revision + 1, "nothing was written twice"


async def test_connections_that_are_cut_are_replaced(
    postgresql_server: PostgreSQLServer, proxy: FaultProxy
) -> None:
    async with open_storage(postgresql_server.url("cut", LONG_TIMEOUT, address=proxy.address)) as store:
        watch = store.watch("/", await store.revision())
        await watch.progress()
        for number in range(3):
            proxy.cut()
            proxy.restore()
            for _ in range(5):  # Connections that were idle: nothing was sent, or the read is repeated.
                await store.get("/k")
            await store.create(f"/{number}", b"v")
        assert [event.key for event in await take(watch, 3)] == ["/0", "/1", "/2"]


async def test_connecting_may_take_longer_than_a_request(
    postgresql_server: PostgreSQLServer, proxy: FaultProxy
) -> None:
    """Otherwise, all connections to a busy server would be given up before they can be used."""
    proxy.connect_delay = 3.0
    async with open_storage(postgresql_server.url("busy", "timeout=2", address=proxy.address)) as store:
        proxy.cut()
        proxy.restore()
        async with asyncio.timeout(60):
            while True:
                try:
                    await store.create("/k", b"v")
                    break
                except StorageError:
                    continue


async def test_cancelled_lists_do_not_cost_a_connection(postgresql_server: PostgreSQLServer) -> None:
    async with open_storage(postgresql_server.url("cancelled")) as store:
        assert isinstance(store, PostgreSQLStorage)
        await store.list("/")
        connections = list(store._connections._idle)
        listing = asyncio.create_task(store.list("/"))
        while not store._connections._used:
            await asyncio.sleep(0)
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing
        await asyncio.gather(*store._cancelled)
        assert not any(connection.is_closed() for connection in connections)


async def test_unreachable_client_does_not_keep_its_locks(
    postgresql_server: PostgreSQLServer, proxy: FaultProxy
) -> None:
    """The server ends a session that is idle in a transaction; otherwise, no other server could write."""
    url = postgresql_server.url("locked", LONG_TIMEOUT, address=proxy.address)
    async with (
        open_storage(postgresql_server.url("locked", LONG_TIMEOUT)) as store,
        open_storage(url) as unreachable,
    ):
        assert isinstance(unreachable, PostgreSQLStorage)
        unreachable._connections.options = replace(unreachable.options, timeout=3)
        async with asyncio.timeout(60):
            while True:
                try:
                    connection = await unreachable._connections.connect()
                    break
                except TimeoutError:
                    continue
        try:
            assert await connection.fetchval("SHOW tcp_keepalives_idle") == "3"
            await connection.execute("BEGIN; SELECT FROM locked.store FOR UPDATE")
            proxy.stall()
            assert await store.create("/k", b"v") == 1
        finally:
            connection.terminate()


async def test_listening_for_notifications_has_a_timeout() -> None:
    class StalledConnection:
        def add_termination_listener(self, callback: Any) -> None:
            pass

        async def add_listener(self, channel: str, callback: Any) -> None:
            await asyncio.Event().wait()

    connections = PostgreSQLConnections(PostgreSQLOptions(database="postgres", timeout=0.01))
    notifier = ChangeNotifier(connections, Statements("kubewright"))
    with pytest.raises(TimeoutError):
        await notifier._listen(StalledConnection())


async def test_one_of_several_addresses_accepts_writes(
    own_server: PostgreSQLServer, closed_port: int
) -> None:
    url = own_server.url("failover", LONG_TIMEOUT, address=f"127.0.0.1:{closed_port},{own_server.address}")
    async with open_storage(url) as store:
        assert await store.create("/k", b"1") == 1
    # A standby is read-only.
    own_server.kill()
    signal = own_server.data / "standby.signal"
    signal.touch()
    own_server.own(signal)
    own_server.start()
    try:
        await fails_with(
            r"read-only .*connect to the primary",
            lambda: open_storage(own_server.url("failover", "timeout=1")).open(),
        )
    finally:
        signal.unlink()
        restart(own_server)


async def test_synchronous_standby_takes_over(own_server: PostgreSQLServer) -> None:
    """No acknowledged write is lost, and a watch continues at the new primary."""
    standby = new_postgresql_server(primary=own_server)
    try:
        standby.start()
        own_server.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        own_server.execute("SELECT pg_reload_conf()")
        addresses = f"{own_server.address},{standby.address}"
        async with open_storage(own_server.url("promotion", LONG_TIMEOUT, address=addresses)) as store:
            watch = store.watch("/", await store.revision())
            written: dict[str, int] = {}
            stop = asyncio.Event()

            async def write(writer: int) -> None:
                number = 0
                while not stop.is_set():
                    number += 1
                    try:
                        written[f"/{writer}-{number}"] = await store.create(f"/{writer}-{number}", b"v")
                    except StorageError:
                        pass  # It may have been applied.

            async def reach(count: int) -> None:
                async with asyncio.timeout(60):
                    while len(written) < count:
                        await asyncio.sleep(0.01)

            writers = [asyncio.create_task(write(number)) for number in range(4)]
            await reach(40)
            await asyncio.to_thread(own_server.kill)
            before = len(written)
            standby.execute("SELECT pg_promote()")
            await reach(before + 40)
            stop.set()
            await asyncio.gather(*writers)
            received: dict[str, int] = {}
            last = 0
            async with asyncio.timeout(60):
                while last < max(written.values()):
                    for event in await anext(aiter(watch)):
                        assert event.revision == last + 1
                        last = event.revision
                        received[event.key] = event.revision
            assert written.items() <= received.items()
    finally:
        standby.remove()
        (own_server.data / "postgresql.auto.conf").write_text("")
        restart(own_server)


async def test_slow_reader_of_a_watch_receives_every_event(
    postgresql_server: PostgreSQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubewright.storage.postgresql.watch.QUEUE_LIMIT", 10)
    monkeypatch.setattr("kubewright.storage.postgresql.watch._BATCH", 4)
    async with open_storage(postgresql_server.url("slow", LONG_TIMEOUT)) as store:
        watch = store.watch("/", await store.revision())
        await asyncio.gather(*(store.create(f"/{number:03}", b"v") for number in range(100)))
        async with asyncio.timeout(60):
            assert await watch.progress() < 100, "the queue is full"
        assert watch.pending
        assert [event.revision for event in await take(watch, 100)] == list(range(1, 101))
        assert await watch.progress() == 100


async def test_server_is_killed_while_clients_connect(own_server: PostgreSQLServer) -> None:
    """PostgreSQL itself would wait until a client that is too late has sent its first message."""
    own_server.kill()
    signal, settings = (own_server.data / name for name in ("standby.signal", "postgresql.auto.conf"))
    signal.touch()
    own_server.own(signal)
    settings.write_text("hot_standby = off\nauthentication_timeout = 600\n")  # It rejects all connections.
    own_server.start()
    processes = len(own_server.children())
    _, writer = await asyncio.open_connection("127.0.0.1", own_server.port)
    try:
        async with asyncio.timeout(60):
            while len(own_server.children()) == processes:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(own_server.kill)
    finally:
        writer.close()
        signal.unlink()
        settings.write_text("")
        restart(own_server)


async def test_errors_of_connecting(
    own_server: PostgreSQLServer, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own_server.url("errors", LONG_TIMEOUT)
    with pytest.raises(StorageError, match=r'database "missing" does not exist .*createdb missing'):
        await open_storage(url.replace("/postgres?", "/missing?")).open()
    unreachable = own_server.url("errors", "timeout=1", address=f"127.0.0.1:{closed_port}")
    await fails_with(
        rf"PostgreSQL at 127\.0\.0\.1:{closed_port}/postgres: .*check that it is",
        lambda: open_storage(unreachable).open(),
    )
    async with open_storage(url):
        pass
    own_server.execute("UPDATE errors.store SET format = 2")
    with pytest.raises(StorageError, match="the schema errors has the format 2"):
        await open_storage(url).open()
    own_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StorageError, match="has the encoding LATIN1"):
        await open_storage(url.replace("/postgres?", "/latin?")).open()
    monkeypatch.setattr("kubewright.storage.postgresql.connection.MINIMUM_VERSION", (99, 0))
    with pytest.raises(StorageError, match="99 or newer is needed"):
        await open_storage(url).open()
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StorageError, match=r"pip install 'kubewright\[postgresql\]'"):
        await open_storage(url).open()


async def test_passwords_and_permissions(
    own_server: PostgreSQLServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server.execute("CREATE ROLE app LOGIN PASSWORD 'hunter2'")
    rules = own_server.data / "pg_hba.conf"
    original = rules.read_text()
    rules.write_text("host all app all scram-sha-256\n" + original)
    restart(own_server)
    try:
        url = own_server.url("app", LONG_TIMEOUT).replace("kubewright@", "app@")
        secret = tmp_path / "password"
        secret.write_text("wrong\n")
        with pytest.raises(StorageError, match="check the user, its password") as caught:
            await open_storage(f"{url}&password_file={secret}").open()
        assert "wrong" not in str(caught.value)
        with pytest.raises(StorageError, match=r"environment variable APP_PASSWORD .* is not set"):
            await open_storage(f"{url}&password_env=APP_PASSWORD").open()
        secret.write_text("hunter2\n")
        with pytest.raises(StorageError, match="CREATE SCHEMA app AUTHORIZATION app"):
            await open_storage(f"{url}&password_file={secret}").open()
        own_server.execute("CREATE SCHEMA app AUTHORIZATION app")
        async with open_storage(f"{url}&password_file={secret}") as store:
            assert isinstance(store, PostgreSQLStorage)
            assert "hunter2" not in repr(store.options)
            assert await store.create("/k", b"1") == 1
        monkeypatch.setenv("APP_PASSWORD", "hunter2")
        async with open_storage(f"{url}&password_env=APP_PASSWORD") as store:
            assert await store.get("/k") is not None
        monkeypatch.setenv("PGPASSWORD", "hunter2")
        async with open_storage(url) as store:
            assert await store.get("/k") is not None
    finally:
        rules.write_text(original)
        restart(own_server)


async def test_tls_with_client_certificates(own_server: PostgreSQLServer, tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    for name in ("ca.pem", "server.pem", "server.key"):
        copy = own_server.data / name
        copy.write_bytes((files / name).read_bytes())
        copy.chmod(0o600)
        own_server.own(copy)
    settings = own_server.data / "postgresql.auto.conf"
    original = settings.read_text()
    settings.write_text(
        "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\nssl_ca_file = 'ca.pem'\n"
    )
    rules = own_server.data / "pg_hba.conf"
    trusting = rules.read_text()
    rules.write_text("local all all trust\nhostssl all client all cert\nhost all kubewright all trust\n")
    restart(own_server)
    try:
        own_server.execute("CREATE ROLE client LOGIN SUPERUSER")
        url = own_server.url("tls", LONG_TIMEOUT).replace("kubewright@", "client@")
        verified = f"{url}&sslmode=verify-full&sslrootcert={files}/ca.pem"
        async with open_storage(f"{verified}&sslcert={files}/client.pem&sslkey={files}/client.key") as store:
            assert await store.create("/k", b"1") == 1
        with pytest.raises(StorageError, match="certificate"):
            await open_storage(verified).open()
        with pytest.raises(
            StorageError, match=r"cannot read .*missing\.pem \(PostgreSQL option sslrootcert\)"
        ):
            await open_storage(f"{url}&sslmode=verify-full&sslrootcert={tmp_path}/missing.pem").open()
        with pytest.raises(StorageError, match="the TLS options"):
            other = tmp_path / "other"
            other.mkdir()
            make_certificates(other)
            await open_storage(f"{url}&sslmode=verify-full&sslrootcert={other}/ca.pem").open()
    finally:
        rules.write_text(trusting)
        settings.write_text(original)
        restart(own_server)


async def test_unix_socket(postgresql_server: PostgreSQLServer) -> None:
    url = (
        f"postgresql://kubewright@/postgres?host={postgresql_server.directory}&port={postgresql_server.port}"
    )
    async with open_storage(f"{url}&schema=socket&{LONG_TIMEOUT}") as store:
        assert await store.create("/k", b"1") == 1


async def test_keys_expire(postgresql_server: PostgreSQLServer) -> None:
    url = postgresql_server.url("expiry", LONG_TIMEOUT)
    async with open_storage(url) as store, open_storage(url) as other:
        watch = other.watch("/", await store.revision())
        await asyncio.gather(*(store.create(f"/{number}", b"v", ttl=1) for number in range(5)))
        first = await store.create("/long", b"v", ttl=3600)
        await store.update("/long", b"w", expected=first, ttl=3600)
        kept = await store.create("/kept", b"v", ttl=3600)
        await store.update("/kept", b"w", expected=kept)
        events = await take(watch, 14)
        gone = [event for event in events if event.type == "delete"]
        assert {event.key for event in gone} == {f"/{number}" for number in range(5)}
        assert all(event.previous is not None and event.previous.value == b"v" for event in gone)
        assert {item.key for item in (await store.list("")).items} == {"/long", "/kept"}
        expiring = postgresql_server.execute("SELECT key FROM expiry.keys WHERE expires IS NOT NULL")
        assert expiring == "/long", "an update without ttl removes the deadline"


async def test_one_of_several_servers_compacts(postgresql_server: PostgreSQLServer) -> None:
    url = postgresql_server.url("compacting", f"compact_every=0.05&{LONG_TIMEOUT}")
    async with open_storage(url) as one, open_storage(url) as two:
        first = await one.create("/k", b"0")
        second = await two.update("/k", b"1", expected=first)
        await two.delete("/k", expected=second)
        await one.create("/l", b"2")
        async with asyncio.timeout(60):
            while True:
                try:
                    await one.list("/", revision=first)
                    rows = 0
                except Compacted as error:
                    oldest = error.oldest
                    rows = int(postgresql_server.execute("SELECT count(*) FROM compacting.changes"))
                if rows == 1:
                    break
                await asyncio.sleep(0.02)
        assert oldest > first
        assert [item.value for item in (await two.list("")).items] == [b"2"]


async def test_lost_revisions_end_watches(postgresql_server: PostgreSQLServer) -> None:
    """A standby that has not received the last changes was promoted."""
    async with open_storage(postgresql_server.url("promoted", LONG_TIMEOUT)) as store:
        await asyncio.gather(*(store.create(f"/{number}", b"v") for number in range(5)))
        watch = store.watch("/", await store.revision())
        await watch.progress()
        postgresql_server.execute("UPDATE promoted.store SET revision = 3")
        with pytest.raises(Compacted):
            await take(watch, 1)
        assert await store.watch("/", 0).progress() == 3


async def test_rejected_keys_and_values(postgresql_server: PostgreSQLServer) -> None:
    async with open_storage(postgresql_server.url("rejected", LONG_TIMEOUT)) as store:
        with pytest.raises(RequestTooLarge):
            await store.create("/k", bytes(2 * 1024 * 1024))
        for key in ("/a\0b", "/a\ud800b"):
            with pytest.raises(StorageError, match="cannot store the key"):
                await store.create(key, b"v")
            assert await store.get(key) is None
    with pytest.raises(StorageError, match="storage is not open"):
        await store.create("/k", b"v")


async def test_pages_of_large_lists(
    postgresql_server: PostgreSQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubewright.storage.postgresql.storage._PAGE", 7)
    async with open_storage(postgresql_server.url("pages", LONG_TIMEOUT)) as store:
        keys = [f"/n/{number:03}" for number in range(50)]
        await asyncio.gather(*(store.create(key, key.encode()) for key in keys))
        assert [item.key for item in (await store.list("/n/")).items] == keys
        page = await store.list("/n/", limit=20)
        assert ([item.key for item in page.items], page.remaining) == (keys[:20], 30)
        await store.delete("/n/030", expected=page.items[0].mod_revision + 30)
        rest = await store.list("/n/", start="/n/019\0", revision=page.revision)
        assert [item.key for item in rest.items] == keys[20:]


async def test_statements_read_indexes_in_order(postgresql_server: PostgreSQLServer) -> None:
    """Cached plans stay fast when the tables grow: no plan reads a table, sorts it or starts processes."""
    async with open_storage(postgresql_server.url("plans", LONG_TIMEOUT)) as store:
        assert isinstance(store, PostgreSQLStorage)
        statements = store._statements
        for statement, *arguments in (
            (statements.get, ["/a"]),
            (statements.list, "/a", "/b", "", 10),
            (statements.list_at, "/a", "/b", "", 10, 5),
            (statements.count, "/a", "/b", 5),
            (statements.changes, 5, "/a", 10),
            (statements.expiries,),
        ):
            rows = await store._connections.fetch(f"EXPLAIN (COSTS OFF) {statement}", *arguments)
            plan = "\n".join(row[0] for row in rows)
            assert "Seq Scan on keys" not in plan, plan
            assert "Seq Scan on changes" not in plan, plan
            assert "Gather" not in plan, plan
            assert "Bitmap" not in plan, plan


async def test_backup_and_restore(postgresql_server: PostgreSQLServer, tmp_path: Path) -> None:
    url = postgresql_server.url("backup", LONG_TIMEOUT)
    async with open_storage(url) as store:
        first = await store.create("/a", b"1")
        await store.create("/b", b"2")
        assert await backup(url, tmp_path / "monday.backup") == 2
        await store.update("/a", b"changed", expected=first)
        await store.create("/c", b"3")
        watch = store.watch("/", await store.revision())
        assert await restore(url, tmp_path / "monday.backup") == (1, 1, 1)
        assert {event.key for event in await take(watch, 2)} == {"/a", "/c"}
        assert {item.key: item.value for item in (await store.list("")).items} == {"/a": b"1", "/b": b"2"}
