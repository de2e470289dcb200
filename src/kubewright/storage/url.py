"""Open a storage by URL."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypedDict, Unpack

from . import BACK_ENDS
from .contract import Storage, StorageError

if TYPE_CHECKING:
    from .keyspace import History


class EtcdKeywords(TypedDict, total=False):
    """Options of etcd; see `EtcdOptions`."""

    tls: bool
    cacert: str | None
    cert: str | None
    key: str | None
    server_name: str | None
    user: str | None
    password_file: str | None
    password_env: str | None
    timeout: float
    compact_every: float


class PostgreSQLKeywords(TypedDict, total=False):
    """Options of PostgreSQL; see `PostgreSQLOptions`."""

    user: str | None
    schema: str
    passfile: str | None
    password_file: str | None
    password_env: str | None
    sslmode: str | None
    sslrootcert: str | None
    sslcert: str | None
    sslkey: str | None
    timeout: float
    compact_every: float
    connections: int
    max_request_bytes: int


class StorageOptions(EtcdKeywords, PostgreSQLKeywords, total=False):
    """Options of `open_storage`."""

    history: History | None
    """Limits of the history of memory and SQLite storages."""
    clock: Callable[[], float]
    """Clock of memory and SQLite storages."""
    accept_data_loss: bool
    """Open a damaged SQLite file with the intact part of its data."""
    fsync: bool
    """Whether writes to a SQLite file wait until they are on the disk."""


def open_storage(url: str, **options: Unpack[StorageOptions]) -> Storage:
    """Return the storage of a URL; open it with `async with`.

    - `memory:` is in this process.
    - `sqlite:PATH` is a file. Options of both: `history`, `clock`.
    - `etcd://HOST:PORT[,HOST:PORT...][/PREFIX][?name=value&...]` is in etcd, with a key prefix; see
      `EtcdOptions` for the options.
    - `postgresql://[USER@]HOST[:PORT][,...]/DATABASE[?name=value&...]` is in PostgreSQL; see
      `PostgreSQLOptions` for the options.

    Raises `StorageError` for an invalid URL.
    """
    forms = {form.partition(":")[0]: form for form in BACK_ENDS}
    *first, last = BACK_ENDS
    known = f"{', '.join(first)} or {last}"
    scheme, colon, _ = url.partition(":")
    if not colon:
        raise StorageError(f"{url!r} is not a storage URL; use {known}")
    form = forms.get("postgresql" if scheme == "postgres" else scheme)
    if form is None:
        raise StorageError(f"unknown storage {scheme!r}; use {known}")
    module, _, name = BACK_ENDS[form].partition(":")
    storage: Storage = getattr(import_module(module, __package__), name).from_url(url, **options)
    return storage
