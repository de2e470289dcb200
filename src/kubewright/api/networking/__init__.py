"""Built-in types of the `networking.k8s.io` group."""
