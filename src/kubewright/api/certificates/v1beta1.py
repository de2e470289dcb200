"""Types of `certificates.k8s.io/v1beta1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class ClusterTrustBundleSpec(Struct):
    signer_name: str | None = None
    trust_bundle: str | None = None


class ClusterTrustBundle(MetaObject):
    gvk = GroupVersionKind("certificates.k8s.io", "v1beta1", "ClusterTrustBundle")

    spec: ClusterTrustBundleSpec | None = None


class ClusterTrustBundleList(ObjectList[ClusterTrustBundle]):
    gvk = GroupVersionKind("certificates.k8s.io", "v1beta1", "ClusterTrustBundleList")


class PodCertificateRequestSpec(Struct):
    max_expiration_seconds: int | None = None
    node_name: str | None = None
    node_uid: str | None = field(default=None, name="nodeUID")
    pkix_public_key: bytes | None = None
    pod_name: str | None = None
    pod_uid: str | None = field(default=None, name="podUID")
    proof_of_possession: bytes | None = None
    service_account_name: str | None = None
    service_account_uid: str | None = field(default=None, name="serviceAccountUID")
    signer_name: str | None = None
    stub_pkcs10_request: bytes | None = field(default=None, name="stubPKCS10Request")
    unverified_user_annotations: dict[str, str] | None = None


class PodCertificateRequestStatus(Struct):
    begin_refresh_at: Time | None = None
    certificate_chain: str | None = None
    conditions: list[Condition] | None = None
    not_after: Time | None = None
    not_before: Time | None = None


class PodCertificateRequest(MetaObject):
    gvk = GroupVersionKind("certificates.k8s.io", "v1beta1", "PodCertificateRequest")

    spec: PodCertificateRequestSpec | None = None
    status: PodCertificateRequestStatus | None = None


class PodCertificateRequestList(ObjectList[PodCertificateRequest]):
    gvk = GroupVersionKind("certificates.k8s.io", "v1beta1", "PodCertificateRequestList")


__all__ = [
    "ClusterTrustBundle",
    "ClusterTrustBundleList",
    "ClusterTrustBundleSpec",
    "PodCertificateRequest",
    "PodCertificateRequestList",
    "PodCertificateRequestSpec",
    "PodCertificateRequestStatus",
]
