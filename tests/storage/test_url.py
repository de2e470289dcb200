"""Storage URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.storage import EtcdStorage, MemoryStorage, SQLiteStorage, StorageError, open_storage


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


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("state.db", "is not a storage URL; use memory:, sqlite:PATH or etcd://"),
        ("postgres://db", "unknown storage 'postgres'"),
        ("memory:there", "memory storage has no path"),
        ("sqlite:", "has no path"),
        ("etcd:///registry", "has no etcd address"),
        ("etcd://host:port", "'host:port' is not an etcd address"),
        ("etcd://h:1?color=red", "unknown etcd option 'color'; use one of cacert, cert,"),
        ("etcd://h:1?tls=maybe", "tls is true or false"),
        ("etcd://h:1?timeout=soon", "timeout is a number of seconds"),
        ("etcd://h:1?cert=c.pem", "cert and key must be used together"),
        ("etcd://h:1?user=u", "needs password_file=FILE or password_env=NAME"),
    ],
)
def test_invalid_urls(url: str, message: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "url", ["etcd://u:hunter2@h:1", "etcd://h:1?password=hunter2", "etcds://u:hunter2@h"]
)
def test_passwords_in_urls_are_rejected_and_not_printed(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    assert "hunter2" not in str(caught.value)
