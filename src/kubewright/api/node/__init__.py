"""Built-in types of the `node.k8s.io` group."""
