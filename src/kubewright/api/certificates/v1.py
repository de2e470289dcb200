"""Types of `certificates.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class CertificateSigningRequestSpec(Struct):
    expiration_seconds: int | None = None
    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    request: bytes | None = None
    signer_name: str | None = None
    uid: str | None = None
    usages: list[str] | None = None
    username: str | None = None


class CertificateSigningRequestCondition(Struct):
    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class CertificateSigningRequestStatus(Struct):
    certificate: bytes | None = None
    conditions: list[CertificateSigningRequestCondition] | None = None


class CertificateSigningRequest(MetaObject):
    gvk = GroupVersionKind("certificates.k8s.io", "v1", "CertificateSigningRequest")

    spec: CertificateSigningRequestSpec | None = None
    status: CertificateSigningRequestStatus | None = None


class CertificateSigningRequestList(ObjectList[CertificateSigningRequest]):
    gvk = GroupVersionKind("certificates.k8s.io", "v1", "CertificateSigningRequestList")


class ClusterTrustBundleSpec(Struct):
    signer_name: str | None = None
    trust_bundle: str | None = None


class ClusterTrustBundle(MetaObject):
    gvk = GroupVersionKind("certificates.k8s.io", "v1", "ClusterTrustBundle")

    spec: ClusterTrustBundleSpec | None = None


class ClusterTrustBundleList(ObjectList[ClusterTrustBundle]):
    gvk = GroupVersionKind("certificates.k8s.io", "v1", "ClusterTrustBundleList")


class PodCertificateRequestSpec(Struct):
    max_expiration_seconds: int | None = None
    node_name: str | None = None
    node_uid: str | None = field(default=None, name="nodeUID")
    pod_name: str | None = None
    pod_uid: str | None = field(default=None, name="podUID")
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
    gvk = GroupVersionKind("certificates.k8s.io", "v1", "PodCertificateRequest")

    spec: PodCertificateRequestSpec | None = None
    status: PodCertificateRequestStatus | None = None


class PodCertificateRequestList(ObjectList[PodCertificateRequest]):
    gvk = GroupVersionKind("certificates.k8s.io", "v1", "PodCertificateRequestList")


__all__ = [
    "CertificateSigningRequest",
    "CertificateSigningRequestCondition",
    "CertificateSigningRequestList",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestStatus",
    "ClusterTrustBundle",
    "ClusterTrustBundleList",
    "ClusterTrustBundleSpec",
    "PodCertificateRequest",
    "PodCertificateRequestList",
    "PodCertificateRequestSpec",
    "PodCertificateRequestStatus",
]
