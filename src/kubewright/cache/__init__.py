"""The cache: objects of selected kinds in memory, kept in sync by watches.

    async with Client.connect() as client, Cache(client) as cache:
        cached = CachedClient.from_client(client, cache)
        web = await cached.get(Deployment, "web", namespace="shop")     # no request
        web.spec.replicas = 3
        await cached.update(web)                                        # the next read returns it

Modules, lowest first; each works without those after it:

- `store`: one copy of each object; `object_metadata`: what controllers read of it; `indexes`: values to find
  objects by; `spill`: the bytes in a file
- `lister_watcher`: what a reflector needs of a server or storage; `list_watch`: requests to a server
- `reflector`: list and watch one collection, with retries
- `informer`: a store and event handlers of one kind; `namespace_feed`: what it receives from a reflector;
  `own_writes`: writes of this client that its watch has not delivered yet; `resync`: periodic calls of
  handlers for all objects
- `informer_manager`: the informers of a cache; `kind_options`: what they hold; `projection`: some
  fields only
- `cache`: `Cache`, reads from the informers; `queries`, `errors`, `metrics`
- `cached_client`: `CachedClient`, which reads from a cache; `write_through`: its writes update the cache
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
