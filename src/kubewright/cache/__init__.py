"""The cache: objects of selected kinds in memory, kept in sync by watches.

    async with Client.connect() as client, Cache(client) as cache:
        cached = CachedClient.from_client(client, cache)
        web = await cached.get(Deployment, "web", namespace="shop")     # no request
        web.spec.replicas = 3
        await cached.update(web)                                        # the next read returns it

Modules, lowest first; each works without those after it:

- `store`: one copy of each object, as bytes; `indexes`: values to find them by
- `reflector`: list and watch one collection, with retries; `list_watch`: its requests
- `informer`: reflectors, a store and event handlers of one kind
- `informer_manager`: the informers of a cache; `kind_options`: what they hold; `projection`: some
  fields only
- `cache`: `Cache`, reads from the informers; `queries`, `errors`, `metrics`
- `cached_client`: `CachedClient`, which reads from a cache; `write_through`: its writes update the cache
"""

from .cache import Cache, CacheListArguments, KindUsage
from .cached_client import CachedClient
from .errors import CacheError, CachingNotAllowed, NoInformer, NotCached, NotSynced
from .indexes import Index, by_field, by_function, by_label, by_owner
from .informer import Informer, ResourceEventHandler, Transform
from .kind_options import KindOptions
from .list_watch import ListWatch
from .metrics import CacheCollector
from .reflector import ListerWatcher, Reflector
from .store import CacheEntry, ObjectChange, ObjectKey, Store, strip_managed_fields

__all__ = [
    "Cache",
    "CacheCollector",
    "CacheEntry",
    "CacheError",
    "CacheListArguments",
    "CachedClient",
    "CachingNotAllowed",
    "Index",
    "Informer",
    "KindOptions",
    "KindUsage",
    "ListWatch",
    "ListerWatcher",
    "NoInformer",
    "NotCached",
    "NotSynced",
    "ObjectChange",
    "ObjectKey",
    "Reflector",
    "ResourceEventHandler",
    "Store",
    "Transform",
    "by_field",
    "by_function",
    "by_label",
    "by_owner",
    "strip_managed_fields",
]
