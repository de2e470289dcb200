"""Built-in types of the `resource.k8s.io` group."""
