from .backups import Restored as Restored
from .backups import backup as backup
from .backups import restore as restore
from .contract import Compacted as Compacted
from .contract import FutureRevision as FutureRevision
from .contract import KeyExists as KeyExists
from .contract import KeyValue as KeyValue
from .contract import Page as Page
from .contract import RequestTooLarge as RequestTooLarge
from .contract import RevisionMismatch as RevisionMismatch
from .contract import Storage as Storage
from .contract import StorageError as StorageError
from .contract import StorageEvent as StorageEvent
from .contract import StorageUnavailable as StorageUnavailable
from .contract import StorageWatch as StorageWatch
from .etcd.storage import EtcdStorage as EtcdStorage
from .keyspace import History as History
from .local import Rewound as Rewound
from .memory import MemoryStorage as MemoryStorage
from .postgresql.storage import PostgreSQLStorage as PostgreSQLStorage
from .sqlite.logfile import DamagedStore as DamagedStore
from .sqlite.storage import SQLiteStorage as SQLiteStorage
from .sqlite.store_lock import StoreInUse as StoreInUse
from .url import open_storage as open_storage

BACK_ENDS: dict[str, str]
