"""Kinds of the API group apps: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision."""
