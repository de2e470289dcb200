"""Several servers on one storage: election of controllers, identity, worker processes.

- `controller_election`: leader election of controllers: of the replicas on one storage, one runs the
  controllers and the nodes
- `identity_lease`: the identity lease of an API server: a Lease in `kube-system` that is renewed while the
  server runs
- `workers`: `Workers`: further processes that serve the API of a control plane, on the same port and store
"""
