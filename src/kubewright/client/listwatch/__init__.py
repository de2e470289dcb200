"""Lists and watches of collections: pages, resumable watches, and their raw bytes for caches.

- `pager`: `ListPager`: a list that is fetched in pages
- `raw`: lists and watches whose objects stay bytes; the cache uses them
- `watch`: `Watch`: a watch that continues after the server ends a request or the connection breaks
"""
