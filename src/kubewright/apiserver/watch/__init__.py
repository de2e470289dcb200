"""Event distribution from storage to watches.

- `dispatcher`: one watch on storage for the whole server.
- `cache`: recent events and active watches of one resource.
- `event`: one event, encoded once for all watches.
- `watcher`: the stream of one client.
"""
