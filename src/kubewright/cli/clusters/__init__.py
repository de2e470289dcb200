"""Commands that run control planes, and read and change their stores.

- `backup`: `kubewright backup`: writes the state of a store to a file
- `diff`: `kubewright diff`: prints what changed in an embedded control plane between two moments
- `dns`: `kubewright dns`: serves cluster DNS
- `envtest`: `kubewright envtest`: writes executables that Go's envtest starts
- `history_requests`: requests of `kubewright rewind` and `kubewright diff` to the history of a control plane
- `export`: `kubewright export`: writes the objects of a cluster to a file, redacted
- `fake`: `kubewright fake`: serves fake applications behind Services of a cluster
- `load`: `kubewright load`: brings images to the nodes of this machine
- `migrate_storage`: `kubewright migrate-storage`: stores all objects of CRDs in their storage version
- `node`: `kubewright node`: what a machine needs to be a node
- `restore`: `kubewright restore`: makes a store equal to a backup
- `rewind`: `kubewright rewind`: restores an earlier state of an embedded control plane
- `token`: `kubewright token`: bootstrap tokens, with which machines join a cluster
- `undecodable`: `kubewright undecodable`: lists stored objects that cannot be decoded, and deletes them
- `up`: `kubewright up`: runs a control plane in the foreground
- `up_node`: `--kubelet` of `kubewright up`: this machine as a node, beside the control plane
- `up_options`: the options of `kubewright up`: flags and the config file, both derived from the model of
  options
- `up_start`: start of the control plane of `kubewright up`, which waits for an unavailable storage
- `up_workers`: `--workers` of `kubewright up`: the processes that share the port and the store
"""
