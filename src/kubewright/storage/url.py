"""Open a storage by URL."""

from __future__ import annotations

from typing import Any

from .contract import Storage, StorageError

_FORMS = "memory:, sqlite:PATH or etcd://HOST:PORT[,HOST:PORT...][/PREFIX]"


def open_storage(url: str, **options: Any) -> Storage:
    """Return the storage of a URL; open it with `async with`.

    - `memory:` is in this process.
    - `sqlite:PATH` is a file. Options of both: `history`, `clock`.
    - `etcd://HOST:PORT[,HOST:PORT...][/PREFIX][?name=value&...]` is in etcd, with a key prefix; see
      `EtcdOptions` for the options.

    Raises `StorageError` for an invalid URL.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise StorageError(f"{url!r} is not a storage URL; use {_FORMS}")
    if scheme == "memory":
        if rest.strip("/"):
            raise StorageError(f"{url!r}: memory storage has no path; use memory:")
        from .memory import MemoryStorage

        return MemoryStorage(**options)
    if scheme == "sqlite":
        path = rest[2:] if rest.startswith("//") else rest
        if not path:
            raise StorageError(f"{url!r} has no path; use sqlite:PATH, such as sqlite:./state.db")
        from .sqlite import SQLiteStorage

        return SQLiteStorage(path, **options)
    if scheme == "etcd":
        from .etcd import EtcdStorage

        return EtcdStorage.from_url(url, **options)
    raise StorageError(f"unknown storage {scheme!r}; use {_FORMS}")
