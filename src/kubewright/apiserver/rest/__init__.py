"""The verbs of a resource.

- `endpoint`: one version of a resource; routes a request to its verb.
- `store`: reads and converts the stored objects of one resource.
- `list`, `watch`, `initial_events`: collections.
- `writes`, `patch`, `delete`: the steps between a request and storage.
- `handlers`, `scale`: verbs and subresources that are not plain storage.
- `options`, `selection`: query parameters and selectors.
- `object_schema`, `metadata`, `validation`: defaulting, pruning and validation.
"""
