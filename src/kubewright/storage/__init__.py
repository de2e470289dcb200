"""Revisioned key-value store with watch: in memory, in SQLite, in etcd or in PostgreSQL.

    async with open_storage("sqlite:state.db") as store:
        revision = await store.create("/notes/a", b"hello")
        await store.update("/notes/a", b"world", expected=revision)

- `contract`: `Storage` and `StorageWatch`, which every implementation provides.
- `memory`, `sqlite`, `etcd`, `postgresql`: the implementations; `url` opens one by URL.
- `local`, `keyspace`, `sorted_keys`: what memory and SQLite share.
- `logfile`, `rows`, `high_water_mark`, `store_lock`: the SQLite file; `backups`: backup and restore.
- `etcd_connection`, `etcd_watch`: the parts of etcd.
- `postgresql_options`, `postgresql_connection`, `postgresql_schema`, `postgresql_watch`: the parts of
  PostgreSQL.
- `socket_server`, `socket_storage`: the storage of one process for other processes of the machine;
  `socket_messages`, `shared_revision`: the parts of both.
- `testing`: `StorageLaws`, tests of the contract for every implementation.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
