"""Built-in types of the `certificates.k8s.io` group."""
