"""CertificateSigningRequests: requesting user, approval, signing."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PEM = serialization.Encoding.PEM


@pytest.fixture(scope="module")
def pem_pair() -> tuple[str, str]:
    """A CSR and a certificate, base64-encoded PEM as objects store them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return tuple(base64.b64encode(each.public_bytes(PEM)).decode() for each in (request, certificate))  # type: ignore[return-value]


def signing_request(request: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "a"},
        "spec": {"request": request, "signerName": "example.com/s", "usages": ["client auth"], **spec},
    }


async def test_requesting_user_comes_from_authentication(api: Any, pem_pair: tuple[str, str]) -> None:
    made = await api.ok("POST", PATH, signing_request(pem_pair[0], username="mallory", groups=["x"]))
    assert made["spec"]["username"] != "mallory"
    assert "x" not in made["spec"]["groups"]
    assert made["status"] == {}


async def test_approval_and_certificate_are_written_through_their_subresources(
    api: Any, pem_pair: tuple[str, str]
) -> None:
    await api.ok("POST", PATH, signing_request(pem_pair[0]))
    approve = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "fine"}]}}
    assert await api.invalid_fields("PATCH", f"{PATH}/a/status", approve) == {"status.conditions"}
    unchanged = await api.ok("PATCH", f"{PATH}/a", {**approve, "spec": {"signerName": "other.com/x"}})
    assert unchanged["status"] == {}
    assert unchanged["spec"]["signerName"] == "example.com/s"
    approved = await api.ok("PATCH", f"{PATH}/a/approval", {**approve, "spec": {"signerName": "other.com/x"}})
    assert approved["spec"]["signerName"] == "example.com/s"
    assert approved["status"]["conditions"][0]["lastUpdateTime"]
    assert await api.invalid_fields("PATCH", f"{PATH}/a/approval", {"status": {"conditions": []}}) == {
        "status.conditions"
    }
    issued = await api.ok("PATCH", f"{PATH}/a/status", {"status": {"certificate": pem_pair[1]}})
    assert issued["status"]["certificate"] == pem_pair[1]
    assert await api.invalid_fields("PATCH", f"{PATH}/a/status", {"status": {"certificate": None}}) == {
        "status.certificate"
    }
    assert (await api.cells(f"{PATH}/a"))[-1] == "Approved,Issued"


async def test_invalid_requests_are_rejected(api: Any) -> None:
    bad = signing_request("Zm9v", signerName="foo", usages=["foo", "any", "any"], expirationSeconds=5)
    assert await api.invalid_fields("POST", PATH, bad) == {
        "spec.request",
        "spec.signerName",
        "spec.usages[0]",
        "spec.usages[2]",
        "spec.expirationSeconds",
    }


async def test_field_selector_by_signer_name(api: Any, pem_pair: tuple[str, str]) -> None:
    await api.ok("POST", PATH, signing_request(pem_pair[0]))
    assert len((await api.ok("GET", f"{PATH}?fieldSelector=spec.signerName=example.com/s"))["items"]) == 1
    assert not (await api.ok("GET", f"{PATH}?fieldSelector=spec.signerName=other.com/s"))["items"]
