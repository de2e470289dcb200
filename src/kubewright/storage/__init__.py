"""A revisioned key-value store with watch, in memory, in SQLite or in etcd.

`Storage` is the contract: one counter for all writes, reads at a revision, writes that lose if somebody else
was first, a stream of changes without gaps. `open_storage` makes one from a URL. The laws that every
implementation keeps are written as tests (tests/storage/test_laws.py).
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
