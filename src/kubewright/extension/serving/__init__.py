"""Serving an `APIServerApp`: settings, certificates, registration, permissions.

- `rbac`: RBAC rules that an extension API server requires, beside those to delegate authentication
- `registration`: registration of a running extension API server with its cluster
- `resources`: resources of an `APIServer` from the declarations of an `APIServerApp`
- `runtime`: serves an `APIServerApp`
- `settings`: settings of an extension API server: what differs between a development machine and a cluster
"""
