"""Types of `networking.k8s.io/v1beta1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct


class ParentReference(Struct):
    group: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None


class IPAddressSpec(Struct):
    parent_ref: ParentReference | None = None


class IPAddress(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1beta1", "IPAddress")

    spec: IPAddressSpec | None = None


class IPAddressList(ObjectList[IPAddress]):
    gvk = GroupVersionKind("networking.k8s.io", "v1beta1", "IPAddressList")


class ServiceCIDRSpec(Struct):
    cidrs: list[str] | None = None


class ServiceCIDRStatus(Struct):
    conditions: list[Condition] | None = None


class ServiceCIDR(MetaObject):
    gvk = GroupVersionKind("networking.k8s.io", "v1beta1", "ServiceCIDR")

    spec: ServiceCIDRSpec | None = None
    status: ServiceCIDRStatus | None = None


class ServiceCIDRList(ObjectList[ServiceCIDR]):
    gvk = GroupVersionKind("networking.k8s.io", "v1beta1", "ServiceCIDRList")


__all__ = [
    "IPAddress",
    "IPAddressList",
    "IPAddressSpec",
    "ParentReference",
    "ServiceCIDR",
    "ServiceCIDRList",
    "ServiceCIDRSpec",
    "ServiceCIDRStatus",
]
