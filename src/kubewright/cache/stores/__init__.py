"""Stores of objects, their indexes and selection.

- `indexes`: indexes, so that a list costs as much as it returns
- `object_metadata`: the part of an object's metadata that controllers read, decoded without the rest of the
  object
- `projection`: projection of cached objects: store only the fields that readers declare
- `queries`: select the objects of a list from a store: namespace, labels, fields and owner, through indexes
- `spill`: `SpilledStore`: a store whose objects are in a file instead of in memory
- `store`: `Store`: the objects of one kind, as the bytes of the response that contained them
"""
