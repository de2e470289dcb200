"""An extension API server behind the control plane, as in the documentation."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, resource
from kubewright.api.apiregistration.v1 import APIService
from kubewright.api.core.v1 import ConfigMap, Service, ServiceAccount, ServicePort, ServiceSpec
from kubewright.api.errors import Forbidden, NotFound, Unauthorized
from kubewright.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubewright.apiserver import APIServer, Delegation, HTTPServer, api_services, resource_of, serve
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client, ClusterConfig, PEMData, condition, merge_patch
from kubewright.controlplane import ControlPlane
from kubewright.storage import MemoryStorage
from kubewright.tls.certificates import CertificateAuthority, KeyPair


class ToySpec(Spec):
    colour: str


@resource(group="toys.example.com", version="v1", storage=True, hub=True)
class Toy(CustomResource[ToySpec, None]):
    """A toy."""


@resource(group="toys.example.com", version="v1beta1", kind="Toy")
class OldToy(CustomResource[ToySpec, None]):
    """A toy of the older version."""

    def convert_to(self, hub: type[Toy]) -> Toy:
        return hub(metadata=self.metadata, spec=self.spec)

    @classmethod
    def convert_from(cls, toy: Toy) -> OldToy:
        return cls(metadata=toy.metadata, spec=toy.spec)


def toy(name: str) -> Toy:
    return Toy(metadata=ObjectMeta(name=name, namespace="default"), spec=ToySpec(colour="red"))


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[ControlPlane, Client]]:
    async with ControlPlane() as plane, Client.connect(plane.kubeconfig) as client:
        yield plane, client


@pytest.fixture
async def front(cluster: tuple[ControlPlane, Client]) -> AsyncIterator[HTTPServer]:
    plane, client = cluster
    access = await Delegation.read(client)
    server = APIServer(MemoryStorage(), authenticator=access.authenticator, authorizer=access.authorizer)
    server.add(resource_of(Toy, OldToy))
    async with serve(server, hosts=("toys.default.svc",), client_authorities=access.authorities) as front:
        plane.service_resolver.overrides["toys.default"] = front.url
        spec = ServiceSpec(ports=[ServicePort(port=443)])
        await client.create(Service(metadata=ObjectMeta(name="toys", namespace="default"), spec=spec))
        services = api_services(front, service="toys", namespace="default")
        for each in services:
            await client.apply(each, field_manager="toys", force=True)
        for each in services:
            await client.wait(APIService, each.name, until=condition("Available"), timeout=60)
        yield front


async def test_preferred_version(cluster: tuple[ControlPlane, Client], front: HTTPServer) -> None:
    services = api_services(front, service="toys", namespace="default")
    priorities = {each.name: each.spec.version_priority for each in services if each.spec}
    assert list(priorities) == ["v1beta1.toys.example.com", "v1.toys.example.com"]
    assert list(priorities.values()) == sorted(priorities.values(), key=lambda each: each or 0)


async def test_delegated_authorization(cluster: tuple[ControlPlane, Client], front: HTTPServer) -> None:
    _, client = cluster
    await client.create(toy("car"))
    assert (await client.get(OldToy, "car", namespace="default")).spec.colour == "red"
    bob = client.with_impersonation("bob")
    with pytest.raises(Forbidden, match='User "bob" cannot list resource "toys" in API group'):
        await bob.list(Toy)
    rule = PolicyRule(api_groups=["toys.example.com"], resources=["toys"], verbs=["get", "list"])
    await client.create(ClusterRole(metadata=ObjectMeta(name="toys"), rules=[rule]))
    for subject in (
        Subject(kind="User", name="ann", api_group="rbac.authorization.k8s.io"),
        Subject(kind="ServiceAccount", name="robot", namespace="default"),
    ):
        await client.create(
            ClusterRoleBinding(
                metadata=ObjectMeta(name=f"toys-{subject.name}"),
                role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="toys"),
                subjects=[subject],
            )
        )
    ann = client.with_impersonation("ann")
    assert [each.name for each in await ann.list(Toy)] == ["car"]
    with pytest.raises(Forbidden, match='User "ann" cannot create'):
        await ann.create(toy("train"))


async def test_delegated_authentication_of_tokens(
    cluster: tuple[ControlPlane, Client], front: HTTPServer
) -> None:
    _, client = cluster
    await client.create(toy("car"))
    await client.create(ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default")))
    account = client.subresource("token", ServiceAccount, "robot", namespace="default")
    asked = await account.create(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    )
    token = asked["status"]["token"]
    straight = ClusterConfig(server=front.url, ca=PEMData(data=front.authority_pem), token=token)
    async with Client.connect(straight, metrics=False) as robot:
        with pytest.raises(Forbidden, match='User "system:serviceaccount:default:robot" cannot list'):
            await robot.list(Toy)
    wrong = ClusterConfig(server=front.url, ca=PEMData(data=front.authority_pem), token="wrong")
    async with Client.connect(wrong, metrics=False) as unauthenticated:
        with pytest.raises(Unauthorized):
            await unauthenticated.list(Toy)


async def test_cluster_without_aggregation() -> None:
    async with ControlPlane(port=None) as plane:
        client = Client.from_transport(InProcessTransport(plane.server))
        await client.delete(
            ConfigMap, "extension-apiserver-authentication", namespace="kube-system", missing_ok=True
        )
        with pytest.raises(
            NotFound, match="config map kube-system/extension-apiserver-authentication not found"
        ):
            await Delegation.read(client)


async def test_signal_stops_the_server() -> None:
    async with serve(APIServer(MemoryStorage())) as front:
        waiting = asyncio.create_task(front.until_stopped())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(waiting, 60)


async def test_the_configuration_is_followed(cluster: tuple[ControlPlane, Client]) -> None:
    """A client certificate of a rotated authority is accepted without a restart, one of the old is not."""
    _, client = cluster
    access = await Delegation.read(client)
    server = APIServer(MemoryStorage(), authenticator=access.authenticator, authorizer=access.authorizer)
    server.add(resource_of(Toy))
    old, new = CertificateAuthority.create("old"), CertificateAuthority.create("new")
    name, namespace = "extension-apiserver-authentication", "kube-system"
    async with serve(server, client_authorities=access.authorities) as front, access.follow(front):
        for authority in (old, new):
            await client.patch(
                ConfigMap,
                name,
                merge_patch({"data": {"client-ca-file": authority.certificate.decode()}}),
                namespace=namespace,
            )
            async with asyncio.timeout(60):
                while authority.certificate not in front.client_authorities:
                    await asyncio.sleep(0.01)

        def connect(pair: KeyPair) -> ClusterConfig:
            return ClusterConfig(
                server=front.url,
                ca=PEMData(data=front.authority_pem),
                client_certificate=PEMData(data=pair.certificate),
                client_key=PEMData(data=pair.key),
            )

        async with Client.connect(connect(new.issue("ann")), metrics=False) as ann:
            with pytest.raises(Forbidden, match='User "ann" cannot list'):
                await ann.list(Toy)
        async with Client.connect(connect(old.issue("eve")), metrics=False) as eve:
            with pytest.raises((Forbidden, Unauthorized), match=r"anonymous|Unauthorized"):
                await eve.list(Toy)
