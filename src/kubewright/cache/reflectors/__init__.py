"""Reflectors: lists and watches of one collection, through all failures.

- `list_watch`: `ListWatch`: lists and watches of one collection through a client, for a reflector
- `lister_watcher`: `ListerWatcher`: what an informer needs of the place where objects are stored
- `reflector`: `Reflector`: keep a handler in sync with one collection of a server, through all failures
"""
