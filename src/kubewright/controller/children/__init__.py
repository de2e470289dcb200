"""The objects that an owner should have.

- `desired_state`: the objects that an owner should have; others that were applied for it are
  deleted
- `object_sets`: the objects of an owner, of any kind and in any namespace, with an inventory
"""
