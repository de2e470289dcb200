"""Kinds of the API group rbac.authorization.k8s.io: roles and role bindings.

- `role`: role, ClusterRole, RoleBinding and ClusterRoleBinding
"""
