"""Kinds of the API group apps: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision.

- `controller_revision`: ControllerRevision
- `daemon_set`: DaemonSet
- `deployment`: deployment
- `replica_set`: ReplicaSet
- `stateful_set`: StatefulSet: defaults, validation and warnings
"""
