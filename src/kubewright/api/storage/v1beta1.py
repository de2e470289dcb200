"""Types of `storage.k8s.io/v1beta1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList


class VolumeAttributesClass(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1beta1", "VolumeAttributesClass")

    driver_name: str | None = None
    parameters: dict[str, str] | None = None


class VolumeAttributesClassList(ObjectList[VolumeAttributesClass]):
    gvk = GroupVersionKind("storage.k8s.io", "v1beta1", "VolumeAttributesClassList")


__all__ = ["VolumeAttributesClass", "VolumeAttributesClassList"]
