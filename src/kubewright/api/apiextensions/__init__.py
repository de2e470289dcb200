"""Built-in types of the `apiextensions.k8s.io` group."""
