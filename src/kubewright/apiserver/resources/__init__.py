"""Declaration of resources: names, versions, strategies, conversion, subresources.

- `conversion`: conversion between the versions of one resource
- `object_schema`: objects and the schema of their version: decode, prune, default, validate
- `objects`: plain JSON objects: the dicts that requests, strategies and storage exchange
- `resource`: declaration of resources: names, versions, columns, and what serves them
- `stored_objects`: stored values that cannot be decoded: damaged, or encrypted with a key that is missing
- `strategy`: strategies: what is specific to one resource in the processing of a write
- `subresource`: declaration of subresources: status, scale and those that a function serves
- `typed`: resources from Python classes that are declared with `@resource`
"""
