"""Permission to approve, sign and attest certificates, and restrictions of their subjects."""

from __future__ import annotations

import base64
from typing import Any

from kubewright.api.errors import invalid
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.resources.objects import Object
from kubewright.schema import field_errors as fe

from .rejection import reject

GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


async def _may(
    server: Any, request: AdmissionAttributes, verb: str, signer: str, resource: str = "signers"
) -> bool:
    """Return whether the user is allowed a verb on a signer, by its name or its domain."""
    domain = signer.split("/")[0]
    for name in (signer, f"{domain}/*"):
        attributes = AuthorizationAttributes(request.user, verb, GROUP, "*", resource, "", "", name, "")
        decision, _ = await server.authorizer.authorize(attributes)
        if decision is Decision.ALLOW:
            return True
    return False


class _Certificates(AdmissionPlugin):
    validating = True

    def __init__(self, server: Any) -> None:
        self._server = server


class CertificateApproval(_Certificates):
    """Approval requires the verb `approve` on the signer."""

    name = "CertificateApproval"
    rules = (AdmissionRule(("UPDATE",), GROUP, ("certificatesigningrequests/approval",)),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Authorize the user for the signer of the stored request."""
        signer = ((request.old_object or {}).get("spec") or {}).get("signerName") or ""
        if not await _may(self._server, request, "approve", signer):
            raise reject(request, f'user not permitted to approve requests with signerName "{signer}"')


class CertificateSigning(_Certificates):
    """Signing requires the verb `sign` on the signer."""

    name = "CertificateSigning"
    rules = (AdmissionRule(("UPDATE",), GROUP, ("certificatesigningrequests/status",)),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Authorize the user if the certificate or conditions change."""
        old: Object = request.old_object or {}
        before, after = old.get("status") or {}, (request.object or {}).get("status") or {}
        if all(before.get(field) == after.get(field) for field in ("certificate", "conditions")):
            return
        signer = (old.get("spec") or {}).get("signerName") or ""
        if not await _may(self._server, request, "sign", signer):
            raise reject(request, f'user not permitted to sign requests with signerName "{signer}"')


class PodCertificateSigning(_Certificates):
    """Deciding on the request for the certificate of a pod requires the verb `sign` on its signer.

    Part of the API server, which reports an invalid object; cannot be disabled.
    """

    name = "PodCertificateSigning"
    rules = (AdmissionRule(("UPDATE",), GROUP, ("podcertificaterequests/status",)),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Authorize the user if the status changes."""
        old: Object = request.old_object or {}
        if (old.get("status") or {}) == ((request.object or {}).get("status") or {}):
            return
        signer = (old.get("spec") or {}).get("signerName") or ""
        if not await _may(self._server, request, "sign", signer):
            text = f'User "{request.user.name}" is not permitted to "sign" for signer "{signer}"'
            raise invalid(request.kind.group_kind, request.name, [fe.forbidden("spec.signerName", text)])


class CertificateSubjectRestriction(_Certificates):
    """Rejects `system:masters` in certificates of the kube-apiserver-client signer."""

    name = "CertificateSubjectRestriction"
    rules = (AdmissionRule(("CREATE",), GROUP, ("certificatesigningrequests",)),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check the organizations of the subject."""
        spec: Object = (request.object or {}).get("spec") or {}
        if spec.get("signerName") != CLIENT_SIGNER:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            parsed = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        except ValueError as error:
            raise reject(request, f"failed to parse CSR: {error}") from None
        for organization in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME):
            if organization.value == "system:masters":
                raise reject(
                    request, f"use of {CLIENT_SIGNER} signer with system:masters group is not allowed"
                )


class ClusterTrustBundleAttest(AdmissionPlugin):
    """Writing a trust bundle of a signer requires the verb `attest` on the signer."""

    name = "ClusterTrustBundleAttest"
    validating = True
    rules = (AdmissionRule(("CREATE", "UPDATE", "DELETE"), GROUP, ("clustertrustbundles",)),)

    def __init__(self, server: Any) -> None:
        self._server = server

    async def validate(self, request: AdmissionAttributes) -> None:
        """Authorize the user."""
        obj: Object = request.object or request.old_object or {}
        signer = (obj.get("spec") or {}).get("signerName")
        if signer and not await _may(self._server, request, "attest", signer):
            raise reject(request, f'user not permitted to attest for signerName "{signer}"')
