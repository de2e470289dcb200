"""Informers: a store and event handlers of one kind.

- `informer`: `Informer`: one kind, kept in sync by reflectors, with event handlers and the writes of this
  client
- `informer_handlers`: `InformerHandlers`: the event handlers of an informer, and their resyncs
- `informer_manager`: `InformerManager`: create, start and stop the informers of a cache, one per kind
- `informer_state`: `InformerState`: the objects of one kind, their event handlers and the own writes
- `namespace_feed`: `NamespaceFeed`: the reflector of one namespace, or of all, and the part of an informer
  that it fills
- `own_writes`: the writes of this client that the watch of an informer has not delivered yet
- `resync`: `Resync`: calls an event handler again for every stored object, at least once per period
- `version_decoder`: `VersionDecoder`: the entries of received versions, and versions that cannot be decoded
"""
