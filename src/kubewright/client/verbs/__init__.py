"""The verbs of a client, grouped by what they do; `Client` inherits all of them.

- `apply_yaml`: apply the objects of manifests, as `kubectl apply --server-side -f`
- `base`: `BaseClient`: what all verbs share, and the options that `Client.with_...` methods change
- `create_or_update`: create or update an object, and retry a function after conflicts
- `pods`: verbs on running pods: log, exec, attach, port_forward, copy_to, copy_from
- `read`: read verbs: get, list, watch, wait, and the raw forms that caches use
- `subresource`: subresources of an object: `scale`, `eviction`, `token`, `approval`, `status` and so on
- `write`: write verbs: create, update, patch, apply, delete
"""
