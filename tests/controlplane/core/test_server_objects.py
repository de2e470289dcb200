"""Objects that the API server writes about itself: bootstrap objects, endpoints, lease, kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench._ports import unused_port
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import StoreReadError
from kubewright.api.values.times import parse_time
from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.replicas.identity_lease import LABEL, IdentityLease
from kubewright.tls.certificates import CertificateAuthority

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def test_bootstrap_objects_are_managed_by_kube_apiserver() -> None:
    async with ControlPlane(port=None, controllers=False) as plane:
        client = PathClient(plane.server, SYSTEM)
        for path, owned in (
            ("/api/v1/namespaces/default", "f:metadata"),
            ("/api/v1/namespaces/default/services/kubernetes", "f:spec"),
            ("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", "f:rules"),
            ("/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", "f:spec"),
        ):
            (entry,) = (await client.get(path))["metadata"]["managedFields"]
            assert (entry["manager"], entry["operation"]) == ("kube-apiserver", "Update"), path
            assert entry["fieldsType"] == "FieldsV1"
            assert owned in entry["fieldsV1"]
        default = await client.get("/api/v1/namespaces/default")
        assert "f:spec" not in default["metadata"]["managedFields"][0]["fieldsV1"]


async def test_endpoints_have_the_port_of_the_last_start(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/state.db"
    for _ in range(2):
        port = unused_port()
        async with ControlPlane(store=store, port=port, controllers=False) as plane:
            client = PathClient(plane.server, SYSTEM)
            found = await client.get("/api/v1/namespaces/default/endpoints/kubernetes")
            (subset,) = found["subsets"]
            assert [each["port"] for each in subset["ports"]] == [port]
            found = await client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
            assert [each["port"] for each in found["ports"]] == [port]


async def identity_leases(client: PathClient) -> list[dict[str, Any]]:
    listed = await client.get(f"{LEASES}?labelSelector={LABEL}%3Dkube-apiserver")
    items: list[dict[str, Any]] = listed["items"]
    return items


async def test_the_identity_lease_is_renewed() -> None:
    async with ControlPlane(port=None, controllers=False) as plane:
        client = PathClient(plane.server, SYSTEM)
        (before,) = await identity_leases(client)
        assert before["spec"]["leaseDurationSeconds"] == 3600
        assert before["spec"]["holderIdentity"].startswith(before["metadata"]["name"] + "_")
        lease = IdentityLease(plane.server, None)
        await lease.renew()
        (after,) = await identity_leases(client)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert parse_time(after["spec"]["renewTime"]) > parse_time(before["spec"]["renewTime"])
        assert after["spec"]["holderIdentity"] == lease.holder

        other = IdentityLease(plane.server, 6443)
        await other.renew()
        path = f"{LEASES}/{other.name}"
        await client.merge(path, {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}})
        await lease.delete_expired()
        assert [each["metadata"]["name"] for each in await identity_leases(client)] == [lease.name]


async def test_the_kubeconfig_verifies_a_foreign_serving_certificate(tmp_path: Path) -> None:
    foreign = CertificateAuthority.create("foreign")
    pair = foreign.issue("kube-apiserver", hosts=("127.0.0.1",), server=True)
    pair.write(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    (tmp_path / "ca.crt").write_bytes(foreign.certificate)
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(cert_dir=tmp_path, kubeconfig=kubeconfig, controllers=False) as plane:
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        pem = base64.b64decode(cluster["certificate-authority-data"])
        assert pem == foreign.certificate == plane.ca
        context = ssl.create_default_context(cadata=pem.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=context)
        writer.close()


async def test_a_start_with_undecodable_objects_succeeds(tmp_path: Path) -> None:
    """Damaged values in the store do not keep the control plane from starting; other objects are served."""
    store = f"sqlite:{tmp_path}/state.db"
    async with ControlPlane(store=store, port=None) as plane:
        for key in (
            "leases/kube-system/damaged",
            "secrets/default/damaged",
            "services/specs/default/damaged",
        ):
            await plane.storage.create(f"{plane.server.prefix}{key}", b"\xff not JSON")
        resource = plane.server.store("", "configmaps")
        assert resource is not None
        await plane.storage.create(resource.key("default", "damaged"), b"[]")
    async with ControlPlane(store=store, port=None) as plane:
        client = PathClient(plane.server, SYSTEM)
        await plane.wait_until_idle()
        found = await client.get("/api/v1/namespaces/kube-system/configmaps?labelSelector=!x")
        assert "kube-root-ca.crt" in [each["metadata"]["name"] for each in found["items"]]
        with pytest.raises(StoreReadError, match="/registry/configmaps/default/damaged"):
            await client.get("/api/v1/namespaces/default/configmaps?labelSelector=!x")
        ready = await plane.server.handle(HTTPRequest("GET", "/readyz", user=SYSTEM))
        assert ready.status == 200
