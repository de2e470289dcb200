"""An app behind the aggregator of a control plane: every kind of declared function."""

from __future__ import annotations

import asyncio

import pytest

from kubewright import APIServerApp, Client, ObjectMeta
from kubewright.api.apiregistration.v1 import APIService
from kubewright.api.core.v1 import ConfigMap, Service
from kubewright.api.errors import Forbidden, Invalid, NotFound
from kubewright.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubewright.apiserver import User
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import merge_patch
from kubewright.extension import serve_app
from kubewright.manager import InstallationError
from kubewright.testing import RunningApp, TestServer, run_app, start_test_server

from .ovens import (
    GROUP,
    Oven,
    OvenSpecV1,
    OvenSpecV1Alpha1,
    OvenV1,
    OvenV1Alpha1,
    Plate,
    Spec,
    converter,
    kitchen,
)

pytestmark = pytest.mark.control_plane(controllers=False)


def oven(name: str = "big", **spec: object) -> OvenV1:
    return OvenV1(metadata=ObjectMeta(name=name, namespace="default"), spec=OvenSpecV1(**spec))


async def allow_listing(client: Client, user: str) -> None:
    rule = PolicyRule(api_groups=[GROUP], resources=["ovens"], verbs=["list"])
    await client.create(ClusterRole(metadata=ObjectMeta(name=user), rules=[rule]))
    api_group = "rbac.authorization.k8s.io"
    await client.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name=user),
            role_ref=RoleRef(api_group=api_group, kind="ClusterRole", name=user),
            subjects=[Subject(kind="User", name=user, api_group=api_group)],
        )
    )


async def test_conversion_defaults_and_validation(client: Client, running_app: RunningApp) -> None:
    await running_app(kitchen())
    made = await client.create(oven())
    assert made.spec.temperature == "180C"  # default of the hub, which is not served
    old = await client.get(OvenV1Alpha1, "big")
    assert old.spec.fahrenheit == 356
    spec = OvenSpecV1Alpha1(fahrenheit=500)
    await client.create(OvenV1Alpha1(metadata=ObjectMeta(name="small", namespace="default"), spec=spec))
    assert (await client.get(OvenV1, "small")).spec.temperature == "260C"
    with pytest.raises(Invalid, match=r"spec.celsius: Invalid value: 600: must be at most 500"):
        await client.create(oven("hell", temperature="600C"))
    with pytest.raises(Invalid, match="an oven cools down slowly"):
        await client.patch(OvenV1, "big", merge_patch({"spec": {"temperature": "20C"}}))
    found = await client.list(OvenV1, namespace="default", fields={"spec.temperature": "260C"})
    assert [each.name for each in found] == ["small"]
    assert (await client.rest.transport.send("GET", f"/apis/{GROUP}/v2")).status == 404


async def test_admission_reads_own_objects_and_those_of_the_cluster(
    client: Client, running_app: RunningApp
) -> None:
    await running_app(kitchen())
    with pytest.raises(Forbidden, match=rf'ovens.{GROUP} "big" is forbidden: unknown plate: blue'):
        await client.create(oven(plates=["blue"]))
    await client.create(Plate(metadata=ObjectMeta(name="blue"), spec=Spec()))
    made = await client.create(oven(plates=["blue"]))
    assert made.metadata.labels == {"owner": "kubernetes-admin"}
    hours = ConfigMap(metadata=ObjectMeta(name="hours", namespace="default"), data={"closed": "true"})
    await client.create(hours)
    with pytest.raises(Forbidden, match="the kitchen is closed"):
        await client.create(oven("late"))
    await client.delete(hours)
    await client.patch(OvenV1, "big", merge_patch({"status": {"hot": True}}), subresource="status")
    with pytest.raises(Forbidden, match="the oven is hot"):
        await client.delete(made)
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await client.create(OvenV1(metadata=ObjectMeta(name="a", namespace="nowhere"), spec=OvenSpecV1()))


async def test_subresources_and_authorization(client: Client, running_app: RunningApp) -> None:
    running = await running_app(kitchen())
    await client.create(oven(temperature="200C"))
    read = await client.subresource("temperature", OvenV1, "big").get()
    assert (read["celsius"], read["user"]) == (200, "kubernetes-admin")
    path = f"/apis/{GROUP}/v1/namespaces/default/ovens/big"
    response = await client.rest.transport.send("GET", f"{path}/log")
    assert response.body == b"big 0\nbig 1\nbig 2\n"
    socket = await client.rest.transport.websocket(f"{path}/intercom")
    await socket.send("hello")
    assert await socket.receive() == "big: hello"
    await socket.close()
    with pytest.raises(NotFound):
        await client.subresource("temperature", OvenV1, "missing").get()
    cook = Client.from_transport(InProcessTransport(running.server, User("cook", ("system:authenticated",))))
    assert await cook.list(OvenV1)  # a direct connection: the cluster has not authorized the request
    await allow_listing(client, "guest")
    with pytest.raises(Forbidden, match="guests stay outside"):
        await client.with_impersonation("guest").list(OvenV1)
    with pytest.raises(Forbidden, match='User "waiter" cannot list resource "ovens"'):
        await client.with_impersonation("waiter").list(OvenV1)
    own = running.client()
    assert b"[+]gas ok" in (await own.rest.transport.send("GET", "/readyz", "verbose")).body
    assert b"apiserver_request_total" in (await own.rest.transport.send("GET", "/metrics")).body


async def test_registration_ends_with_the_app(control_plane: TestServer) -> None:
    client = control_plane.client()
    async with run_app(kitchen(), client):
        names = [each.name for each in await client.list(APIService) if each.name.endswith(GROUP)]
        assert sorted(names) == [f"v1.{GROUP}", f"v1alpha1.{GROUP}"]
        service = await client.get(Service, "kitchen", namespace="default")
        assert service.spec is not None
        assert service.spec.type == "ExternalName"
        other = kitchen()
        other.name = "other"
        with pytest.raises(InstallationError, match="belongs to the Service default/kitchen"):
            async with run_app(other, client):
                pass
    assert not [each for each in await client.list(APIService) if each.name.endswith(GROUP)]
    with pytest.raises(NotFound):
        await client.get(Service, "kitchen", namespace="default")


async def test_a_tunnel_forwards_to_the_app(unused_tcp_port: int) -> None:
    """The cluster connects to the external address, which forwards TLS to the port of the app."""
    port, forwarded = unused_tcp_port, 0

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal forwarded
        forwarded += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
            target.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

    async with start_test_server("in-process", controllers=False) as server:
        tunnel = await asyncio.start_server(forward, "127.0.0.1", 0)
        address = f"localhost:{tunnel.sockets[0].getsockname()[1]}"
        client = server.client()
        async with tunnel, run_app(kitchen(), client, port=port, external_address=address):
            service = await client.get(Service, "kitchen", namespace="default")
            assert service.spec is not None
            assert service.spec.external_name == "localhost"
            before = forwarded
            await client.create(oven())
            assert before > 0


async def test_objects_survive_a_restart(tmp_path: object) -> None:
    async with start_test_server("in-process", controllers=False) as server:
        client = server.client()
        for expected in (0, 1):
            async with run_app(kitchen(), client, storage=f"sqlite:{tmp_path}/kitchen.db"):
                assert len(await client.list(OvenV1)) == expected
                if not expected:
                    await client.create(oven())


async def test_without_a_cluster() -> None:
    app = kitchen()
    async with serve_app(app, None) as running:
        client = running.client()
        await client.create(Plate(metadata=ObjectMeta(name="blue"), spec=Spec()))
        assert await running.reader.exists(Plate, "blue")
        assert not await running.reader.exists(Plate, "red")


def test_errors_of_declarations() -> None:
    app = kitchen()
    with pytest.raises(ValueError, match="Plate is not served"):
        type(app)("empty").validate(Plate)
    with pytest.raises(ValueError, match=r"validated in the hub version; use @app.validate\(Oven\)"):
        app.validate(OvenV1)
    with pytest.raises(ValueError, match="was already added"):
        app.add(Plate)
    with pytest.raises(TypeError, match="an admission function can have parameters of type"):

        @app.admit(Plate)
        def wrong(plate: Plate, number: int) -> None: ...

    with pytest.raises(TypeError, match="takes the Plate as its first parameter"):

        @app.admit(Plate)
        def other(number: int) -> None: ...


def test_a_converter_adds_its_versions_before_or_after_add() -> None:
    for order in (("add", "convert"), ("convert", "add")):
        app = APIServerApp("ovens")
        for step in order:
            if step == "add":
                app.add(Oven)
            else:
                app.convert(converter)
        (built,) = app.build({})
        assert {each.name for each in built.versions} == {"v1", "v1alpha1", "v2"}
        assert app.kinds == converter.types
    app = APIServerApp("ovens")
    app.convert(converter)
    with pytest.raises(ValueError, match=r"Oven has a converter and is not served; add it: app.add\(Oven\)"):
        app.build({})
