"""Approval, signing and cleanup of CertificateSigningRequests."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.api.certificates.v1 import CertificateSigningRequest
from kubewright.api.conditions import get_condition

APPROVING = "certificatesigningrequest-approving-controller"
SIGNING = "certificatesigningrequest-signing-controller"
CLEANER = "certificatesigningrequest-cleaner-controller"


def request(
    name: str, signer: str, *, user: str, groups: tuple[str, ...] = (), usages: tuple[str, ...]
) -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject)).sign(key, hashes.SHA256())
    pem = made.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "signerName": signer,
            "request": base64.b64encode(pem).decode(),
            "usages": list(usages),
            "expirationSeconds": 3600,
        },
    }


async def approve(cluster: Any, name: str) -> None:
    obj = await cluster.client.get("certificatesigningrequests", name)
    obj.raw.setdefault("status", {})["conditions"] = [
        {"type": "Approved", "status": "True", "reason": "Test", "message": ""}
    ]
    await cluster.client.subresource("approval", obj).update(obj)


async def get(cluster: Any, name: str) -> CertificateSigningRequest:
    found: CertificateSigningRequest = await cluster.client.get(CertificateSigningRequest, name)
    return found


async def test_client_certificate(run: Any) -> None:
    async with run(SIGNING, CLEANER) as cluster:
        usages = ("digital signature", "client auth")
        await cluster.client.create(
            request(
                "jane", "kubernetes.io/kube-apiserver-client", user="jane", groups=("dev",), usages=usages
            )
        )
        await asyncio.sleep(5)
        status = (await get(cluster, "jane")).status
        assert status is None or not status.certificate, "not approved"
        await approve(cluster, "jane")

        async def issued() -> Any:
            status = (await get(cluster, "jane")).status
            return status.certificate if status is not None else None

        certificate = x509.load_pem_x509_certificate(await cluster.eventually(issued))
        authority = x509.load_pem_x509_certificate(cluster.workloads.connection.signing_key_pair()[0])
        certificate.verify_directly_issued_by(authority)
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        length = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert length.total_seconds() == 3600 + 300
        await asyncio.sleep(3700)
        assert not await cluster.client.list(CertificateSigningRequest)


async def test_invalid_request_fails(run: Any) -> None:
    async with run(SIGNING) as cluster:
        await cluster.client.create(
            request("bad", "kubernetes.io/kubelet-serving", user="x", usages=("server auth",))
        )
        await approve(cluster, "bad")
        await asyncio.sleep(1)
        condition = get_condition((await get(cluster, "bad")).status, "Failed")
        assert condition is not None
        assert (condition.reason, condition.message) == (
            "SignerValidationFailure",
            "subject organization is not system:nodes",
        )


async def test_kubelet_client_certificate_is_approved(run: Any) -> None:
    async with run(APPROVING, SIGNING) as cluster:
        made = request(
            "node",
            "kubernetes.io/kube-apiserver-client-kubelet",
            user="system:node:n1",
            groups=("system:nodes",),
            usages=("digital signature", "client auth"),
        )
        await cluster.client.create(made)

        async def issued() -> Any:
            found = await get(cluster, "node")
            return found if found.status is not None and found.status.certificate else None

        found = await cluster.eventually(issued)
        condition = get_condition(found.status, "Approved")
        assert condition is not None
        assert condition.reason == "AutoApproved"
        assert condition.message == "Auto approving kubelet client certificate after SubjectAccessReview."
