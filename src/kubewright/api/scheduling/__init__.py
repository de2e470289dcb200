"""Built-in types of the `scheduling.k8s.io` group."""
