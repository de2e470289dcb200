"""Built-in types of the `events.k8s.io` group."""
