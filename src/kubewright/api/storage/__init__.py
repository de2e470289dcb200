"""Built-in types of the `storage.k8s.io` group."""
