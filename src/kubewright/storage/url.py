"""Stores by URL, so that a flag or a setting can name one."""

from __future__ import annotations

from typing import Any

from .contract import Storage, StorageError

_FORMS = "memory:, sqlite:PATH or etcd://HOST:PORT[,HOST:PORT...][/PREFIX]"


def open_storage(url: str, **options: Any) -> Storage:
    """The store that a URL names; open it with `async with`.

    - `memory:` keeps everything in this process.
    - `sqlite:PATH` keeps it in a file. Options of both: `history`, `clock`.
    - `etcd://HOST:PORT[,HOST:PORT...][/PREFIX][?name=value&...]` keeps it in etcd, under keys that begin with
      PREFIX; see `EtcdStorage` for the names.

    Raises `StorageError` when the URL cannot be understood.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise StorageError(f"{url!r} is not a storage URL; use {_FORMS}")
    if scheme == "memory":
        if rest.strip("/"):
            raise StorageError(f"{url!r}: a memory store has no path; use memory:")
        from .memory import MemoryStorage

        return MemoryStorage(**options)
    if scheme == "sqlite":
        path = rest[2:] if rest.startswith("//") else rest
        if not path:
            raise StorageError(f"{url!r} names no file; use sqlite:PATH, such as sqlite:./state.db")
        from .sqlite import SQLiteStorage

        return SQLiteStorage(path, **options)
    if scheme == "etcd":
        from .etcd import EtcdStorage

        return EtcdStorage.from_url(url, **options)
    raise StorageError(f"there is no storage {scheme!r}; use {_FORMS}")
