"""Who may approve and sign certificate signing requests, and what may not be asked for."""

from __future__ import annotations

import base64
from typing import Any

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision

from .refusal import refuse

Object = dict[str, Any]
GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


async def _may(
    server: Any, request: AdmissionAttributes, verb: str, signer: str, resource: str = "signers"
) -> bool:
    """Whether the user may act for a signer, by its name or by its whole domain."""
    domain = signer.split("/")[0]
    for name in (signer, f"{domain}/*"):
        attributes = AuthorizationAttributes(request.user, verb, GROUP, "*", resource, "", "", name, "")
        decision, _ = await server.authorizer.authorize(attributes)
        if decision is Decision.ALLOW:
            return True
    return False


class _Certificates(AdmissionPlugin):
    validating = True
    subresource = ""
    operations: tuple[str, ...] = ("UPDATE",)

    def __init__(self, server: Any) -> None:
        self._server = server

    def handles(self, request: AdmissionAttributes) -> bool:
        return (
            request.resource.group == GROUP
            and request.resource.resource == "certificatesigningrequests"
            and request.subresource == self.subresource
            and request.operation in self.operations
        )


class CertificateApproval(_Certificates):
    """Approving needs the verb `approve` on the signer."""

    name = "CertificateApproval"
    subresource = "approval"

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask the authorizer about the signer that the request had before."""
        signer = ((request.old_object or {}).get("spec") or {}).get("signerName") or ""
        if not await _may(self._server, request, "approve", signer):
            raise refuse(request, f'user not permitted to approve requests with signerName "{signer}"')


class CertificateSigning(_Certificates):
    """Issuing needs the verb `sign` on the signer."""

    name = "CertificateSigning"
    subresource = "status"

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask the authorizer if certificate or conditions change."""
        old: Object = request.old_object or {}
        before, after = old.get("status") or {}, (request.object or {}).get("status") or {}
        if all(before.get(field) == after.get(field) for field in ("certificate", "conditions")):
            return
        signer = (old.get("spec") or {}).get("signerName") or ""
        if not await _may(self._server, request, "sign", signer):
            raise refuse(request, f'user not permitted to sign requests with signerName "{signer}"')


class CertificateSubjectRestriction(_Certificates):
    """Nobody becomes a member of `system:masters` through a certificate of the API server's client signer."""

    name = "CertificateSubjectRestriction"
    operations = ("CREATE",)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Look at the organizations of the subject."""
        spec: Object = (request.object or {}).get("spec") or {}
        if spec.get("signerName") != CLIENT_SIGNER:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            parsed = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        except ValueError as error:
            raise refuse(request, f"failed to parse CSR: {error}") from None
        for organization in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME):
            if organization.value == "system:masters":
                raise refuse(
                    request, f"use of {CLIENT_SIGNER} signer with system:masters group is not allowed"
                )


class ClusterTrustBundleAttest(AdmissionPlugin):
    """Writing a trust bundle that belongs to a signer needs the verb `attest` on the signer."""

    name = "ClusterTrustBundleAttest"
    validating = True

    def __init__(self, server: Any) -> None:
        self._server = server

    def handles(self, request: AdmissionAttributes) -> bool:
        """Writes of trust bundles."""
        return request.resource.group == GROUP and request.resource.resource == "clustertrustbundles"

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask the authorizer."""
        obj: Object = request.object or request.old_object or {}
        signer = (obj.get("spec") or {}).get("signerName")
        if signer and not await _may(self._server, request, "attest", signer):
            raise refuse(request, f'user not permitted to attest for signerName "{signer}"')
