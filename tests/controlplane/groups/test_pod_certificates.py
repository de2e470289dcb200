"""Certificates and trust bundles of pods: volumes, requests of kubelets, and decisions of signers."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import APIError, Forbidden, InternalError, Invalid
from kubewright.apiserver import User
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

Object = dict[str, Any]
REQUESTS = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
PODS = "/api/v1/namespaces/default/pods"
SIGNER = "example.com/signer"
NODE = User("system:node:n", ("system:nodes", "system:authenticated"))
HOUR = timedelta(hours=1)


class Cluster:
    """A control plane with a pod that mounts a certificate, as its kubelet and as an administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = PathClient(plane.server, SYSTEM, user_agent="test")
        self.kubelet = PathClient(plane.server, NODE, user_agent="kubelet")
        self.uids: dict[str, str] = {}

    async def prepare(self) -> None:
        node = await self.admin.create(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        )
        account = await self.admin.get("/api/v1/namespaces/default/serviceaccounts/default")
        source = {"podCertificate": {"signerName": SIGNER, "keyType": "ED25519", "keyPath": "key"}}
        pod = await self.admin.create(PODS, pod_with(source, nodeName="n", serviceAccountName="default"))
        for name, obj in (("nodeUID", node), ("serviceAccountUID", account), ("podUID", pod)):
            self.uids[name] = obj["metadata"]["uid"]

    def request(self, **spec: Any) -> Object:
        names = {"podName": "p", "nodeName": "n", "serviceAccountName": "default"}
        made: Object = {"signerName": SIGNER, "stubPKCS10Request": stub(), **names, **self.uids, **spec}
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "PodCertificateRequest",
            "metadata": {"generateName": "p-"},
            "spec": {name: value for name, value in made.items() if value is not None},
        }


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    plugins = ["NodeRestriction"]
    async with ControlPlane(port=None, auth="node,rbac", enable_admission_plugins=plugins) as plane:
        await plane.wait_until_idle()
        found = Cluster(plane)
        await found.prepare()
        yield found


def pod_with(*sources: Object, **spec: Any) -> Object:
    volumes = [{"name": "v", "projected": {"sources": list(sources)}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


KEY = ec.generate_private_key(ec.SECP256R1())


def stub(key: Any = KEY, *, broken: bool = False) -> str:
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, algorithm)
    data = bytearray(made.public_bytes(Encoding.DER))
    if broken:
        data[-1] ^= 1
    return base64.b64encode(data).decode()


def chain(key: Any = KEY, lifetime: timedelta = HOUR, *names: x509.GeneralName) -> tuple[str, datetime]:
    """Return a certificate for the public key of a request, and when it begins."""
    begin = datetime.now(UTC).replace(microsecond=0)
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([]))
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(begin).not_valid_after(begin + lifetime)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(Encoding.PEM).decode(), begin


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def decision(type_: str = "Issued", **fields: Any) -> Object:
    condition = {
        "type": type_,
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": text(datetime.now(UTC)),
    }
    return {"conditions": [condition], **fields}


def issued(certificate: str, begin: datetime, lifetime: timedelta = HOUR, **changes: Any) -> Object:
    times = {"notBefore": begin, "notAfter": begin + lifetime, "beginRefreshAt": begin + lifetime / 2}
    fields: Object = {name: text(moment) for name, moment in times.items()}
    return decision(certificateChain=certificate, **{**fields, **changes})


async def decide(client: PathClient, obj: Object, status: Object) -> Object:
    path = f"{REQUESTS}/{obj['metadata']['name']}/status"
    return await client.update(path, {**obj, "status": status})


async def rejection(awaitable: Any, error: type[APIError] = Invalid) -> str:
    with pytest.raises(error) as raised:
        await awaitable
    return raised.value.message


# Volumes


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"name": "a", "signerName": SIGNER}, "only one of name and signerName may be used"),
        ({}, "either name or signerName must be specified"),
        ({"name": "A"}, "not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain"),
        ({"name": "a", "labelSelector": {}}, "labelSelector must be unset if name is specified"),
        ({"signerName": "a"}, "must be a fully qualified domain and path"),
        ({"signerName": ""}, "clusterTrustBundle.signerName: Required value: must be a valid signer name"),
        ({"signerName": SIGNER, "labelSelector": {"matchLabels": {"-": ""}}}, "labelSelector.matchLabels"),
        ({"name": "a", "path": "../b"}, "must not contain '..'"),
        ({"name": "a", "path": ""}, "clusterTrustBundle.path: Required value"),
    ],
)
async def test_sources_of_trust_bundles(cluster: Cluster, source: Object, expected: str) -> None:
    pod = pod_with({"clusterTrustBundle": {"path": "f", **source}})
    assert expected in await rejection(cluster.admin.create(PODS, pod))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"signerName": ""}, "podCertificate.signerName: Required value"),
        ({"keyType": "DSA"}, 'Unsupported value: "DSA": supported values: "RSA3072", "RSA4096"'),
        (
            {"keyPath": None},
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        ),
        ({"maxExpirationSeconds": 3599}, "if provided, maxExpirationSeconds must be >= 3600"),
        ({"maxExpirationSeconds": 7862401}, "if provided, maxExpirationSeconds must be <= 7862400"),
        (
            {"maxExpirationSeconds": 86401, "signerName": "kubernetes.io/a"},
            "if provided, maxExpirationSeconds must be <= 86400",
        ),
        ({"certificateChainPath": "key"}, "conflicting duplicate paths"),
        ({"userAnnotations": {"a": "b"}}, "must be a domain-prefixed key"),
    ],
)
async def test_sources_of_certificates(cluster: Cluster, source: Object, expected: str) -> None:
    given = {"signerName": SIGNER, "keyType": "ED25519", "keyPath": "key", **source}
    pod = pod_with({"podCertificate": {name: value for name, value in given.items() if value is not None}})
    assert expected in await rejection(cluster.admin.create(PODS, pod))


async def test_a_source_has_one_type(cluster: Cluster) -> None:
    both = {
        "clusterTrustBundle": {"name": "a", "path": "a"},
        "podCertificate": {"signerName": SIGNER, "keyType": "ED25519", "keyPath": "b"},
    }
    message = await rejection(cluster.admin.create(PODS, pod_with(both)))
    assert "may not specify more than 1 volume type per source" in message
    pod = await cluster.admin.get(f"{PODS}/p")
    assert pod["spec"]["volumes"][0]["projected"]["sources"][0]["podCertificate"]["keyType"] == "ED25519"


# Requests


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"signerName": "a"}, "must be a fully qualified domain and path"),
        ({"podUID": ""}, 'spec.podUID: Invalid value: "": must not be empty'),
        ({"nodeUID": "u" * 129}, "spec.nodeUID: Too long: may not be more than 128 bytes"),
        ({"maxExpirationSeconds": 60}, "must be in the range [3600, 7862400]"),
        ({"maxExpirationSeconds": 90000, "signerName": "kubernetes.io/a"}, "in the range [3600, 86400]"),
        ({"stubPKCS10Request": None}, "exactly one of (stubPKCS10Request) or (pkixPublicKey"),
        ({"stubPKCS10Request": "AAAA"}, "must be a valid PKCS#10 CSR"),
        ({"stubPKCS10Request": stub(broken=True)}, "invalid signature"),
        ({"stubPKCS10Request": stub(rsa.generate_private_key(65537, 2048))}, "modulus size 3072 or 4096"),
        (
            {"stubPKCS10Request": stub(ec.generate_private_key(ec.SECP224R1()))},
            "elliptic public keys must use curve P256, P384, or P521",
        ),
    ],
)
async def test_invalid_requests(cluster: Cluster, spec: Object, expected: str) -> None:
    assert expected in await rejection(cluster.admin.create(REQUESTS, cluster.request(**spec)))


async def test_the_longest_lifetime_is_a_day_unless_requested(cluster: Cluster) -> None:
    key = stub(ed25519.Ed25519PrivateKey.generate())
    made = await cluster.admin.create(REQUESTS, cluster.request(stubPKCS10Request=key))
    assert made["spec"]["maxExpirationSeconds"] == 86400
    changed = {**made, "spec": {**made["spec"], "podName": "q"}}
    path = f"{REQUESTS}/{made['metadata']['name']}"
    assert "field is immutable" in await rejection(cluster.admin.update(path, changed))


@pytest.mark.parametrize(
    ("spec", "error", "expected"),
    [
        ({"nodeName": "other"}, Forbidden, 'which is not the requesting node "n"'),
        ({"nodeUID": "x"}, InternalError, 'contains a UID ("x") of nodes "n"'),
        ({"podName": "q"}, InternalError, 'pods "q" not found'),
        ({"podUID": "x"}, InternalError, 'contains a UID ("x") of pods "p"'),
        ({"serviceAccountName": "other"}, Forbidden, "that differs from running pod"),
        ({"serviceAccountUID": "x"}, InternalError, 'of serviceaccounts "default"'),
        ({"signerName": "example.com/other"}, Forbidden, "does not mount a podCertificate projected volume"),
    ],
)
async def test_a_kubelet_requests_certificates_of_its_pods(
    cluster: Cluster, spec: Object, error: type[APIError], expected: str
) -> None:
    assert expected in await rejection(cluster.kubelet.create(REQUESTS, cluster.request(**spec)), error)


async def test_a_kubelet_reads_its_requests_and_does_not_decide(cluster: Cluster) -> None:
    made = await cluster.kubelet.create(REQUESTS, cluster.request())
    path = f"{REQUESTS}/{made['metadata']['name']}"
    assert (await cluster.kubelet.get(path))["spec"] == made["spec"]
    found = await cluster.kubelet.get(f"{REQUESTS}?fieldSelector=spec.nodeName%3Dn")
    assert [item["metadata"]["name"] for item in found["items"]] == [made["metadata"]["name"]]
    await rejection(cluster.kubelet.get(REQUESTS), Forbidden)
    await rejection(decide(cluster.kubelet, made, decision("Denied")), Forbidden)


# Decisions


async def test_a_signer_issues_once(cluster: Cluster) -> None:
    made = await cluster.admin.create(REQUESTS, cluster.request())
    signed = await decide(cluster.admin, made, issued(*chain()))
    again = {**signed["status"], "notAfter": "2020-01-01T00:00:00Z"}
    message = await rejection(decide(cluster.admin, signed, again))
    assert "immutable after PodCertificateRequest is issued, denied, or failed" in message


@pytest.mark.parametrize(
    ("create_status", "expected"),
    [
        (lambda: decision("Approved"), 'Unsupported value: "Approved": supported values: "Issued", "Denied"'),
        (lambda: decision("Denied", certificateChain="x"), "non-condition status fields must be empty"),
        (lambda: {"certificateChain": "x"}, 'status is immutable unless transitioning to "Issued"'),
        (lambda: decision(), "issued certificate chain must contain at least one certificate"),
        (
            lambda: issued(*chain(ec.generate_private_key(ec.SECP256R1()))),
            "not issued to the requested public key",
        ),
        (
            lambda: issued(chain()[0].replace("CERT", "OTHER "), datetime.now(UTC)),
            "entirely of CERTIFICATE PEM blocks",
        ),
        (lambda: issued(*chain(), notBefore=None), "status.notBefore: Required value"),
        (
            lambda: issued(*chain(), notBefore="2020-01-01T00:00:00Z"),
            "must be set to the NotBefore time encoded",
        ),
        (lambda: issued(*chain(KEY, HOUR / 2), HOUR / 2), "leaf certificate lifetime must be >= 1 hour"),
        (lambda: issued(*chain(KEY, 25 * HOUR), 25 * HOUR), "must be <= spec.maxExpirationSeconds (86400)"),
        (
            lambda: issued(*chain(), beginRefreshAt="2020-01-01T00:00:00Z"),
            "at least 10 minutes after status.notBefore",
        ),
        (
            lambda: issued(*chain(), beginRefreshAt="2099-01-01T00:00:00Z"),
            "at least 10 minutes before status.notAfter",
        ),
        (lambda: issued(*chain(KEY, HOUR, x509.DNSName("a..b"))), "should not contain '..'"),
    ],
)
async def test_invalid_decisions(
    cluster: Cluster, create_status: Callable[[], Object], expected: str
) -> None:
    made = await cluster.admin.create(REQUESTS, cluster.request())
    given = {name: value for name, value in create_status().items() if value is not None}
    assert expected in await rejection(decide(cluster.admin, made, given))


async def test_a_signer_needs_the_permission_to_sign(cluster: Cluster) -> None:
    signer = PathClient(cluster.plane.server, User("signer", ("system:authenticated",)), user_agent="signer")
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    resources = ["podcertificaterequests", "podcertificaterequests/status"]
    rules = [{"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["*"]}]
    role = {"metadata": {"name": "signer"}, "rules": rules}
    await cluster.admin.create(f"{rbac}/clusterroles", role)
    subjects = [{"kind": "User", "name": "signer", "apiGroup": "rbac.authorization.k8s.io"}]
    reference = {"kind": "ClusterRole", "name": "signer", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "signer"}, "roleRef": reference, "subjects": subjects}
    await cluster.admin.create(f"{rbac}/clusterrolebindings", binding)
    made = await cluster.admin.create(REQUESTS, cluster.request())
    await cluster.plane.wait_until_idle()
    message = await rejection(decide(signer, made, decision("Denied")))
    assert 'User "signer" is not permitted to "sign" for signer "example.com/signer"' in message
    rules.append(
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "resourceNames": ["example.com/*"],
            "verbs": ["sign"],
        }
    )
    await cluster.admin.merge(f"{rbac}/clusterroles/signer", {"rules": rules})
    await cluster.plane.wait_until_idle()
    denied = await decide(signer, made, decision("Denied"))
    assert denied["status"]["conditions"][0]["type"] == "Denied"


async def test_keys_with_a_proof_of_possession(cluster: Cluster) -> None:
    beta = {"certificates.k8s.io/v1beta1": True}
    key = ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def request(proof: bytes) -> Object:
        fields = {"pkixPublicKey": public, "proofOfPossession": proof}
        encoded = {name: base64.b64encode(value).decode() for name, value in fields.items()}
        return {
            **cluster.request(stubPKCS10Request=None, **encoded),
            "apiVersion": "certificates.k8s.io/v1beta1",
        }

    async with ControlPlane(port=None, runtime_config=beta) as plane:
        client = PathClient(plane.server, SYSTEM, user_agent="test")
        path = REQUESTS.replace("/v1/", "/v1beta1/")
        assert "could not verify proof" in await rejection(client.create(path, request(key.sign(b"other"))))
        await client.create(path, request(key.sign(cluster.uids["podUID"].encode())))
