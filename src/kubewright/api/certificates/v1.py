"""Types of `certificates.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct
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


__all__ = [
    "CertificateSigningRequest",
    "CertificateSigningRequestCondition",
    "CertificateSigningRequestList",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestStatus",
]
