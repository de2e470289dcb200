"""Three replicas on one store act as one API server: configuration, allocations, controllers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient
from tests.controlplane.stores.conftest import gadgets
from tests.controlplane.stores.test_partition import BINDING, POLICIES, POLICY, POLICY_BINDING, RBAC, ROLE

from kubewright.api.errors import APIError, NotFound, ServiceUnavailable
from kubewright.apiserver import HTTPRequest, User
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

from .cluster import FaultProxy
from .conftest import SharedStore

JANE = User("jane", ("system:authenticated",))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
WEBHOOK = {
    "metadata": {"name": "unreachable"},
    "webhooks": [
        {
            "name": "unreachable.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
            ],
        }
    ],
}
LEASE_DURATION = 6.0


class ReplicaSet:
    """Control planes in this process, each behind a proxy of its own to the store."""

    def __init__(self, planes: list[ControlPlane], proxies: list[FaultProxy]) -> None:
        self.planes = planes
        self.proxies = proxies
        self.clients = [PathClient(plane.server, SYSTEM) for plane in planes]

    @property
    def leaders(self) -> list[int]:
        """The replicas that run the controllers."""
        return [number for number, plane in enumerate(self.planes) if plane.cluster.manager is not None]


@pytest.fixture
async def replicas(shared_store: SharedStore) -> AsyncIterator[ReplicaSet]:
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(FaultProxy(shared_store.address)) for _ in range(3)]
        planes = [
            ControlPlane(
                store=shared_store.url("timeout=30", address=proxy.address),
                port=None,
                lease_duration=LEASE_DURATION,
            )
            for proxy in proxies
        ]
        await asyncio.gather(*(stack.enter_async_context(plane) for plane in planes))
        yield ReplicaSet(planes, proxies)


async def wait_until(check: Callable[[], Awaitable[bool]]) -> float:
    """Wait for a condition; return the milliseconds."""
    begun = time.monotonic()
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.002)
    return (time.monotonic() - begun) * 1e3


async def test_configuration_takes_effect_on_all_replicas(replicas: ReplicaSet) -> None:
    others = replicas.planes[1:]
    admin = replicas.clients[0]

    async def can_list_secrets(plane: ControlPlane) -> bool:
        response = await plane.server.handle(HTTPRequest("GET", SECRETS, user=JANE))
        return response.status == 200

    async def is_denied(plane: ControlPlane, path: str) -> bool:
        client = PathClient(plane.server, SYSTEM)
        try:
            await client.send("POST", f"{path}?dryRun=All", {"metadata": {"name": "denied"}})
        except APIError:
            return True
        return False

    delays: dict[str, list[float]] = {}

    async def measure(name: str, check: Callable[[ControlPlane], Awaitable[bool]]) -> None:
        delays[name] = [await wait_until(lambda plane=plane: check(plane)) for plane in others]  # type: ignore[misc]

    await admin.create(f"{RBAC}/clusterroles", ROLE)
    await admin.create(f"{RBAC}/clusterrolebindings", BINDING)
    await measure("RBAC", can_list_secrets)
    await admin.create(f"{POLICIES}/validatingadmissionpolicies", POLICY)
    await admin.create(f"{POLICIES}/validatingadmissionpolicybindings", POLICY_BINDING)
    await measure("policy", lambda plane: is_denied(plane, CONFIG_MAPS))
    await admin.create(f"{POLICIES}/validatingwebhookconfigurations", WEBHOOK)
    await measure("webhook", lambda plane: is_denied(plane, SECRETS))
    group = "replicas.example.com"
    await admin.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gadgets(group, {"properties": {}})
    )
    path = f"/apis/{group}/v1/namespaces/default/gadgets"

    async def is_served(plane: ControlPlane) -> bool:
        return (await plane.server.handle(HTTPRequest("GET", path, user=SYSTEM))).status == 200

    await measure("CRD", is_served)
    for name, each in delays.items():
        print(
            f"{name}: effective on the other replicas after {', '.join(f'{delay:.0f} ms' for delay in each)}"
        )


async def test_services_have_distinct_addresses_and_ports(replicas: ReplicaSet) -> None:
    async def create(number: int) -> dict[str, Any]:
        body = {
            "metadata": {"name": f"s-{number}"},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        }
        return await replicas.clients[number % 3].create(SERVICES, body)

    services = await asyncio.gather(*(create(number) for number in range(60)))
    addresses = {service["spec"]["clusterIP"] for service in services}
    ports = {service["spec"]["ports"][0]["nodePort"] for service in services}
    assert len(addresses) == len(ports) == 60
    # A port that is requested through all replicas is allocated once.
    wanted = next(port for port in range(30000, 32768) if port not in ports)
    body: dict[str, Any] = {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": wanted}]}}
    outcomes = await asyncio.gather(
        *(
            client.create(SERVICES, body | {"metadata": {"name": f"same-{number}"}})
            for number, client in enumerate(replicas.clients)
        ),
        return_exceptions=True,
    )
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1


async def test_one_replica_runs_the_controllers(replicas: ReplicaSet) -> None:
    async def has_leader() -> bool:
        return bool(replicas.leaders)

    await wait_until(has_leader)
    [leader] = replicas.leaders

    async def check_controllers(name: str, through: int) -> None:
        """Check that the service account of a new namespace is created."""
        client = replicas.clients[through]

        async def create() -> bool:
            try:
                await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
            except ServiceUnavailable:
                return False  # Its watch on the store has not caught up after the partition.
            return True

        await wait_until(create)

        async def exists() -> bool:
            try:
                await client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")
            except NotFound:
                return False
            return True

        await wait_until(exists)

    other = (leader + 1) % 3
    await check_controllers("first", other)
    # A leader that cannot reach the store stops its controllers, and another one continues.
    replicas.proxies[leader].cut()

    async def has_changed() -> bool:
        leaders = replicas.leaders
        assert len(leaders) <= 1, "two replicas run the controllers"
        return leaders not in ([], [leader])

    elapsed = await wait_until(has_changed)
    print(f"lease duration {LEASE_DURATION:g} s: another replica leads after {elapsed:.0f} ms")
    await check_controllers("second", other)
    replicas.proxies[leader].restore()
    await wait_until(has_leader)
    [second] = replicas.leaders
    # A leader that stops releases the lease.
    await replicas.planes[second].stop()
    elapsed = await wait_until(has_changed_from(replicas, second))
    print(f"another replica leads {elapsed:.0f} ms after the leader has stopped")
    await check_controllers("third", next(number for number in range(3) if number != second))


def has_changed_from(replicas: ReplicaSet, previous: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return bool(replicas.leaders) and replicas.leaders != [previous]

    return check
