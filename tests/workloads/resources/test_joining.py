"""Controllers for kubelets that join: bootstrap tokens, pod CIDRs, serving certificates."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.certificates.v1 import CertificateSigningRequest
from kubewright.api.core.v1 import ConfigMap, Node, Secret
from kubewright.apiserver.authentication.user import User
from kubewright.workloads.bootstrap_token import BootstrapToken
from kubewright.workloads.controllers.node_ipam import PodRange

SIGNER, CLEANER = "bootstrap-signer-controller", "token-cleaner-controller"
IPAM = "node-ipam-controller"
SERVING = "kubelet-serving-approving-controller"
INFO = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "cluster-info", "namespace": "kube-public"},
    "data": {"kubeconfig": "content"},
}


async def test_tokens_sign_the_discovery_document_until_they_expire(run: Any) -> None:
    async with run(SIGNER, CLEANER) as cluster:
        await cluster.client.create(INFO)
        first, second = BootstrapToken("aaaaaa", "1" * 16), BootstrapToken.generate()
        soon = datetime.now(UTC) + timedelta(seconds=30)
        await cluster.client.create(first.to_secret(expiration=soon, description="short"))
        await cluster.client.create(second.to_secret())
        unsigned = BootstrapToken("bbbbbb", "2" * 16)
        await cluster.client.create(unsigned.to_secret(usages=("authentication",)))

        async def data() -> dict[str, str]:
            found = await cluster.client.get(ConfigMap, "cluster-info", namespace="kube-public")
            return dict(found.data or {})

        async def is_signed_by(*tokens: BootstrapToken) -> bool:
            keys = {key for key in await data() if key.startswith("jws-")}
            return keys == {f"jws-kubeconfig-{token.id}" for token in tokens}

        await cluster.eventually(lambda: is_signed_by(first, second))
        assert (await data())["jws-kubeconfig-aaaaaa"] == first.signature("content")
        changed = await cluster.client.get(ConfigMap, "cluster-info", namespace="kube-public")
        changed.data = {"kubeconfig": "other"}
        await cluster.client.update(changed)
        await cluster.eventually(lambda: is_signed_by(first, second))
        assert (await data())["jws-kubeconfig-aaaaaa"] == first.signature("other")
        await asyncio.sleep(60)
        await cluster.eventually(lambda: is_signed_by(second))
        names = [each.name for each in await cluster.client.list(Secret, namespace="kube-system")]
        assert f"bootstrap-token-{first.id}" not in names
        assert f"bootstrap-token-{second.id}" in names
        await cluster.client.delete(Secret, name=f"bootstrap-token-{second.id}", namespace="kube-system")
        await cluster.eventually(lambda: is_signed_by())


def test_signature_is_a_detached_jws() -> None:
    token = BootstrapToken.parse("abcdef.0123456789abcdef")
    header, empty, signature = token.signature("hello").split(".")
    assert empty == ""
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "HS256", "kid": "abcdef"}
    payload = base64.urlsafe_b64encode(b"hello").rstrip(b"=")
    expected = hmac.new(b"0123456789abcdef", header.encode() + b"." + payload, hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "==") == expected
    assert "0123" not in repr(token)


@pytest.mark.parametrize("text", ["", "zyxwvu", "ZYXWVU.0123456789zyxwvu", "zyxwvu.0123456789zyxwvu0"])
def test_malformed_tokens_are_rejected_without_their_text(text: str) -> None:
    with pytest.raises(ValueError, match="6 and 16 characters") as error:
        BootstrapToken.parse(text)
    assert not text or text not in str(error.value)


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


async def test_nodes_get_parts_of_the_range(run: Any) -> None:
    async with run(IPAM, cluster_cidrs=("10.8.0.0/22",)) as cluster:
        await cluster.client.create(node("own", podCIDR="10.8.1.0/24", podCIDRs=["10.8.1.0/24"]))
        for name in ("a", "b", "c"):
            await cluster.client.create(node(name))

        async def assigned(count: int) -> Any:
            found = {each.name: each.spec.pod_cidr for each in await cluster.client.list(Node)}
            return found if len([each for each in found.values() if each]) == count else None

        found = await cluster.eventually(lambda: assigned(4))
        assert set(found.values()) == {f"10.8.{number}.0/24" for number in range(4)}
        assert found["own"] == "10.8.1.0/24"
        await cluster.client.create(node("d"))
        await cluster.eventually(lambda: has_event(cluster, "CIDRNotAvailable"))
        freed = found["b"]
        await cluster.client.delete(Node, name="b")
        assert (await cluster.eventually(lambda: assigned(4)))["d"] == freed


async def has_event(cluster: Any, reason: str) -> bool:
    return any(found == reason for found, _ in await cluster.events())


async def test_dual_stack_range(run: Any) -> None:
    async with run(IPAM, cluster_cidrs=("10.8.0.0/16", "fd00:8::/48")) as cluster:
        await cluster.client.create(node("a"))

        async def cidrs() -> Any:
            return (await cluster.client.get(Node, "a")).spec.pod_cidrs

        assert await cluster.eventually(cidrs) == ["10.8.0.0/24", "fd00:8::/64"]


@given(st.integers(0, 255), st.lists(st.integers(0, 511), max_size=40), st.integers(20, 30))
def test_parts_never_overlap_used_ones(start: int, used: list[int], size: int) -> None:
    pods = PodRange("10.0.0.0/20")
    pods._next = start % 16
    networks = [ipaddress.ip_network(f"10.0.{each // 16 % 16}.0/{size}", strict=False) for each in used]
    part = pods.next_free(map(str, networks))
    free = [
        each
        for each in ipaddress.ip_network("10.0.0.0/20").subnets(new_prefix=24)
        if not any(each.overlaps(other) for other in networks)
    ]
    assert (part is None) == (not free)
    assert part is None or ipaddress.ip_network(part) in free


def serving_request(name: str, node_name: str, *names: str) -> dict[str, Any]:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node_name}"),
        ]
    )
    alternatives = [
        x509.IPAddress(ipaddress.ip_address(each)) if each[0].isdigit() else x509.DNSName(each)
        for each in names
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.PEM
    )
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving",
            "request": base64.b64encode(pem).decode(),
            "usages": ["digital signature", "server auth"],
        },
    }


async def test_serving_certificates_for_own_addresses_are_approved(run: Any) -> None:
    async with run(SERVING, cluster_cidrs=("10.8.0.0/16",)) as cluster:
        addresses = [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "192.0.2.1"}]
        groups = ("system:nodes", "system:authenticated")
        rule = {"verbs": ["create"], "apiGroups": ["certificates.k8s.io"]}
        rule["resources"] = ["certificatesigningrequests"]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        await cluster.client.create({**role, "metadata": {"name": "csr"}, "rules": [rule]})
        subject = {"kind": "Group", "name": "system:nodes", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"apiVersion": role["apiVersion"], "kind": "ClusterRoleBinding"}
        reference = {"kind": "ClusterRole", "name": "csr", "apiGroup": "rbac.authorization.k8s.io"}
        await cluster.client.create(
            {**binding, "metadata": {"name": "csr"}, "roleRef": reference, "subjects": [subject]}
        )
        as_node = cluster.plane.client(user=User("system:node:a", groups))
        await as_node.create(serving_request("early", "a", "a", "192.0.2.1"))
        await cluster.client.create({**node("a"), "status": {"addresses": addresses}})
        await as_node.create(serving_request("good", "a", "a", "192.0.2.1"))
        await as_node.create(serving_request("other-name", "a", "a", "kubernetes.default.svc"))
        await as_node.create(serving_request("other-node", "b", "192.0.2.1"))
        await cluster.client.create(serving_request("administrator", "a", "a"))

        async def approved() -> Any:
            found = await cluster.client.list(CertificateSigningRequest)
            names = {
                each.name
                for each in found
                if any(one.type == "Approved" for one in (each.status and each.status.conditions) or ())
            }
            return names if len(names) >= 2 else None

        await cluster.eventually(approved)
        await asyncio.sleep(700)
        assert await approved() == {"early", "good"}
