"""Built-in types of the `internal.apiserver.k8s.io` group."""
