"""Built-in types of the `authorization.k8s.io` group."""
