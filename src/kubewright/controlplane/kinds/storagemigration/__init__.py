"""Kinds of the API group storagemigration.k8s.io: StorageVersionMigration.

- `storage_version_migration`: StorageVersionMigration
"""
