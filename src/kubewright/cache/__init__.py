"""The cache: objects of selected kinds in memory, kept in sync by watches.

    async with Client.connect() as client, Cache(client) as cache:
        cached = CachedClient.from_client(client, cache)
        web = await cached.get(Deployment, "web", namespace="shop")     # no request
        web.spec.replicas = 3
        await cached.update(web)                                        # the next read returns it

- `cache`: `Cache`: the informers of a program, and reads from them without requests
- `cached_client`: `CachedClient`: a `Client` that reads from a cache, writes to the server, and sees its own
  writes
- `errors`: errors of the cache
- `informers`: a store and event handlers of one kind
- `kind_options`: `KindOptions`: which objects of a kind a cache holds, and how much of them
- `metrics`: Prometheus metrics of a cache
- `read_spans`: `CacheReadPublisher`: adds the reads from a cache to the spans of reconciles
- `reflectors`: lists and watches of one collection, through all failures
- `stores`: stores of objects, their indexes and selection
- `write_through`: pass the responses of writes to the informers, so that reads see the writes of this client
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
