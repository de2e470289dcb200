"""Built-in types of the `lifecycle.k8s.io` group."""
