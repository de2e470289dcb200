"""Kinds of the API group storage.k8s.io: StorageClass, CSI objects, VolumeAttachment.

- `csi_driver`: CSIDriver
- `csi_node`: CSINode
- `csi_storage_capacity`: CSIStorageCapacity
- `storage_class`: StorageClass and VolumeAttributesClass
- `volume_attachment`: VolumeAttachment
"""
