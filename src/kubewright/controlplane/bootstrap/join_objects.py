"""What `kubeadm init` writes and `kubeadm join` reads: how machines find and trust the cluster, and join it.

- `kube-public/cluster-info`: URL and certificate authority of the server, readable without authentication and
  signed with each bootstrap token (`kubewright.workloads.controllers.bootstrap_tokens`)
- `kube-system/kubeadm-config`, `kubelet-config` and `kube-proxy`: the configuration of the cluster and of the
  programs on nodes; changes of users are kept
- the permissions of bootstrap tokens and of nodes, with the names that kubeadm uses
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kubewright.apiserver.encoding.negotiation import to_yaml
from kubewright.controlplane.configuration.real_nodes import dns_address
from kubewright.node.machine.configuration import (
    kube_proxy_configuration,
    kubelet_configuration,
    server_kubeconfig,
)

from .objects import write_missing
from .roles import RBAC
from .updates import merge_role

if TYPE_CHECKING:
    from kubewright.controlplane.plane import ControlPlane

Object = dict[str, Any]

TOKENS: Final = "system:bootstrappers:kubeadm:default-node-token"
NODES: Final = "system:nodes"
PKI: Final = "/etc/kubernetes/pki"
"""Where kubeadm writes the certificate authority on a node."""


async def write_join_objects(plane: ControlPlane) -> None:
    """Write the objects that do not exist; update the address of the server and its authority."""
    server = plane.server
    await write_missing(server, "", "configmaps", _config_maps(plane), merge=_merge_cluster_info)
    if plane.authorization.rules is not None:
        for plural, objects in {
            "clusterroles": [_role("kubeadm:get-nodes", "", "nodes")],
            "clusterrolebindings": list(_cluster_role_bindings()),
            "roles": list(_roles()),
            "rolebindings": list(_role_bindings()),
        }.items():
            await write_missing(server, RBAC, plural, objects, merge=merge_role)


def _config_maps(plane: ControlPlane) -> Iterator[Object]:
    options = plane.options
    url = plane.advertised_url
    dns, domain = dns_address(plane.service_ranges[0]), options.cluster_domain
    yield _config_map("kube-public", "cluster-info", kubeconfig=server_kubeconfig(url, plane.ca))
    cluster = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": "kubewright",
        "controlPlaneEndpoint": url.removeprefix("https://"),
        "kubernetesVersion": plane.server.version.git_version,
        "networking": {
            "dnsDomain": domain,
            "podSubnet": options.cluster_cidr,
            "serviceSubnet": ",".join(plane.service_ranges),
        },
    }
    yield _config_map("kube-system", "kubeadm-config", ClusterConfiguration=cluster)
    kubelet = kubelet_configuration(dns=dns, domain=domain, ca_file=f"{PKI}/ca.crt")
    kubelet["staticPodPath"] = "/etc/kubernetes/manifests"
    yield _config_map("kube-system", "kubelet-config", kubelet=kubelet)
    proxy = kube_proxy_configuration(
        kubeconfig="/var/lib/kube-proxy/kubeconfig.conf", cluster_cidr=options.cluster_cidr
    )
    yield _config_map("kube-system", "kube-proxy", **{"config.conf": proxy})


def _merge_cluster_info(stored: Object, wanted: Object) -> Object | None:
    """Replace the address and authority of the server; other config maps are the user's."""
    key, data = "kubeconfig", stored.get("data") or {}
    expected = wanted["data"].get(key)
    if expected is None or data.get(key) == expected:
        return None
    return {**stored, "data": {**data, key: expected}}


def _config_map(namespace: str, name: str, **data: Object) -> Object:
    encoded = {key: to_yaml(value).decode() for key, value in data.items()}
    return {"metadata": {"name": name, "namespace": namespace}, "data": encoded}


def _role(name: str, namespace: str, resource: str, *names: str) -> Object:
    rule: Object = {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "rules": [{**rule, "resourceNames": list(names)} if names else rule]}


def _roles() -> Iterator[Object]:
    yield _role("kubeadm:bootstrap-signer-clusterinfo", "kube-public", "configmaps", "cluster-info")
    yield _role("kubeadm:nodes-kubeadm-config", "kube-system", "configmaps", "kubeadm-config")
    yield _role("kubeadm:kubelet-config", "kube-system", "configmaps", "kubelet-config")
    yield _role("kube-proxy", "kube-system", "configmaps", "kube-proxy")


def _binding(name: str, namespace: str, kind: str, role: str, *subjects: tuple[str, str]) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": each, "name": who} for each, who in subjects],
    }


def _role_bindings() -> Iterator[Object]:
    tokens, nodes = ("Group", TOKENS), ("Group", NODES)
    for name, namespace, subjects in (
        ("kubeadm:bootstrap-signer-clusterinfo", "kube-public", (("User", "system:anonymous"),)),
        ("kubeadm:nodes-kubeadm-config", "kube-system", (tokens, nodes)),
        ("kubeadm:kubelet-config", "kube-system", (nodes, tokens)),
        ("kube-proxy", "kube-system", (tokens,)),
    ):
        yield _binding(name, namespace, "Role", name, *subjects)


def _cluster_role_bindings() -> Iterator[Object]:
    approval = "system:certificates.k8s.io:certificatesigningrequests"
    for name, role, group in (
        ("kubeadm:get-nodes", "kubeadm:get-nodes", TOKENS),
        ("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", TOKENS),
        ("kubeadm:node-autoapprove-bootstrap", f"{approval}:nodeclient", TOKENS),
        ("kubeadm:node-autoapprove-certificate-rotation", f"{approval}:selfnodeclient", NODES),
    ):
        yield _binding(name, "", "ClusterRole", role, ("Group", group))
