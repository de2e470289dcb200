"""The cache: the state of chosen kinds, kept in step with a server and read without it.

In layers, lowest first; each works without those above it:

- `store`: one copy of each object, as bytes, with `indexes`
- `reflector`: follows one collection through every kind of failure
- `informer`: reflectors and a store for one kind, its handlers, and our own writes taken in at once
- `cache`: `Cache`, the informers of a program and reads from them; `options`, `errors`, `metrics`
- `cached_client`: `CachedClient`, a `Client` that reads from a cache and sees its own writes

Go's informers keep a copy each for typed, unstructured and metadata readers; here all of them decode one.
"""

from .cache import Cache, KindUsage
from .cached_client import CachedClient
from .errors import CacheError, NoInformer, NotCached, NotSynced, Refused
from .indexes import Index, by, by_field, by_label, by_owner
from .informer import Handler, Informer, Transform
from .metrics import CacheCollector
from .options import KindOptions
from .store import Change, Entry, Key, Store, strip_managed_fields

__all__ = [
    "Cache",
    "CacheCollector",
    "CacheError",
    "CachedClient",
    "Change",
    "Entry",
    "Handler",
    "Index",
    "Informer",
    "Key",
    "KindOptions",
    "KindUsage",
    "NoInformer",
    "NotCached",
    "NotSynced",
    "Refused",
    "Store",
    "Transform",
    "by",
    "by_field",
    "by_label",
    "by_owner",
    "strip_managed_fields",
]
