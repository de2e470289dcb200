"""The verbs of a resource, from a request to storage and back.

- `create`: POST: from a request body to a stored object
- `delete`: preconditions, grace periods, propagation, finalizers
- `functions`: verbs and subresources that a function serves instead of storage
- `get`: GET of one object
- `list`: GET of a collection: selectors, pages, resource versions
- `patch`: from a patch to the object that is stored
- `scale`: the `scale` subresource: an `autoscaling/v1` Scale for three fields of an object
- `update`: PUT, and the compare-and-swap loop behind every update
- `watch`: watch requests: where a stream starts, and which events it carries
"""
