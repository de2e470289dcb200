"""Revisioned key-value store with watch: in memory, in SQLite, in etcd or in PostgreSQL.

    async with open_storage("sqlite:state.db") as store:
        revision = await store.create("/notes/a", b"hello")
        await store.update("/notes/a", b"world", expected=revision)

A new back end is a module with a class that passes `testing.StorageLaws`, and a line of `BACK_ENDS`.

- `backups`: backups of a store while servers use it
- `contract`: the storage contract: a revisioned key-value store with history and watch
- `etcd`: storage in etcd
- `keyspace`: state of a storage in memory: current values, recent history and watches
- `local`: base of the storages in this process: everything except durability
- `memory`: storage in memory
- `postgresql`: storage in PostgreSQL
- `socket`: the storage of one process for other processes of the machine
- `sorted_keys`: a sorted set of keys
- `sqlite`: storage in a SQLite file
- `timeline`: `Timeline`: which revision a store had at which time
- `testing`: tests of the storage contract, for every implementation of `Storage`
- `url`: open a storage by URL
"""

from kubewright.lazy import attach_stub

BACK_ENDS = {
    "memory:": ".memory:MemoryStorage",
    "sqlite:PATH": ".sqlite.storage:SQLiteStorage",
    "etcd://HOST:PORT[,HOST:PORT...][/PREFIX]": ".etcd.storage:EtcdStorage",
    "postgresql://[USER@]HOST[:PORT]/DATABASE": ".postgresql.storage:PostgreSQLStorage",
}
"""The form of the URLs of each back end, its module, and the class whose method `from_url` opens it."""

__getattr__, __dir__ = attach_stub(__name__)
