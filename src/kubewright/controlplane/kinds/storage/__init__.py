"""Kinds of the API group storage.k8s.io: StorageClass, CSI objects, VolumeAttachment."""
