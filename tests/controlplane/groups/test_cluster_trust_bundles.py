"""ClusterTrustBundles: names, signers and trust anchors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import Invalid
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.tls.certificates import CertificateAuthority

PATH = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
AUTHORITY = CertificateAuthority.create("anchor")
ANCHOR = AUTHORITY.certificate.decode()
NONSENSE = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n"


@pytest.fixture
async def client() -> AsyncIterator[PathClient]:
    async with ControlPlane(port=None, runtime_config={"certificates.k8s.io/v1beta1": True}) as plane:
        yield PathClient(plane.server, SYSTEM, user_agent="test")


def bundle(name: str, signer: str = "", anchors: str = ANCHOR) -> dict[str, Any]:
    spec = {"signerName": signer, "trustBundle": anchors}
    return {"metadata": {"name": name}, "spec": spec}


async def reason(client: PathClient, obj: dict[str, Any]) -> str:
    with pytest.raises(Invalid) as raised:
        await client.create(PATH, obj)
    return raised.value.message


async def test_names_of_bundles_of_a_signer_begin_with_it(client: PathClient) -> None:
    await client.create(PATH, bundle("example.com:signer:a", "example.com/signer"))
    await client.create(PATH, bundle("a"))
    text = await reason(client, bundle("a", "example.com/signer"))
    assert "for signerName example.com/signer must be named with prefix example.com:signer:" in text
    text = await reason(client, bundle("example.com:signer:b"))
    assert 'ClusterTrustBundle without signer name must not have ":" in its name' in text
    assert "RFC 1123 subdomain" in await reason(client, bundle("example.com:signer:B", "example.com/signer"))
    found = await client.get(f"{PATH}?fieldSelector=spec.signerName%3Dexample.com/signer")
    assert [item["metadata"]["name"] for item in found["items"]] == ["example.com:signer:a"]


@pytest.mark.parametrize(
    ("anchors", "expected"),
    [
        ("", "at least one trust anchor must be provided"),
        (ANCHOR * 2, "duplicate trust anchor (indices [0 1])"),
        (ANCHOR.replace("CERTIFICATE", "PRIVATE KEY"), "entry 0 has bad block type: PRIVATE KEY"),
        (ANCHOR.replace("-----\n", "-----\nKey: value\n\n", 1), "entry 0 has PEM block headers"),
        (NONSENSE, "entry 0 does not parse as X.509"),
        (AUTHORITY.issue("leaf").certificate.decode(), "entry 0 does not have the CA bit set"),
    ],
)
async def test_trust_anchors(client: PathClient, anchors: str, expected: str) -> None:
    message = await reason(client, bundle("a", anchors=anchors))
    assert message.endswith(f'spec.trustBundle: Invalid value: "<value omitted>": {expected}')


async def test_the_signer_of_a_bundle_does_not_change(client: PathClient) -> None:
    created = await client.create(PATH, bundle("example.com:signer:a", "example.com/signer"))
    created["spec"]["signerName"] = "example.com/other"
    with pytest.raises(Invalid, match="field is immutable"):
        await client.update(f"{PATH}/example.com:signer:a", created)
