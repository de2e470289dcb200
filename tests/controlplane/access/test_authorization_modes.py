"""Authorization modes, the Node authorizer, and permissions beyond the verb of a request."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane.admission.conftest import Cluster
from tests.controlplane.conftest import Up

from kubewright.apiserver import User
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.access import parse_modes

Object = dict[str, Any]
KUBELET = User("system:node:n", ("system:nodes", "system:authenticated"))
JANE = User("jane", ("system:authenticated",))
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_modes_are_parsed() -> None:
    assert parse_modes("Node,RBAC") == ("node", "rbac")
    assert parse_modes(("AlwaysAllow", "always-deny")) == ("always-allow", "always-deny")
    with pytest.raises(ValueError, match='unknown authorization mode "abac"; known are node, rbac'):
        parse_modes("rbac,abac")
    with pytest.raises(ValueError, match="listed twice"):
        parse_modes("rbac,RBAC")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A control plane with the modes Node and RBAC."""
    async with ControlPlane(port=None, auth="node,rbac") as plane:
        made = Cluster(plane)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await made.client.create("/api/v1/namespaces", body)
        await plane.wait_until_idle()
        yield made


async def send(
    cluster: Cluster, user: User, method: str, path: str, body: Object | None = None
) -> tuple[int, str]:
    """Send a request; return status and message."""
    data = json.dumps(body).encode() if body is not None else b""
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await cluster.send(method, path, data, user=user, media=media)
    found = json.loads(response.body) if response.body else {}
    return response.status, found.get("message", "") if response.status >= 400 else ""


async def grant(cluster: Cluster, *rules: Object) -> None:
    """Give jane a ClusterRole with some rules."""
    await cluster.make(f"{RBAC}/clusterroles", "ClusterRole", "jane", rules=list(rules))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jane"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    await cluster.make(
        f"{RBAC}/clusterrolebindings", "ClusterRoleBinding", "jane", roleRef=reference, subjects=[subject]
    )


def rule(resources: str, verbs: str, group: str = "", **fields: Any) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **fields}


async def test_kubelets_read_what_their_pods_refer_to(cluster: Cluster) -> None:
    core = cluster.core
    for name in ("env", "volume", "other", "pull"):
        await cluster.make(f"{core}/secrets", "Secret", name)
    await cluster.make(f"{core}/configmaps", "ConfigMap", "settings")
    variable = {"name": "V", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}
    spec = {
        "nodeName": "n",
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"name": "c", "image": "i", "env": [variable]}],
        "volumes": [
            {"name": "s", "secret": {"secretName": "volume"}},
            {"name": "m", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
        ],
    }
    await cluster.pod("mine", spec=spec)
    await cluster.pod("elsewhere", spec={"nodeName": "m"})
    for path in ("secrets/env", "secrets/volume", "secrets/pull", "configmaps/settings", "pods/mine"):
        assert (await send(cluster, KUBELET, "GET", f"{core}/{path}"))[0] == 200, path
    unrelated = "no relationship found between node 'n' and this object"
    for path in ("secrets/other", "pods/elsewhere"):
        status, message = await send(cluster, KUBELET, "GET", f"{core}/{path}")
        assert (status, message.endswith(unrelated)) == (403, True), message
    assert (await send(cluster, KUBELET, "GET", f"{core}/secrets"))[0] == 403
    assert (await send(cluster, KUBELET, "GET", f"{core}/secrets?fieldSelector=metadata.name=env"))[0] == 200
    pods = "/api/v1/pods"
    assert (await send(cluster, KUBELET, "GET", pods))[0] == 403
    assert (await send(cluster, KUBELET, "GET", f"{pods}?fieldSelector=spec.nodeName=n"))[0] == 200
    claim = f"{core}/persistentvolumeclaims/claim"
    assert (await send(cluster, KUBELET, "GET", claim))[0] == 404
    assert (await send(cluster, KUBELET, "DELETE", claim))[0] == 403


async def test_kubelets_read_their_own_node_and_lease(cluster: Cluster) -> None:
    for name in ("n", "m"):
        await cluster.make("/api/v1/nodes", "Node", name)
    assert (await send(cluster, KUBELET, "GET", "/api/v1/nodes/n"))[0] == 200
    status, message = await send(cluster, KUBELET, "GET", "/api/v1/nodes/m")
    assert (status, message.rpartition(": ")[2]) == (
        403,
        "node 'n' cannot read 'm', only its own Node object",
    )
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
    assert (await send(cluster, KUBELET, "GET", leases.format("kube-node-lease", "n")))[0] == 404
    assert (await send(cluster, KUBELET, "GET", leases.format("kube-node-lease", "m")))[0] == 403
    assert (await send(cluster, KUBELET, "GET", leases.format("ns", "n")))[0] == 403


async def test_rbac_decides_on_other_users_and_requests(cluster: Cluster) -> None:
    assert (await send(cluster, JANE, "GET", f"{cluster.core}/secrets"))[0] == 403
    await grant(cluster, rule("secrets", "list"))
    assert (await send(cluster, JANE, "GET", f"{cluster.core}/secrets"))[0] == 200
    assert (await send(cluster, KUBELET, "GET", "/api/v1/services"))[0] == 200


async def test_streams_require_create(cluster: Cluster) -> None:
    await cluster.pod("p")
    resources = "pods pods/exec pods/attach pods/portforward"
    await grant(cluster, rule(resources, "get"))
    for name in ("exec?command=x", "attach", "portforward"):
        status, message = await send(cluster, JANE, "GET", f"{cluster.core}/pods/p/{name}")
        assert (status, message) == (403, 'pods "p" is forbidden: ')
    role = {"rules": [rule(resources, "get create")]}
    await cluster.client.merge(f"{RBAC}/clusterroles/jane", role)
    status, message = await send(cluster, JANE, "GET", f"{cluster.core}/pods/p/exec?command=x")
    assert (status, message) == (400, "pod p does not have a host assigned")


async def test_parts_of_the_claim_status_require_their_own_permissions(cluster: Cluster) -> None:
    group = "resource.k8s.io"
    claims = f"/apis/{group}/v1/namespaces/ns/resourceclaims"
    device = {"name": "r", "exactly": {"deviceClassName": "c"}}
    await cluster.make(claims, "ResourceClaim", "c", spec={"devices": {"requests": [device]}})
    await grant(cluster, rule("resourceclaims/status", "update patch", group))
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
    allocation = {"status": {"allocation": {"devices": {"results": [result]}}}}
    path = f"{claims}/c/status"
    status, message = await send(cluster, JANE, "PATCH", path, allocation)
    assert status == 422
    assert message == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing '
        'status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" '
        'permission: resourceclaims.resource.k8s.io is forbidden: User "jane" cannot patch resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    rules = [rule("resourceclaims/status resourceclaims/binding", "update patch", group)]
    await cluster.client.merge(f"{RBAC}/clusterroles/jane", {"rules": rules})
    assert (await send(cluster, JANE, "PATCH", path, allocation))[0] == 200
    devices = {"status": {"devices": [{name: result[name] for name in ("driver", "pool", "device")}]}}
    status, message = await send(cluster, JANE, "PATCH", path, devices)
    assert status == 422
    assert 'requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission' in message
    rules.append(
        rule("resourceclaims/driver", "arbitrary-node:patch", group, resourceNames=["d.example.com"])
    )
    await cluster.client.merge(f"{RBAC}/clusterroles/jane", {"rules": rules})
    assert (await send(cluster, JANE, "PATCH", path, devices))[0] == 200


def test_always_allow_disables_anonymous_requests(tmp_path: Path, start: Callable[..., Up]) -> None:
    up = start(tmp_path, "--auth", "rbac,AlwaysAllow", "--token-auth-file", str(_token_file(tmp_path)))
    assert "Warning: --auth always-allow disables anonymous requests" in (tmp_path / "log").read_text()
    url = (tmp_path / "ready").read_text().strip()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for header, expected in (("", 401), ("Basic YmFkOndyb25n", 401), ("Bearer secret", 200)):
        request = urllib.request.Request(f"{url}/api/v1/nodes")
        if header:
            request.add_header("Authorization", header)
        try:
            status = urllib.request.urlopen(request, context=context).status
        except urllib.error.HTTPError as error:
            status = error.code
        assert status == expected, header
    up.stop()


def _token_file(folder: Path) -> Path:
    path = folder / "tokens"
    path.write_text('secret,ann,,"testers"\n')
    return path
