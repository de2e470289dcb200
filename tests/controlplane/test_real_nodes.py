"""`real_nodes`: what a machine needs to join, from the discovery of the server to its certificates."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from tests.cli.in_process import kubewright
from tests.waiting import eventually
from tests.workloads.resources.test_certificates import request

from kubewright.api.certificates.v1 import CertificateSigningRequest
from kubewright.api.core.v1 import ConfigMap, Node
from kubewright.api.errors import Forbidden, Unauthorized
from kubewright.client import Client, load_config
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.bootstrap.join_objects import write_join_objects
from kubewright.controlplane.configuration.real_nodes import dns_address
from kubewright.node.machine.configuration import server_kubeconfig
from kubewright.workloads.bootstrap_token import BootstrapToken


def connect(tmp_path: Path, plane: ControlPlane, token: str = "") -> Any:
    """Return a client without credentials, or with a token."""
    config = server_kubeconfig(plane.url, plane.ca, token=token or "none")
    if not token:
        config["users"][0]["user"] = {}
    file = tmp_path / f"{token[:6]}kubeconfig.yaml"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(config))
    return Client.connect(load_config(file))


async def test_machine_joins_with_a_token(tmp_path: Path) -> None:
    async with ControlPlane(real_nodes=True, dns=False) as plane:
        command = ("token", "create", "--print-join-command", "-o", "json", "--ttl", "1h")
        done = await asyncio.to_thread(kubewright, tmp_path, *command, "--kubeconfig", str(plane.kubeconfig))
        assert done.returncode == 0, done.stderr
        created = json.loads(done.stdout)
        token = BootstrapToken.parse(created["token"])
        join = created["joinCommand"]
        assert re.fullmatch(
            r"kubeadm join \S+ --token \S+ --discovery-token-ca-cert-hash sha256:[0-9a-f]{64}", join
        )
        assert f"127.0.0.1:{plane.port}" in join

        # Discovery: without credentials, verified with the secret of the token.
        async with connect(tmp_path, plane) as anonymous:
            info = await anonymous.get(ConfigMap, "cluster-info", namespace="kube-public")
            text = info.data["kubeconfig"]
            assert info.data[f"jws-kubeconfig-{token.id}"] == token.signature(text)
            cluster = yaml.safe_load(text)["clusters"][0]["cluster"]
            assert base64.b64decode(cluster["certificate-authority-data"]) == plane.ca
            with pytest.raises(Forbidden):
                await anonymous.get(ConfigMap, "kubeadm-config", namespace="kube-system")

        # The token reads the configuration and requests a certificate; nothing else.
        async with connect(tmp_path, plane, str(token)) as machine:
            config = await machine.get(ConfigMap, "kubeadm-config", namespace="kube-system")
            networking = yaml.safe_load(config.data["ClusterConfiguration"])["networking"]
            assert networking == {
                "dnsDomain": "cluster.local",
                "podSubnet": "10.244.0.0/16",
                "serviceSubnet": "10.0.0.0/24",
            }
            kubelet = await machine.get(ConfigMap, "kubelet-config", namespace="kube-system")
            assert yaml.safe_load(kubelet.data["kubelet"])["clusterDNS"] == ["10.0.0.10"]
            with pytest.raises(Forbidden):
                await machine.list("secrets", namespace="kube-system")
            usages = ("digital signature", "client auth")
            signer = "kubernetes.io/kube-apiserver-client-kubelet"
            wanted = request("join", signer, user="system:node:a", groups=("system:nodes",), usages=usages)
            await machine.create(wanted)

            async def certificate() -> Any:
                found = await machine.get(CertificateSigningRequest, "join")
                return found.status.certificate if found.status is not None else None

            assert await eventually(certificate)

        # A node that registers gets a part of the range of pods.
        admin = plane.client()
        await admin.create(NODE)

        async def cidr() -> Any:
            return (await admin.get(Node, "a")).spec.pod_cidr

        assert await eventually(cidr) == "10.244.0.0/24"

        listed = await asyncio.to_thread(
            kubewright, tmp_path, "token", "list", "--kubeconfig", str(plane.kubeconfig)
        )
        assert token.id in listed.stdout
        assert token.secret not in listed.stdout
        deleted = await asyncio.to_thread(
            kubewright, tmp_path, "token", "delete", token.id, "--kubeconfig", str(plane.kubeconfig)
        )
        assert deleted.returncode == 0
        async with connect(tmp_path, plane, str(token)) as machine:
            with pytest.raises(Unauthorized):
                await machine.get(ConfigMap, "kubeadm-config", namespace="kube-system")


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


async def test_restart_keeps_changes_of_users_but_not_the_address() -> None:
    async with ControlPlane(real_nodes=True, dns=False) as plane:
        client = plane.client()
        for namespace, name, key in (
            ("kube-system", "kubelet-config", "kubelet"),
            ("kube-public", "cluster-info", "kubeconfig"),
        ):
            found = await client.get(ConfigMap, name, namespace=namespace)
            found.data = {**found.data, key: "changed"}
            await client.update(found)
        await write_join_objects(plane)
        kubelet = await client.get(ConfigMap, "kubelet-config", namespace="kube-system")
        info = await client.get(ConfigMap, "cluster-info", namespace="kube-public")
        assert kubelet.data["kubelet"] == "changed"
        assert plane.advertised_url in info.data["kubeconfig"]


async def test_token_without_real_nodes(tmp_path: Path) -> None:
    async with ControlPlane() as plane:
        done = await asyncio.to_thread(
            kubewright,
            tmp_path,
            "token",
            "create",
            "--print-join-command",
            "--kubeconfig",
            str(plane.kubeconfig),
        )
    assert done.returncode == 1
    assert "kubewright up --real-nodes" in done.stderr


def test_implied_options() -> None:
    plane = ControlPlane(real_nodes=True)
    options = plane.options
    assert tuple(options.auth) == ("node", "rbac")
    assert options.bootstrap_token_auth
    assert "NodeRestriction" in options.enable_admission_plugins
    chosen = ControlPlane(
        real_nodes=True,
        auth="always-allow",
        cluster_cidr="10.9.0.0/16",
        disable_admission_plugins=("NodeRestriction",),
    ).options
    assert (chosen.auth, chosen.cluster_cidr) == ("always-allow", "10.9.0.0/16")
    assert "NodeRestriction" not in chosen.enable_admission_plugins
    with pytest.raises(ValueError, match="overlap"):
        ControlPlane(real_nodes=True, cluster_cidr="10.0.0.0/16")
    with pytest.raises(ValueError, match="no address for cluster DNS"):
        dns_address("10.0.0.0/29")


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("192.0.2.10:8443", "https://192.0.2.10:8443"),
        ("api.example.com", "https://api.example.com:{port}"),
        ("[2001:db8::1]:443", "https://[2001:db8::1]:443"),
    ],
)
async def test_machines_join_the_endpoint_of_all_replicas(endpoint: str, url: str) -> None:
    async with ControlPlane(real_nodes=True, dns=False, control_plane_endpoint=endpoint) as plane:
        expected = url.format(port=plane.port)
        info = await plane.client().get(ConfigMap, "cluster-info", namespace="kube-public")
        assert yaml.safe_load(info.data["kubeconfig"])["clusters"][0]["cluster"]["server"] == expected
        config = await plane.client().get(ConfigMap, "kubeadm-config", namespace="kube-system")
        cluster = yaml.safe_load(config.data["ClusterConfiguration"])
        assert cluster["controlPlaneEndpoint"] == expected.removeprefix("https://")
        certificate = x509.load_pem_x509_certificate(plane.credentials.serving.certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = {str(each.value) for each in names}
        assert urlsplit(expected).hostname in found


@pytest.mark.parametrize("endpoint", ["https://api.example.com", "api.example.com/path", "a:b", "u@h"])
def test_an_endpoint_is_a_host_and_a_port(endpoint: str) -> None:
    with pytest.raises(ValueError, match="expected HOST or HOST:PORT"):
        ControlPlane(port=None, real_nodes=True, control_plane_endpoint=endpoint)
