"""Kinds of the API group node.k8s.io: RuntimeClass.

- `runtime_class`: RuntimeClass
"""
