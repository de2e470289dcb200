"""Built-in types of the `coordination.k8s.io` group."""
