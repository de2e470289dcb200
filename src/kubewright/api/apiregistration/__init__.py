"""Built-in types of the `apiregistration.k8s.io` group."""
