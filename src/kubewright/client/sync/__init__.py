"""The client for programs without an event loop: a `Client` that runs in a background thread.

- `sync_client`: `SyncClient`, the verbs; generated from those of `Client`
- `base`: the thread, and verbs with a form of their own
- `streams`: watches, logs, commands and port forwards as iterators and context managers
- `event_loop_thread`: the event loop in its thread
"""
