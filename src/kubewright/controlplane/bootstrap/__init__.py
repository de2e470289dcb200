"""The objects that a new cluster contains.

- `flows`: default priority levels and flow schemas of API priority and fairness
- `join_objects`: what `kubeadm join` reads
- `objects`: bootstrap objects: namespaces, RBAC, priority classes, flow control and the API server's own
  service
- `roles`: bootstrap RBAC: the roles and bindings of a new cluster, in a compact notation
- `updates`: changes of existing bootstrap objects at the start: another version may have written them
"""
