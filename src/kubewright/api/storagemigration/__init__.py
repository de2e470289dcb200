"""Built-in types of the `storagemigration.k8s.io` group."""
