"""Storage URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.storage import (
    EtcdStorage,
    MemoryStorage,
    PostgreSQLStorage,
    SQLiteStorage,
    StorageError,
    open_storage,
)


def test_storage_of_each_scheme() -> None:
    assert isinstance(open_storage("memory:"), MemoryStorage)
    for url in ("sqlite:/tmp/x/state.db", "sqlite:///tmp/x/state.db"):
        store = open_storage(url)
        assert isinstance(store, SQLiteStorage)
        assert store.path == Path("/tmp/x/state.db").resolve()
    relative = open_storage("sqlite:state.db")
    assert isinstance(relative, SQLiteStorage)
    assert relative.path == Path("state.db").resolve()
    store = open_storage("etcd://a:1,b,[::1]:3/my/prefix/?cacert=ca.pem&timeout=3&user=u&password_env=P")
    assert isinstance(store, EtcdStorage)
    assert store.options.endpoints == ("a:1", "b:2379", "[::1]:3")
    assert (store.options.prefix, store.options.cacert, store.options.timeout) == (
        "/my/prefix",
        "ca.pem",
        3.0,
    )
    store = open_storage("postgresql://me@a:1,b,[::1]:3/my%20db?schema=s&sslmode=require&timeout=3")
    assert isinstance(store, PostgreSQLStorage)
    assert store.options.addresses == (("a", 1), ("b", None), ("::1", 3))
    assert (store.options.user, store.options.database, store.options.schema) == ("me", "my db", "s")
    assert (store.options.sslmode, store.options.timeout) == ("require", 3.0)
    assert store.options.where == "a:1,b,::1:3/my db"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("state.db", "is not a storage URL; use memory:, sqlite:PATH, etcd://"),
        ("mysql://db", "unknown storage 'mysql'"),
        ("memory:there", "memory storage has no path"),
        ("sqlite:", "has no path"),
        ("etcd:///registry", "has no etcd address"),
        ("etcd://host:port", "'host:port' is not an etcd address"),
        ("etcd://h:1?color=red", "unknown etcd option 'color'; use one of cacert, cert,"),
        ("etcd://h:1?tls=maybe", "tls is true or false"),
        ("etcd://h:1?timeout=soon", "timeout is a number of seconds"),
        ("etcd://h:1?cert=c.pem", "cert and key must be used together"),
        ("etcd://h:1?user=u", "needs password_file=FILE or password_env=NAME"),
        ("postgresql://h", "has no database name; use postgresql://[USER@]HOST[:PORT]"),
        ("postgres://h:port/db", "'h:port' is not a PostgreSQL address"),
        ("postgres://h/db?color=red", "unknown PostgreSQL option 'color'; use one of compact_every,"),
        ("postgres://h/db?timeout=soon", "timeout is a number of seconds"),
        ("postgres://h/db?connections=1", "connections is at least 4"),
        ("postgres://h/db?schema=My-Schema", "schema is at most 63 lower-case letters"),
        ("postgres://h/db?sslcert=c.pem", "sslcert and sslkey must be used together"),
    ],
)
def test_invalid_urls(url: str, message: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "etcd://u:hunter2@h:1",
        "etcd://h:1?password=hunter2",
        "etcds://u:hunter2@h",
        "postgresql://u:hunter2@h/db",
        "postgresql://h/db?password=hunter2",
    ],
)
def test_passwords_in_urls_are_rejected_and_not_printed(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    assert "hunter2" not in str(caught.value)
