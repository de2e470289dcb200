"""Admission plug-ins that are disabled by default."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.controlplane.admission.conftest import Cluster

from kubewright.api.errors import APIError, Forbidden, NotFound
from kubewright.apiserver import User
from kubewright.controlplane import ControlPlane

Object = dict[str, Any]
Start = Callable[..., Awaitable[Cluster]]
NODE = User("system:node:n", ("system:nodes", "system:masters", "system:authenticated"))
"""A kubelet that is authorized for everything, so that only admission restricts it."""


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a control plane with more plug-ins."""
    async with AsyncExitStack() as stack:

        async def started(*plugins: str, **annotations: str) -> Cluster:
            plane = await stack.enter_async_context(ControlPlane(port=None, enable_admission_plugins=plugins))
            cluster = Cluster(plane)
            prefix = "scheduler.alpha.kubernetes.io/"
            metadata = {
                "name": "ns",
                "annotations": {
                    f"{prefix}{name.replace('_', '-')}": text for name, text in annotations.items()
                },
            }
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await cluster.client.create("/api/v1/namespaces", body)
            await plane.wait_until_idle()
            return cluster

        yield started


async def write(cluster: Cluster, method: str, path: str, body: Object | None = None) -> str:
    """Send a request as a kubelet; return the reason of a rejection, or an empty string."""
    data = json.dumps(body).encode() if body is not None else b""
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await cluster.send(method, path, data, user=NODE, media=media)
    found = json.loads(response.body)
    if response.status < 300:
        return ""
    assert response.status == 403, found
    reason: str = found["message"].partition(" is forbidden: ")[2]
    return reason


async def test_always_admit_and_always_deny(start: Start) -> None:
    await (await start("AlwaysAdmit")).config_map("a")
    denying = await start("AlwaysDeny")
    assert await write(denying, "DELETE", "/api/v1/namespaces/ns") == (
        "admission control is denying all modifications"
    )


async def test_always_pull_images(start: Start) -> None:
    cluster = await start("AlwaysPullImages")
    container = {"name": "c", "image": "i:1", "imagePullPolicy": "Never"}
    pod = await cluster.pod(
        "p", spec={"containers": [container], "initContainers": [{**container, "name": "d"}]}
    )
    parts = pod["spec"]["containers"] + pod["spec"]["initContainers"]
    assert [each["imagePullPolicy"] for each in parts] == ["Always", "Always"]


async def test_new_external_addresses_of_services_are_denied(start: Start) -> None:
    cluster = await start("DenyServiceExternalIPs")
    services = f"{cluster.core}/services"
    spec: Object = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    with pytest.raises(Forbidden, match="Use of external IPs is denied by admission control"):
        await cluster.make(services, "Service", "s", spec=spec)
    await cluster.make(services, "Service", "s", spec={"ports": spec["ports"]})


async def test_extended_resources_are_tolerated(start: Start) -> None:
    cluster = await start("ExtendedResourceToleration")
    resources = {"limits": {"example.com/gpu": "1", "cpu": "1"}, "requests": {"example.com/gpu": "1"}}
    pod = await cluster.pod("p", spec={"containers": [{"name": "c", "image": "i", "resources": resources}]})
    wanted = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert wanted in pod["spec"]["tolerations"]
    assert all(each["key"] != "cpu" for each in pod["spec"]["tolerations"])


async def test_required_anti_affinity_is_limited_to_nodes(start: Start) -> None:
    cluster = await start("LimitPodHardAntiAffinityTopology")

    def affinity(key: str) -> Object:
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    await cluster.pod("a", spec=affinity("kubernetes.io/hostname"))
    with pytest.raises(
        Forbidden, match=r"has TopologyKey zone but only key kubernetes\.io/hostname is allowed"
    ):
        await cluster.pod("b", spec=affinity("zone"))


async def test_namespaces_are_created_or_required(start: Start) -> None:
    cluster = await start("NamespaceAutoProvision")
    await cluster.pod(
        "p", namespace="new", spec={"serviceAccountName": "", "automountServiceAccountToken": False}
    )
    found = await cluster.client.get("/api/v1/namespaces/new")
    assert found["status"]["phase"] == "Active"
    required = await start("NamespaceExists")
    with pytest.raises(NotFound):
        await required.pod("p", namespace="missing")


async def test_the_node_selector_of_the_namespace_is_merged(start: Start) -> None:
    cluster = await start("PodNodeSelector", node_selector="env=prod,disk = ssd")
    pod = await cluster.pod("p", spec={"nodeSelector": {"own": "yes"}})
    assert pod["spec"]["nodeSelector"] == {"env": "prod", "disk": "ssd", "own": "yes"}
    with pytest.raises(Forbidden, match="conflicts with its namespace node label selector"):
        await cluster.pod("q", spec={"nodeSelector": {"env": "test"}})


async def test_tolerations_are_added_and_restricted(start: Start) -> None:
    default = json.dumps([{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}])
    keys = ("team", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    allowed = json.dumps([{"key": key, "operator": "Exists"} for key in keys])
    cluster = await start(
        "PodTolerationRestriction", defaultTolerations=default, tolerationsWhitelist=allowed
    )
    pod = await cluster.pod("p")
    assert json.loads(default)[0] in pod["spec"]["tolerations"]
    with pytest.raises(APIError, match="conflict with its namespace whitelist") as raised:
        await cluster.pod("q", spec={"tolerations": [{"key": "other", "operator": "Exists"}]})
    assert raised.value.status_code == 500


def test_plugins_without_effect_are_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    names = ["EventRateLimit", "ImagePolicyWebhook", "JobValidation", "PodGroupWorkloadExists"]
    with caplog.at_level(logging.WARNING):
        ControlPlane(port=None, enable_admission_plugins=names)
    assert [each.__dict__["plugin"] for each in caplog.records if hasattr(each, "plugin")] == names


async def test_a_kubelet_writes_its_own_node(start: Start) -> None:
    cluster = await start("NodeRestriction")

    def node(name: str, **metadata: Any) -> Object:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}

    nodes = "/api/v1/nodes"
    assert await write(cluster, "POST", nodes, node("m")) == ('node "n" is not allowed to modify node "m"')
    labels = {"node-restriction.kubernetes.io/a": "b", "x.k8s.io/y": "z", "kubernetes.io/os": "linux"}
    assert await write(cluster, "POST", nodes, node("n", labels=labels)) == (
        'node "n" is not allowed to set the following labels: node-restriction.kubernetes.io/a, x.k8s.io/y'
    )
    assert await write(cluster, "POST", nodes, node("n", labels={"kubernetes.io/os": "linux"})) == ""
    one = f"{nodes}/n"
    taint = {"spec": {"taints": []}}
    assert await write(cluster, "PATCH", one, taint) == 'node "n" is not allowed to modify taints'
    label = {"metadata": {"labels": {"kubernetes.io/role": "x"}}}
    assert await write(cluster, "PATCH", one, label) == (
        "is not allowed to modify labels: kubernetes.io/role"
    )
    assert await write(cluster, "PATCH", f"{one}/status", {"status": {"addresses": []}}) == ""
    assert await write(cluster, "DELETE", one) == ""


async def test_a_kubelet_writes_its_own_pods(start: Start) -> None:
    cluster = await start("NodeRestriction")
    node = await cluster.make("/api/v1/nodes", "Node", "n")
    await cluster.pod("mine", spec={"nodeName": "n"})
    await cluster.pod("other", spec={"nodeName": "m"})
    pods = f"{cluster.core}/pods"
    status = {"status": {"phase": "Running"}}
    assert await write(cluster, "PATCH", f"{pods}/mine/status", status) == ""
    assert await write(cluster, "PATCH", f"{pods}/other/status", status) == (
        'node "n" can only update pod status for pods with spec.nodeName set to itself'
    )
    assert await write(cluster, "PATCH", f"{pods}/mine", {"metadata": {"labels": {"a": "b"}}}) == (
        'unexpected operation "UPDATE", node "n" can only create and delete mirror pods'
    )
    eviction: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    assert await write(cluster, "POST", f"{pods}/other/eviction", eviction) == (
        "node n can only evict pods with spec.nodeName set to itself"
    )
    assert await write(cluster, "DELETE", f"{pods}/other") == (
        'node "n" can only delete pods with spec.nodeName set to itself'
    )
    assert await write(cluster, "DELETE", f"{pods}/mine") == ""
    owner: Object = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": node["metadata"]["uid"]}
    mirror: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mirror", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }
    assert "can only create mirror pods" in await write(cluster, "POST", pods, mirror)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    mirror["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "c"}}]
    assert await write(cluster, "POST", pods, mirror) == (
        'node "n" can not create pods that reference configmaps (via configmap volumes)'
    )
    del mirror["spec"]["volumes"]
    assert await write(cluster, "POST", pods, mirror) == ""


async def test_a_kubelet_requests_tokens_for_its_pods(start: Start) -> None:
    cluster = await start("NodeRestriction")
    pods = {name: await cluster.pod(name, spec={"nodeName": node}) for name, node in (("p", "n"), ("q", "m"))}

    async def token(pod: str, uid: str = "", account: str = "default") -> str:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod}
        reference["uid"] = uid or pods[pod]["metadata"]["uid"]
        spec = {"audiences": [], "boundObjectRef": reference} if pod else {}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return await write(cluster, "POST", f"{cluster.core}/serviceaccounts/{account}/token", body)

    assert await token("p") == ""
    assert await token("q") == "node requested token bound to a pod scheduled on a different node"
    assert (await token("p", "wrong")).startswith("the UID in the bound object reference (wrong)")
    pods[""] = pods["p"]
    assert await token("") == "node requested token not bound to a pod"
    assert await token("", account="missing") == "node requested token not bound to a pod"


async def test_a_kubelet_without_other_permissions_requests_tokens_of_projected_volumes() -> None:
    kubelet = User("system:node:n", ("system:nodes", "system:authenticated"))
    plane = ControlPlane(port=None, auth="node,rbac", enable_admission_plugins=["NodeRestriction"])
    async with plane:
        cluster = Cluster(plane)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await cluster.client.create("/api/v1/namespaces", namespace)
        await plane.wait_until_idle()
        pod = await cluster.pod("p", spec={"nodeName": "n"})
        await plane.wait_until_idle()

        async def token(account: str, **spec: Any) -> Object:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            path = f"{cluster.core}/serviceaccounts/{account}/token"
            response = await cluster.send("POST", path, json.dumps(body).encode(), user=kubelet)
            found: Object = json.loads(response.body)
            return found

        bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
        issued = await token("default", boundObjectRef=bound, expirationSeconds=3607)
        assert issued["spec"]["audiences"] == list(plane.issuer.audiences)
        assert issued["status"]["token"]
        other = await token("default", boundObjectRef=bound, audiences=["vault"])
        assert 'audience "vault" not found in pod spec volume' in other["message"]


async def test_a_kubelet_writes_its_own_lease_and_signing_requests(start: Start) -> None:
    cluster = await start("NodeRestriction")

    def lease(name: str) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {},
        }

    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    assert await write(cluster, "POST", leases.format("ns"), lease("n")) == (
        'can only access leases in the "kube-node-lease" system namespace'
    )
    own = leases.format("kube-node-lease")
    assert await write(cluster, "POST", own, lease("m")) == (
        "can only access node lease with the same name as the requesting node"
    )
    assert await write(cluster, "POST", own, lease("n")) == ""
    csr = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(signing_request("system:node:m")).decode(),
        },
    }
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    assert await write(cluster, "POST", path, csr) == "can only create a node CSR with CN=system:node:n"


def signing_request(name: str) -> bytes:
    """Return a PEM request for a certificate of a common name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)
