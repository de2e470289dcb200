"""Fleets: functions that run in clusters which join, leave and become unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from prometheus_client import REGISTRY

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import NotFound
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client, merge_patch
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.errors import ConnectionFailed, NoKindMatch
from kubewright.controller import Request
from kubewright.manager import (
    Cluster,
    ClusterMap,
    ClusterNotFound,
    Clusters,
    Context,
    Fleet,
    Manager,
    Operator,
)
from kubewright.manager.fleets.fleet_runtime import FleetRuntime
from kubewright.manager.observability.logs import fields_of
from kubewright.manager.operators.rbac import rules_of
from kubewright.testing import run_operator
from kubewright.testing.server import start_test_server

Eventually = Callable[..., Any]


class SiteSpec(Spec):
    text: str = ""


class SiteStatus(Status):
    cluster: str = ""
    text: str = ""


@resource(group="fleet.example.com", version="v1")
class Site(CustomResource[SiteSpec, SiteStatus]):
    """A site, in each cluster."""


class RolloutSpec(Spec):
    text: str = ""


class RolloutStatus(Status):
    clusters: list[str] = []
    sites: int = 0


@resource(group="fleet.example.com", version="v1")
class Rollout(CustomResource[RolloutSpec, RolloutStatus]):
    """A rollout to all clusters, in the cluster of the operator."""


def site(name: str, text: str = "hello") -> Site:
    return Site(metadata=ObjectMeta(name=name, namespace="default"), spec=SiteSpec(text=text))


def rollout(name: str, text: str = "") -> Rollout:
    return Rollout(metadata=ObjectMeta(name=name, namespace="default"), spec=RolloutSpec(text=text))


class Network(InProcessTransport):
    """A connection to a control plane that can be interrupted."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.down = asyncio.Event()

    async def send(self, *arguments: Any, **options: Any) -> Any:
        self._check()
        return await super().send(*arguments, **options)

    async def stream(self, *arguments: Any, **options: Any) -> Any:
        self._check()
        return _Stream(self, await super().stream(*arguments, **options))

    def _check(self) -> None:
        if self.down.is_set():
            raise ConnectionFailed("no route to host", sent=False)


class _Stream:
    """A response that breaks when the network does."""

    def __init__(self, network: Network, stream: Any) -> None:
        self._network, self._stream = network, stream
        self.status, self.headers = stream.status, stream.headers

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> bytes:
        chunk = asyncio.ensure_future(self._stream.__anext__())
        down = asyncio.ensure_future(self._network.down.wait())
        try:
            await asyncio.wait([chunk, down], return_when=asyncio.FIRST_COMPLETED)
            self._network._check()
            return bytes(await chunk)
        finally:
            chunk.cancel()
            down.cancel()
            await asyncio.gather(chunk, down, return_exceptions=True)

    async def aclose(self) -> None:
        await self._stream.aclose()


class Planes:
    """Control planes: `hub`, where the operator runs, and the clusters of the fleet."""

    def __init__(self, clients: dict[str, Client], networks: dict[str, Network]) -> None:
        self.hub = clients["hub"]
        self.clients = clients
        """Clients of tests, which are never interrupted."""
        self.networks = networks

    def member(self, name: str) -> Client:
        """Return a client for the fleet, over the network that can be interrupted."""
        return Client.from_transport(self.networks[name])


@pytest.fixture
async def planes() -> AsyncIterator[Planes]:
    async with AsyncExitStack() as stack:
        clients, networks = {}, {}
        for name in ("hub", "east", "west"):
            server = await stack.enter_async_context(start_test_server("in-process", None, controllers=False))
            clients[name] = server.client()
            networks[name] = Network(server.plane.server)
        yield Planes(clients, networks)


class SiteOperator:
    """An operator with a fleet that reports the cluster of each site, and creates a ConfigMap for it."""

    def __init__(self, clusters: ClusterMap, *, local: bool = False) -> None:
        self.operator = Operator("sites")
        self.fleet: Fleet = self.operator.fleet(clusters, local=local)
        self.requests: list[Request] = []

        @self.fleet.reconcile(Site, owns=(ConfigMap,))
        async def reconcile(site: Site, ctx: Context[Site]) -> None:
            self.requests.append(ctx.request)
            ctx.log.info("reconciling site")
            page = ConfigMap(metadata=ObjectMeta(name=site.name), data={"text": site.spec.text})
            await ctx.ensure([page])
            site.status = SiteStatus(cluster=ctx.request.cluster, text=site.spec.text)
            await ctx.update_status()


async def status_of(client: Client, name: str) -> tuple[str, str] | None:
    found = await client.get(Site, name, namespace="default")
    return (found.status.cluster, found.status.text) if found.status and found.status.text else None


def fleet_of(manager: Manager) -> FleetRuntime:
    return next(each for each in manager.runnables if isinstance(each, FleetRuntime))


async def create_site(client: Client, eventually: Eventually, name: str, text: str = "hello") -> None:
    """Create a site as soon as the fleet has installed the CRD."""

    async def created() -> bool:
        try:
            await client.create(site(name, text))
        except (NotFound, NoKindMatch):
            return False
        return True

    await eventually(created)


async def test_clusters_join_and_leave(
    planes: Planes, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logged: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append({"msg": record.getMessage(), **fields_of(record)})  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    clusters = ClusterMap({"east": planes.member("east")})
    sites = SiteOperator(clusters)
    east, west = planes.clients["east"], planes.clients["west"]
    try:
        async with run_operator(sites.operator, planes.hub) as manager:
            fleet = fleet_of(manager)
            await eventually(lambda: fleet.clusters.names == ["east"])
            await create_site(east, eventually, "a")
            await eventually(lambda: status_of(east, "a"))
            assert await status_of(east, "a") == ("east", "hello")
            assert set(sites.requests) == {Request("default", "a", "east")}

            clusters.join("west", planes.member("west"))
            await eventually(lambda: "west" in fleet.clusters)
            await create_site(west, eventually, "a", "guten tag")
            await eventually(lambda: status_of(west, "a"))
            assert await status_of(west, "a") == ("west", "guten tag")
            page = await west.get(ConfigMap, "a", namespace="default")
            assert page.data == {"text": "guten tag"}
            assert (await east.get(ConfigMap, "a", namespace="default")).data == {"text": "hello"}

            # A change of an owned object enqueues its owner in the same cluster.
            await west.delete(page)
            await eventually(lambda: west.get_or_none(ConfigMap, "a", namespace="default"))
            assert sites.requests[-1] == Request("default", "a", "west")

            cache = fleet.clusters.get("west").cache
            clusters.leave("west")
            await eventually(
                lambda: fleet.statuses == [fleet.clusters.statuses[0]] and len(fleet.statuses) == 1
            )
            with pytest.raises(ClusterNotFound, match="'west' is not part of a fleet"):
                fleet.clusters.get("west")
            assert not any(informer.is_running for informer in cache._informers.values())
            known = len(sites.requests)
            await west.create(site("b"))
            await east.create(site("b"))
            await eventually(lambda: status_of(east, "b"))
            assert {each.cluster for each in sites.requests[known:]} == {"east"}

            clusters.join("west", planes.member("west"))
            await eventually(lambda: status_of(west, "b"))
            assert manager.ready
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("cluster ")]
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [each for each in logged if each["msg"] == "reconciling site" and each["object"] == "a"]
    assert {each["cluster"] for each in lines} == {"east", "west"}
    connected = [each["cluster"] for each in logged if each["msg"] == "cluster connected"]
    assert connected == ["east", "west", "west"]


async def test_unreachable_cluster_does_not_affect_others(planes: Planes, eventually: Eventually) -> None:
    planes.networks["east"].down.set()
    clusters = ClusterMap({name: planes.member(name) for name in ("east", "west")})
    sites = SiteOperator(clusters)
    east, west = planes.clients["east"], planes.clients["west"]
    async with run_operator(sites.operator, planes.hub) as manager:
        fleet = fleet_of(manager)
        await create_site(west, eventually, "a")
        await eventually(lambda: status_of(west, "a"))
        await eventually(lambda: fleet.statuses[0].failures > 1)
        assert (await sites.operator.probes.handle("/readyz"))[0] == 200
        assert fleet.statuses[0].state == "connecting"
        assert "no route to host" in fleet.statuses[0].error
        with pytest.raises(ClusterNotFound, match="not connected yet: ConnectionFailed: no route to host"):
            fleet.clusters.get("east")

        planes.networks["east"].down.clear()
        await eventually(lambda: "east" in fleet.clusters)
        await create_site(east, eventually, "a", "one")
        await eventually(lambda: status_of(east, "a"))

        # Interrupted while it is connected: its controllers keep their state.
        planes.networks["east"].down.set()
        await east.patch(Site, "a", merge_patch({"spec": {"text": "two"}}), namespace="default")
        await eventually(lambda: fleet.statuses[0].state == "unreachable")
        assert REGISTRY.get_sample_value("kubewright_fleet_cluster_ready", {"cluster": "east"}) == 0
        assert REGISTRY.get_sample_value("kubewright_fleet_cluster_ready", {"cluster": "west"}) == 1
        await west.create(site("b"))
        await eventually(lambda: status_of(west, "b"))
        assert (await sites.operator.probes.handle("/readyz"))[0] == 200
        assert (await sites.operator.probes.handle("/healthz"))[0] == 200

        planes.networks["east"].down.clear()
        await eventually(lambda: _has_text(east, "a", "two"))
        await eventually(lambda: fleet.statuses[0].state == "ready")
        labels = {"cluster": "west", "controller": "site", "result": "success"}
        assert (REGISTRY.get_sample_value("kubewright_fleet_reconcile_total", labels) or 0) >= 2
    assert REGISTRY.get_sample_value("kubewright_fleet_cluster_ready", {"cluster": "west"}) is None


async def _has_text(client: Client, name: str, text: str) -> bool:
    status = await status_of(client, name)
    return status is not None and status[1] == text


async def test_hub_reconciler_follows_the_clusters(planes: Planes, eventually: Eventually) -> None:
    """A reconciler of the operator's cluster distributes objects, and aggregates those of all clusters."""
    clusters = ClusterMap({"east": planes.member("east")})
    operator = Operator("rollouts")
    fleet = operator.fleet(clusters)

    @operator.reconcile(Rollout)
    async def distribute(rollout: Rollout, ctx: Context[Rollout], clusters: Clusters) -> None:
        sites = 0
        for cluster in clusters:
            found = await cluster.client.get_or_none(Site, rollout.name, namespace="default")
            if found is None:
                await cluster.client.create(site(rollout.name, rollout.spec.text))
            elif found.status is not None and found.status.text:
                sites += 1
        rollout.status = RolloutStatus(clusters=clusters.names, sites=sites)
        await ctx.update_status()

    @operator.watches(Site, watched_in=fleet)
    def rollouts_of(site: Site) -> Iterable[Request]:
        return [Request.of(site)]

    @fleet.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        site.status = SiteStatus(text="done")
        await ctx.update_status()

    async def is_rolled_out(names: list[str]) -> bool:
        found = await planes.hub.get(Rollout, "r", namespace="default")
        status = found.status
        return status is not None and status.clusters == names and status.sites == len(names)

    async with run_operator(operator, planes.hub) as manager:
        await planes.hub.create(rollout("r"))
        await eventually(lambda: is_rolled_out(["east"]))
        clusters.join("west", planes.member("west"))
        await eventually(lambda: is_rolled_out(["east", "west"]))
        clusters.leave("east")
        await eventually(lambda: is_rolled_out(["west"]))
        assert fleet_of(manager).clusters.get("") is manager.cluster


async def test_fleet_watches_the_cluster_of_the_operator(planes: Planes, eventually: Eventually) -> None:
    """A change in the cluster of the operator enqueues objects of every cluster."""
    clusters = ClusterMap({name: planes.member(name) for name in ("east", "west")})
    operator = Operator("texts")
    fleet = operator.fleet(clusters, local=True)

    @fleet.watches(Rollout, watched_in=operator)
    async def sites_for(rollout: Rollout, client: Client) -> list[Request]:
        return [Request.of(each) for each in await client.list(Site)]

    @fleet.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site], clusters: Clusters) -> None:
        texts = [each.spec.text async for each in clusters.get("").client.list(Rollout)]
        site.status = SiteStatus(cluster=ctx.request.cluster, text=",".join(texts))
        await ctx.update_status()

    async with run_operator(operator, planes.hub):
        for client in planes.clients.values():
            await create_site(client, eventually, "a")
        await planes.hub.create(rollout("r", "new"))
        for name, client in planes.clients.items():
            await eventually(lambda client=client: _has_text(client, "a", "new"))
            assert await status_of(client, "a") == ("" if name == "hub" else name, "new")


async def test_finalizers_timers_daemons_and_handlers(planes: Planes, eventually: Eventually) -> None:
    operator = Operator("every")
    fleet = operator.fleet(ClusterMap({name: planes.member(name) for name in ("east", "west")}))
    seen: set[tuple[str, str]] = set()

    @fleet.finalize(Site)
    async def finalize(site: Site, request: Request) -> None:
        seen.add(("finalize", str(request)))

    @fleet.timer(Site, interval=5.0)
    async def timer(site: Site, request: Request) -> None:
        seen.add(("timer", str(request)))

    @fleet.daemon(Site)
    async def daemon(site: Site, request: Request) -> None:
        seen.add(("daemon", str(request)))

    @fleet.on.create(Site)
    def create(site: Site, request: Request) -> None:
        seen.add(("create", str(request)))

    async with run_operator(operator, planes.hub):
        for name in ("east", "west"):
            client = planes.clients[name]
            await create_site(client, eventually, "a")
            expected = {(role, f"{name}://default/a") for role in ("timer", "daemon", "create")}
            await eventually(lambda expected=expected: expected <= seen)
            await client.delete(await client.get(Site, "a", namespace="default"))
            await eventually(lambda name=name: ("finalize", f"{name}://default/a") in seen)


async def test_leadership_and_failing_provider(planes: Planes, eventually: Eventually) -> None:
    """Only the leader reconciles; a provider that fails is called again, and clusters stay connected."""
    calls = 0

    class Failing:
        async def clusters(self, client: Client) -> AsyncIterator[dict[str, ClusterConfig | Client]]:
            nonlocal calls
            calls += 1
            yield {"east": east}
            raise RuntimeError("inventory is unavailable")

    east = planes.member("east")
    operators = []
    for number in range(2):
        operator = Operator("leader")
        operator.settings.leader_election = True
        operator.settings.leader_election_namespace = "default"
        fleet = operator.fleet(Failing())
        operators.append((operator, number))

        @fleet.reconcile(Site)
        async def reconcile(site: Site, ctx: Context[Site], number: int = number) -> None:
            site.status = SiteStatus(cluster=ctx.request.cluster, text=str(number))
            await ctx.update_status()

    async with run_operator(operators[0][0], planes.hub, leader_election=True) as manager:
        other = operators[1][0].manager(planes.hub)
        other.handle_signals = False
        stop = asyncio.Event()
        waiting = asyncio.create_task(other.run(stop))
        await eventually(lambda: "east" in fleet_of(other).clusters and "east" in fleet_of(manager).clusters)
        await create_site(planes.clients["east"], eventually, "a")
        await eventually(lambda: status_of(planes.clients["east"], "a"))
        await eventually(lambda: calls > 4)
        assert await status_of(planes.clients["east"], "a") == ("east", "0")
        cluster: Cluster = fleet_of(manager).clusters.get("east")
        assert cluster.fence is not None, "writes are rejected after leadership is lost"
        assert fleet_of(manager).statuses[0].failures == 0
        stop.set()
        await waiting


async def test_shards_of_a_fleet(planes: Planes, eventually: Eventually) -> None:
    """Replicas share the objects of all clusters; when a replica stops, the other takes over."""
    seen: dict[str, set[int]] = {}

    def make(number: int) -> Operator:
        operator = Operator("sharded")
        fleet = operator.fleet(ClusterMap({name: planes.member(name) for name in ("east", "west")}))

        @fleet.reconcile(Site)
        async def reconcile(site: Site, request: Request) -> None:
            seen.setdefault(str(request), set()).add(number)

        return operator

    async with run_operator(make(0), planes.hub, shards=True) as manager:
        async with run_operator(make(1), planes.hub, shards=True) as other:
            members = [each.elector for each in (manager, other)]
            await eventually(lambda: [len(each.owned) for each in members] == [128, 128])  # type: ignore[union-attr]
            for name in ("east", "west"):
                for index in range(8):
                    await create_site(planes.clients[name], eventually, f"s{index}")
            await eventually(lambda: len(seen) == 16)
            assert all(len(replicas) == 1 for replicas in seen.values())
            assert {number for replicas in seen.values() for number in replicas} == {0, 1}
        await eventually(lambda: all(0 in replicas for replicas in seen.values()))
        clusters = fleet_of(manager)
        assert len(clusters.managers) == 2
        registered = len(members[0].on_gain)  # type: ignore[union-attr]
        assert registered == 2, "one controller for each cluster"


async def test_permissions() -> None:
    """The manifests have the rules for the operator's cluster; `roles` returns those for the others."""
    operator = Operator("rules")
    fleet = operator.fleet(ClusterMap())

    @fleet.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site) -> None: ...

    @fleet.watches(Rollout, watched_in=operator)
    def sites_for(rollout: Rollout) -> list[Request]:
        return []

    assert [rule.resources for rule in rules_of(operator)] == [("rollouts",)]
    (role,) = fleet.roles()
    assert role["metadata"]["name"] == "rules-fleet-role"
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert resources == {"sites", "sites/status", "sites/finalizers", "configmaps", "events"}
    assert not operator.is_empty


async def test_declaration_errors() -> None:
    operator, other = Operator("a"), Operator("b")
    with pytest.raises(TypeError, match=r"expected a ClusterProvider, such as KubeconfigSecrets"):
        operator.fleet(object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected the operator of this fleet, or a fleet of this operator"):
        other.watches(Site, watched_in=operator.fleet(ClusterMap()))
