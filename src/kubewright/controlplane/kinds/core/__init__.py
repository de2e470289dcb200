"""Kinds of the core (legacy) API group: Pod, Service, Node, Namespace, ConfigMap and others.

`podspec` validates and defaults pod specs, for pods and for the pod templates of other groups.
"""
