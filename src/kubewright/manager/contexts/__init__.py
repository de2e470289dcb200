"""What the functions of an operator receive: `Context`, its blocking form, and memory of objects.

- `context`: `Context`: what a function of an operator needs to process one object
- `object_memories`: `ObjectMemories`: the values that functions keep for single objects (`ctx.memory`)
- `sync_context`: `SyncContext` and `SyncCachedClient`: the context and the client of plain (`def`) functions
- `unawaited`: detects coroutines of `Context` and of an operator's client that a function created and never
  awaited
"""
