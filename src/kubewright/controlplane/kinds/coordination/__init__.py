"""Kinds of the API group coordination.k8s.io: Lease.

- `lease`: lease
"""
