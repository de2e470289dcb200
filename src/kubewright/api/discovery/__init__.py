"""Built-in types of the `discovery.k8s.io` group."""
