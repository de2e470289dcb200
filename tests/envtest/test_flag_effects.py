"""Flags of kube-apiserver that change the behaviour of the control plane."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.controlplane.access.test_authentication_config import Issuer, whoami

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.kubelets.kubelets import kubelet_address
from kubewright.envtest.flags import parse_flags
from kubewright.envtest.kube_apiserver import translate
from kubewright.envtest.kube_apiserver_flags import ABBREVIATIONS, TYPES
from kubewright.tls.certificates import CertificateAuthority


def plane_of(*arguments: str) -> ControlPlane:
    """Return the control plane of a command line, without a port."""
    flags = parse_flags(["--etcd-servers=http://127.0.0.1:1", *arguments], TYPES, abbreviations=ABBREVIATIONS)
    settings = translate(flags)
    assert not settings.warnings
    return ControlPlane.from_options(replace(settings.options, port=None, cert_dir=None, kubeconfig=None))


async def send(plane: ControlPlane, method: str, path: str, body: Any = None) -> HTTPResponse:
    request = HTTPRequest(
        method,
        path,
        headers={"Content-Type": "application/json"},
        body=json.dumps(body).encode() if body is not None else b"",
        user=SYSTEM,
    )
    return await plane.server.handle(request)


async def test_node_ports_tolerations_tokens_and_gates() -> None:
    plane = plane_of(
        "--service-node-port-range=31000-31001",
        "--default-not-ready-toleration-seconds=10",
        "--default-unreachable-toleration-seconds=20",
        "--service-account-max-token-expiration=2h",
        "--service-account-jwks-uri=https://keys.example.com/jwks",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=7",
        "--max-mutating-requests-inflight=8",
        "--min-request-timeout=10",
        "--request-timeout=20s",
        "--etcd-compaction-interval=30s",
        "--disable-admission-plugins=ServiceAccount",
        "--feature-gates=WatchList=false,ComponentFlagz=false,APIServerIdentity=false",
    )
    async with plane:
        core = "/api/v1/namespaces/default"
        service = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        created = json.loads((await send(plane, "POST", f"{core}/services", service)).body)
        assert created["spec"]["ports"][0]["nodePort"] in (31000, 31001)
        service["metadata"], service["spec"]["ports"] = {"name": "b"}, [{"port": 80, "nodePort": 30000}]  # type: ignore[index]
        rejected = await send(plane, "POST", f"{core}/services", service)
        assert b"The range of valid ports is 31000-31001" in rejected.body
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        created = json.loads((await send(plane, "POST", f"{core}/pods", pod)).body)
        assert [each["tolerationSeconds"] for each in created["spec"]["tolerations"]] == [10, 20]
        await send(plane, "POST", f"{core}/serviceaccounts", {"metadata": {"name": "a"}})
        token = {"spec": {"expirationSeconds": 86400}}
        response = await send(plane, "POST", f"{core}/serviceaccounts/a/token", token)
        assert json.loads(response.body)["spec"]["expirationSeconds"] == 7200
        assert "requested expiration of 86400 seconds shortened to 7200 seconds" in str(response.headers)
        discovery = await send(plane, "GET", "/.well-known/openid-configuration")
        assert json.loads(discovery.body)["jwks_uri"] == "https://keys.example.com/jwks"
        assert plane.server.flow_control is None
        assert (plane.server.max_in_flight, plane.server.max_mutating_in_flight) == (7, 8)
        assert (plane.server.watch_timeout, plane.server.request_timeout) == ((10, 20), 20.0)
        assert plane.server.compaction_interval == 30.0
        watch = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        response = await send(plane, "GET", f"{core}/pods{watch}")
        assert response.status == 422
        assert b"unless the WatchList feature gate is enabled" in response.body
        assert (await send(plane, "GET", "/flagz")).status == 404
        assert (await send(plane, "GET", "/statusz")).status == 200
        leases = await send(plane, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
        assert json.loads(leases.body)["items"] == []


async def test_the_cbor_gate() -> None:
    async with plane_of("--feature-gates=CBORServingAndStorage=true") as plane:
        request = HTTPRequest(
            "GET", "/api/v1/namespaces/default", headers={"Accept": "application/cbor"}, user=SYSTEM
        )
        response = await plane.server.handle(request)
        assert response.content_type == "application/cbor"


class RSAIssuer(Issuer):
    """An issuer with a key of the default algorithm of `--oidc-signing-algs`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    async def _published(self, request: Any) -> Any:
        from aiohttp import web

        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key()))
        response = await super()._published(request)
        keys = json.loads(response.body)["keys"]
        return web.json_response({"keys": [*keys, {**key, "kid": "rsa", "use": "sig", "alg": "RS256"}]})

    def rsa_token(self, **claims: Any) -> str:
        complete = jwt.decode(self.token(**claims), options={"verify_signature": False})
        return jwt.encode(complete, self.rsa, algorithm="RS256", headers={"kid": "rsa"})


@pytest.mark.parametrize(
    ("flags", "username"),
    [
        ([], "{issuer}#ada"),
        (["--oidc-username-prefix=-"], "ada"),
        (["--oidc-username-prefix=idp:"], "idp:ada"),
        (["--oidc-username-claim=email"], "ada@example.com"),
    ],
)
async def test_oidc_flags(tmp_path: Path, flags: list[str], username: str) -> None:
    async with RSAIssuer(tmp_path).serve() as issuer:
        assert isinstance(issuer, RSAIssuer)
        ca = tmp_path / "ca.pem"
        ca.write_text(issuer.ca)
        plane = plane_of(
            "--authorization-mode=RBAC",
            f"--oidc-issuer-url={issuer.url}",
            "--oidc-client-id=cluster",
            f"--oidc-ca-file={ca}",
            "--oidc-groups-claim=teams",
            "--oidc-groups-prefix=oidc:",
            "--oidc-required-claim=tenant=a,b",
            *flags,
        )
        claims: dict[str, Any] = {"tenant": "a,b", "teams": ["dev"], "email": "ada@example.com"}
        async with plane:
            status, review = await whoami(plane, issuer.rsa_token(**claims))
            assert status == 201
            assert review["userInfo"]["username"] == username.format(issuer=issuer.url)
            assert review["userInfo"]["groups"] == ["oidc:dev", "system:authenticated"]
            assert (await whoami(plane, issuer.rsa_token(**{**claims, "tenant": "c"})))[0] == 401
            assert (await whoami(plane, issuer.rsa_token(**claims, aud="other")))[0] == 401
            assert (await whoami(plane, issuer.token(**claims)))[0] == 401, "ES256 is not in the default"


def test_unknown_signing_algorithms_are_an_error() -> None:
    with pytest.raises(ValueError, match='unsupported signing alg: "HS256"'):
        plane_of("--oidc-issuer-url=https://a", "--oidc-client-id=a", "--oidc-signing-algs=HS256")


async def test_the_client_certificate_and_addresses_of_kubelets(tmp_path: Path) -> None:
    pair = CertificateAuthority.create("ca").issue("kubelet-client")
    pair.write(tmp_path / "client.crt", tmp_path / "client.key")
    plane = plane_of(
        f"--kubelet-client-certificate={tmp_path / 'client.crt'}",
        f"--kubelet-client-key={tmp_path / 'client.key'}",
        "--kubelet-preferred-address-types=ExternalIP,InternalIP",
    )
    async with plane:
        kubelets = plane._kubelets
        assert kubelets._remote._client().certificate == pair.certificate
        addresses = [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "ExternalIP", "address": "1.2.3.4"},
        ]
        status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
        assert kubelet_address({"status": status}, kubelets.address_types) == ("1.2.3.4", 10250)
        assert kubelet_address({"status": status}) == ("10.0.0.1", 10250)
