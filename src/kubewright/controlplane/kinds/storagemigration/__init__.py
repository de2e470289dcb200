"""Kinds of the API group storagemigration.k8s.io: StorageVersionMigration."""
