"""Settings of the control plane that come from flags of kube-apiserver: certificates, addresses, issuers."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

from kubewright.api.core.v1 import Namespace
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.in_process import ADMINISTRATOR
from kubewright.client import Client, load_config
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.identity import TokenIssuer
from kubewright.tls.certificates import CertificateAuthority


async def request(plane: ControlPlane, method: str, path: str, body: Any = None, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = json.dumps(body).encode() if body is not None else b""
    user = None if token else ADMINISTRATOR
    response = await plane.server.handle(HTTPRequest(method, path, headers=headers, body=data, user=user))
    return response.status, json.loads(response.body)


async def test_the_serving_certificate_comes_from_files(tmp_path: Path) -> None:
    authority = CertificateAuthority.create("corporate")
    authority.issue("api", hosts=("127.0.0.1",), server=True).write(
        tmp_path / "tls.crt", tmp_path / "tls.key"
    )
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    async with ControlPlane(
        controllers=False, tls_key_pair=(tmp_path / "tls.crt", tmp_path / "tls.key")
    ) as plane:
        context = ssl.create_default_context(cadata=authority.certificate.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=context)
        writer.close()
        async with Client.connect(load_config(plane.kubeconfig)) as client:
            assert (await client.get(Namespace, "default")).metadata.name == "default"


async def test_the_advertised_address_is_in_the_endpoints() -> None:
    async with ControlPlane(port=None, controllers=False, advertise_address="192.0.2.7") as plane:
        _, endpoints = await request(plane, "GET", "/api/v1/namespaces/default/endpoints/kubernetes")
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "192.0.2.7"}]


async def test_tokens_of_former_issuers_are_accepted(tmp_path: Path) -> None:
    issuers = ("https://new", "https://old")
    key = CertificateAuthority.create("accounts").pair.key
    (tmp_path / "sa.key").write_bytes(key)
    async with ControlPlane(
        port=None,
        controllers=False,
        service_account_issuer=issuers,
        service_account_signing_key_file=tmp_path / "sa.key",
        api_audiences=("api",),
    ) as plane:
        path = "/api/v1/namespaces/default/serviceaccounts"
        _, account = await request(plane, "POST", path, {"metadata": {"name": "robot"}})
        uid = account["metadata"]["uid"]
        for issuer, accepted in (("https://new", True), ("https://old", True), ("https://other", False)):
            token = TokenIssuer(issuer, key, audiences=("api",)).sign("default", "robot", uid)
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            status, found = await request(
                plane, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token
            )
            assert (status == 201) is accepted, found
        assert plane.issuer.issuer == "https://new"


async def test_aggregated_servers_see_the_given_client_certificate(tmp_path: Path) -> None:
    pair = CertificateAuthority.create("front-proxy").issue("aggregator")
    pair.write(tmp_path / "proxy.crt", tmp_path / "proxy.key")
    async with ControlPlane(
        port=None,
        controllers=False,
        proxy_client_key_pair=(tmp_path / "proxy.crt", tmp_path / "proxy.key"),
    ) as plane:
        assert plane.credentials.front_proxy_client.certificate == pair.certificate
