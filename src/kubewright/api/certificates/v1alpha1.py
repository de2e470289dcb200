"""Types of `certificates.k8s.io/v1alpha1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct


class ClusterTrustBundleSpec(Struct):
    signer_name: str | None = None
    trust_bundle: str | None = None


class ClusterTrustBundle(MetaObject):
    gvk = GroupVersionKind("certificates.k8s.io", "v1alpha1", "ClusterTrustBundle")

    spec: ClusterTrustBundleSpec | None = None


class ClusterTrustBundleList(ObjectList[ClusterTrustBundle]):
    gvk = GroupVersionKind("certificates.k8s.io", "v1alpha1", "ClusterTrustBundleList")


__all__ = ["ClusterTrustBundle", "ClusterTrustBundleList", "ClusterTrustBundleSpec"]
