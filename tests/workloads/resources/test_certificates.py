"""Approval, signing and cleanup of requests for certificates, and the trust bundle of the API server."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.api.certificates.v1 import (
    CertificateSigningRequest,
    ClusterTrustBundle,
    ClusterTrustBundleSpec,
    PodCertificateRequest,
)
from kubewright.api.conditions import get_condition
from kubewright.api.meta import ObjectMeta

APPROVING = "certificatesigningrequest-approving-controller"
SIGNING = "certificatesigningrequest-signing-controller"
POD_CLEANER = "podcertificaterequest-cleaner-controller"
PUBLISHER = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
API_SERVER = "kubernetes.io/kube-apiserver-serving"
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


async def test_requests_for_certificates_of_pods_are_deleted_after_a_while(run: Any) -> None:
    async with run(POD_CLEANER) as cluster:
        key = ec.generate_private_key(ec.SECP256R1())
        stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        names = dict.fromkeys(("podName", "nodeName", "serviceAccountName"), "p")
        uids = dict.fromkeys(("podUID", "nodeUID", "serviceAccountUID"), "u")
        data = base64.b64encode(stub.public_bytes(serialization.Encoding.DER)).decode()
        await cluster.client.create(
            {
                "apiVersion": "certificates.k8s.io/v1",
                "kind": "PodCertificateRequest",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"signerName": "example.com/a", "stubPKCS10Request": data, **names, **uids},
            }
        )
        await asyncio.sleep(14 * 60)
        assert await cluster.client.list(PodCertificateRequest)
        await asyncio.sleep(2 * 60)
        assert not await cluster.client.list(PodCertificateRequest)


async def test_the_authority_of_the_api_server_is_published(run: Any, pod: Any) -> None:
    def bundle(name: str, signer: str) -> ClusterTrustBundle:
        spec = ClusterTrustBundleSpec(signer_name=signer, trust_bundle=cluster.plane.ca.decode())
        return ClusterTrustBundle(metadata=ObjectMeta(name=name), spec=spec)

    async with run(PUBLISHER) as cluster:
        await cluster.client.create(bundle("kubernetes.io:kube-apiserver-serving:former", API_SERVER))
        await cluster.client.create(bundle("example.com:a:b", "example.com/a"))

        async def published() -> list[ClusterTrustBundle] | None:
            found: list[ClusterTrustBundle] = list(await cluster.client.list(ClusterTrustBundle))
            own = [each for each in found if each.spec is not None and each.spec.signer_name == API_SERVER]
            return own if len(found) == 2 and len(own) == 1 and not own[0].name.endswith("former") else None

        (own,) = await cluster.eventually(published)
        assert own.spec.trust_bundle == cluster.plane.ca.decode()
        await cluster.client.delete(own)
        assert (await cluster.eventually(published))[0].name == own.name


async def test_a_pod_that_mounts_a_trust_bundle_starts_the_publisher(run: Any, pod: Any) -> None:
    async with run(PUBLISHER) as cluster:
        await cluster.client.create(pod("a"))
        source = {"clusterTrustBundle": {"signerName": API_SERVER, "path": "ca.pem"}}
        await cluster.client.create(pod("b", volumes=[{"name": "v", "projected": {"sources": [source]}}]))

        async def published() -> Any:
            return await cluster.client.list(ClusterTrustBundle)

        assert len(await cluster.eventually(published)) == 1
