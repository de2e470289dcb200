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
from .errors import CacheError, CachingNotAllowed, NoInformer, NotCached, NotSynced
from .indexes import Index, by_field, by_function, by_label, by_owner
from .informer import Informer, ResourceEventHandler, Transform
from .kind_options import KindOptions
from .metrics import CacheCollector
from .store import CacheEntry, ObjectChange, ObjectKey, Store, strip_managed_fields

__all__ = [
    "Cache",
    "CacheCollector",
    "CacheEntry",
    "CacheError",
    "CachedClient",
    "CachingNotAllowed",
    "Index",
    "Informer",
    "KindOptions",
    "KindUsage",
    "NoInformer",
    "NotCached",
    "NotSynced",
    "ObjectChange",
    "ObjectKey",
    "ResourceEventHandler",
    "Store",
    "Transform",
    "by_field",
    "by_function",
    "by_label",
    "by_owner",
    "strip_managed_fields",
]
