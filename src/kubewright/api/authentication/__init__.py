"""Built-in types of the `authentication.k8s.io` group."""
