"""Assembly of the workload components: started by the first object, with their own identity."""

from __future__ import annotations

import pytest

from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import ObjectMeta
from kubewright.client.wait import exists
from kubewright.controller import ControllerBuilder, Request
from kubewright.controlplane.workload_connection import EmbeddedConnection
from kubewright.testing.server import start_test_server
from kubewright.workloads import ClientConnection, ComponentManager, Workloads
from kubewright.workloads.controllers import Component

EXAMPLE = Component(
    "example-controller", __name__, "add_example_controller", ("leases.coordination.k8s.io",), "example"
)


def add_example_controller(manager: ComponentManager) -> None:
    """Create a config map for each lease in the namespace `default`."""

    async def reconcile(lease: Lease) -> None:
        if lease.namespace == "default":
            created = ConfigMap(
                metadata=ObjectMeta(name=lease.name, namespace="default"), data={"lease": "x"}
            )
            await manager.client.create(created)
            manager.recorder.event(lease, "Normal", "Created", f"Created config map {lease.name}")

    builder: ControllerBuilder[Request] = ControllerBuilder(manager, f"example-{id(manager)}")
    builder.for_(Lease).complete(reconcile)


async def test_component_starts_with_first_object() -> None:
    component = EXAMPLE._replace(triggers=("resourcequotas", "limitranges"))
    async with start_test_server("in-process") as server:
        client = server.client()
        async with Workloads(EmbeddedConnection(server.plane), nodes=0, components=[component]) as workloads:
            await client.create(Lease(metadata=ObjectMeta(name="a", namespace="default")))
            assert workloads.started == frozenset()
            assert workloads.manager is None
            await client.create(
                {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "x", "namespace": "default"}}
            )
            created = await client.wait(ConfigMap, name="a", namespace="default", until=exists, timeout=120)
            assert workloads.started == {"example-controller"}
        assert created is not None
        assert created.metadata.managed_fields is not None
        assert created.metadata.managed_fields[0].manager == "kube-controller-manager"
        (event,) = await client.list("events", namespace="default")
        assert event.raw["source"] == {"component": "example-controller"}


async def test_any_cluster() -> None:
    async with start_test_server("in-process") as server:
        client = server.client()
        await client.create(Lease(metadata=ObjectMeta(name="a", namespace="default")))
        async with Workloads(ClientConnection(client), nodes=0, components=[EXAMPLE]):
            await client.wait(ConfigMap, name="a", namespace="default", until=exists, timeout=120)


async def test_unknown_names_are_rejected() -> None:
    with pytest.raises(ValueError, match="unknown controllers x-controller"):
        async with start_test_server("in-process", disable_controllers=["x-controller"]):
            pass


async def test_disabled_controller_does_not_run() -> None:
    async with start_test_server("in-process", disable_controllers=["serviceaccount-controller"]) as server:
        await server.plane.wait_until_idle()
        assert await server.client().get_or_none("serviceaccounts", "default", namespace="default") is None


async def test_wildcard_disables_controllers_only() -> None:
    async with start_test_server("in-process", nodes=1, disable_controllers=["*"]) as server:
        workloads = server.plane.workloads
        assert workloads is not None
        assert {component.name for component in workloads.components} == {"kubelet", "kube-scheduler"}
    options = {"nodes": 1, "disable_controllers": ["*", "kube-scheduler"]}
    async with start_test_server("in-process", **options) as server:  # type: ignore[arg-type]
        workloads = server.plane.workloads
        assert workloads is not None
        assert {component.name for component in workloads.components} == {"kubelet"}
