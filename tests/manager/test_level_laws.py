"""Laws of level-triggered operators, for generated edits, restarts, replicas and duplicated events.

1. Every object is reconciled at least once per resync period while the operator runs.
2. After the last change, the final state depends only on the objects: not on the number of replicas or
   controllers, not on restarts, and not on how often events were delivered.

All of it on an embedded control plane, in simulated time. With `KUBEBUILDER_ASSETS`, recorded edits are also
made on a kube-apiserver, where the final state is awaited.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap, Namespace
from kubewright.api.errors import NotFound
from kubewright.api.owners import controller_of
from kubewright.client import Client, ClusterConfig, ConnectionFailed, is_deleted, patches
from kubewright.controller import generation_changed
from kubewright.manager import Context, Manager, Operator
from kubewright.manager.operators.operator_runtime import prepare
from kubewright.testing.server import start_test_server
from kubewright.testing.time import fake_time

PERIOD = 120.0
TAKEOVER = 40.0
"""Seconds in which another replica takes over after a restart: lease duration and retries."""


class PalletSpec(Spec):
    boxes: int = 0
    text: str = ""


class PalletStatus(Status):
    boxes: int | None = None


@resource(group="level.example.com", version="v1")
class Pallet(CustomResource[PalletSpec, PalletStatus]):
    """A pallet."""


@dataclass(frozen=True)
class Setup:
    """How many processes and controllers there are."""

    replicas: int
    shards: bool
    tags: bool
    """Whether a second operator reconciles the same kind."""


setups = st.builds(Setup, replicas=st.integers(1, 3), shards=st.booleans(), tags=st.booleans())
names = st.sampled_from(["a", "b"])
numbers = st.integers(0, 2)
edits = st.one_of(
    st.tuples(st.just("write"), names, numbers, st.sampled_from(["x", "y"])),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("change a box"), names, numbers),
    st.tuples(st.just("delete a box"), names, numbers),
    st.tuples(st.just("change the external system"), names),
    st.tuples(st.just("repeat all events")),
    st.tuples(st.just("restart"), numbers, st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 20.0, 180.0])),
)


class Process:
    """One process of an operator; it can be stopped, or killed in the middle of a request."""

    def __init__(self, client: Client, operator: Operator) -> None:
        self.operator = operator
        self.client = client.with_interceptor(self._intercept)
        self.manager: Manager | None = None
        self._is_dead = False
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def _intercept(self, request: Any, send: Any) -> Any:
        if self._is_dead:
            raise ConnectionFailed("the process is dead")
        return await send(request)

    async def start(self) -> None:
        self.manager = manager = (await prepare(self.operator, self.client)).manager
        manager.handle_signals = False
        if manager.elector is not None:
            manager.elector.clock = asyncio.get_running_loop().time
        self._task = asyncio.create_task(manager.run(self._stop))

    async def stop(self, *, kill: bool) -> None:
        assert self._task is not None
        assert self.manager is not None
        if kill:
            self._is_dead = True
            self.manager.graceful_shutdown_timeout = 0.0
        self._stop.set()
        await asyncio.wait([self._task])
        error = self._task.exception()
        if error is not None and not kill:
            raise error

    def repeat_events(self) -> None:
        """Call all event handlers again for all objects."""
        assert self.manager is not None
        for usage in self.manager.cache.usage():
            informer = self.manager.cache.existing_informer(usage.gvk)
            assert informer is not None
            informer.resync()


class World:
    """Processes of operators, an external system that they manage, and the declared state."""

    def __init__(self, client: Client, setup: Setup, period: float = PERIOD) -> None:
        self.client = client
        self.setup = setup
        self.period = period
        self.external: dict[str, str] = {}
        self.declared: dict[str, tuple[int, str]] = {}
        self.reconciled: dict[str, list[float]] = defaultdict(list)
        self.processes: list[Process] = []

    def pallets(self) -> Operator:
        """Return the operator under test: it writes objects, a status and an external system."""
        operator = Operator("pallets", resync=self.period)
        settings = operator.settings
        settings.development = True
        settings.leader_election_namespace = "default"
        settings.shards = self.setup.shards
        settings.leader_election = self.setup.replicas > 1 and not self.setup.shards

        @operator.reconcile(Pallet, owns=(ConfigMap,), predicates=[generation_changed])
        async def reconcile(pallet: Pallet, ctx: Context[Pallet]) -> None:
            self.reconciled[pallet.metadata.uid or ""].append(asyncio.get_running_loop().time())
            self.external[pallet.name] = pallet.spec.text
            boxes = [
                ConfigMap(metadata=ObjectMeta(name=f"{pallet.name}-{n}"), data={"text": pallet.spec.text})
                for n in range(pallet.spec.boxes)
            ]
            await ctx.ensure(boxes)
            pallet.status.boxes = pallet.spec.boxes
            await ctx.update_status()

        @operator.finalize(Pallet)
        async def clean_up(pallet: Pallet) -> None:
            self.external.pop(pallet.name, None)

        return operator

    def tags(self) -> Operator:
        """Return another operator for the same kind, with objects of the same kind."""
        operator = Operator("tags", resync=self.period)
        operator.settings.development = True

        @operator.reconcile(Pallet, owns=(ConfigMap,))
        async def reconcile(pallet: Pallet, ctx: Context[Pallet]) -> None:
            meta = ObjectMeta(name=f"tag-{pallet.name}")
            await ctx.ensure([ConfigMap(metadata=meta, data={"text": pallet.spec.text})])

        return operator

    async def start(self) -> None:
        operators = [self.pallets() for _ in range(self.setup.replicas)]
        if self.setup.tags:
            operators.append(self.tags())
        self.processes = [Process(self.client, operator) for operator in operators]
        for process in self.processes:
            await process.start()

    async def edit(self, action: str, *arguments: Any) -> None:
        """Apply one edit, without waiting for the operators."""
        if action == "write":
            name, boxes, text = arguments
            await self.write(name, boxes, text)
        elif action == "delete":
            await self.client.delete(Pallet, arguments[0], namespace="default", missing_ok=True)
            self.declared.pop(arguments[0], None)
        elif action == "change a box":
            drift = patches.merge_patch({"data": {"text": "drift"}, "metadata": {"labels": {"by": "hand"}}})
            with suppress(NotFound):
                await self.client.patch(
                    ConfigMap, f"{arguments[0]}-{arguments[1]}", drift, namespace="default"
                )
        elif action == "delete a box":
            name = f"{arguments[0]}-{arguments[1]}"
            await self.client.delete(ConfigMap, name, namespace="default", missing_ok=True)
        elif action == "change the external system":
            if arguments[0] in self.external:
                self.external[arguments[0]] = "drift"
        elif action == "repeat all events":
            for process in self.processes:
                process.repeat_events()
        elif action == "restart":
            number, kill = arguments
            position = number % len(self.processes)
            await self.processes[position].stop(kill=kill)
            is_tags = position == self.setup.replicas
            operator = self.tags() if is_tags else self.pallets()
            self.processes[position] = Process(self.client, operator)
            await self.processes[position].start()
        else:
            assert action == "wait"
            await asyncio.sleep(arguments[0])

    async def write(self, name: str, boxes: int, text: str) -> None:
        spec = PalletSpec(boxes=boxes, text=text)
        found = await self.client.get_or_none(Pallet, name, namespace="default")
        if found is not None and found.metadata.deletion_timestamp is not None:
            await self.client.wait(found, until=is_deleted, timeout=PERIOD)
            found = None
        if found is None:
            await self.client.create(Pallet(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
        else:
            change = patches.merge_patch({"spec": {"boxes": boxes, "text": text}})
            await self.client.patch(Pallet, name, change, namespace="default")
        self.declared[name] = (boxes, text)

    async def state(self) -> dict[str, Any]:
        """Return everything that the operators are responsible for."""
        boxes = await self.client.list(ConfigMap, namespace="default")
        pallets = await self.client.list(Pallet, namespace="default")
        return {
            "external": dict(self.external),
            "boxes": {each.name: (each.data or {}).get("text") for each in boxes if is_owned(each)},
            "pallets": {each.name: each.status.boxes for each in pallets},
        }

    def expected(self) -> dict[str, Any]:
        """Return the state that follows from the declared objects alone."""
        declared = self.declared.items()
        boxes = {f"{name}-{n}": text for name, (count, text) in declared for n in range(count)}
        tags = {f"tag-{name}": text for name, (_, text) in declared} if self.setup.tags else {}
        return {
            "external": {name: text for name, (_, text) in declared},
            "boxes": boxes | tags,
            "pallets": {name: count for name, (count, _) in declared},
        }


def is_owned(obj: Any) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner.kind == "Pallet"


async def check(setup: Setup, steps: list[tuple[Any, ...]]) -> None:
    async with start_test_server("in-process") as server:
        client = server.client()
        world = World(client, setup)
        await world.start()
        born: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        is_disturbed = setup.replicas > 1 or setup.shards or any(step[0] == "restart" for step in steps)
        slack = TAKEOVER if is_disturbed else 1.0
        try:
            for step in steps:
                await world.edit(*step)
                for pallet in await client.list(Pallet, namespace="default"):
                    born.setdefault(pallet.metadata.uid or "", loop.time())
            # What no event reports is repaired within a period; everything else much earlier.
            await asyncio.sleep(PERIOD + slack)
            assert await world.state() == world.expected()
            alive = {pallet.metadata.uid or "" for pallet in await client.list(Pallet, namespace="default")}
        finally:
            for process in world.processes:
                await process.stop(kill=False)
        for uid in alive:
            times = [born[uid], *world.reconciled[uid], loop.time()]
            longest = max(later - earlier for earlier, later in pairwise(times))
            assert longest <= PERIOD + slack, times


REPEATED_RESTARTS = [
    ("write", "a", 2, "x"),
    ("wait", 20.0),
    ("restart", 0, True),
    ("change a box", "a", 0),
    ("repeat all events",),
    ("change the external system", "a"),
    ("wait", 180.0),
    ("write", "a", 1, "y"),
    ("restart", 1, False),
    ("change the external system", "a"),
]


SHARED_METRICS = [
    ("write", "a", 1, "x"),
    ("repeat all events",),
    ("restart", 1, True),
    ("change the external system", "a"),
    ("restart", 0, True),
    ("write", "b", 1, "x"),
    ("restart", 2, False),
    ("wait", 20.0),
    ("change the external system", "b"),
]
"""A queue whose controller was started under the same name lost its counters, and its worker ended."""


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(setup=setups, steps=st.lists(edits, min_size=1, max_size=10))
@example(setup=Setup(1, shards=False, tags=True), steps=REPEATED_RESTARTS)
@example(setup=Setup(3, shards=False, tags=False), steps=REPEATED_RESTARTS)
@example(setup=Setup(2, shards=True, tags=True), steps=REPEATED_RESTARTS)
@example(setup=Setup(2, shards=True, tags=True), steps=SHARED_METRICS)
def test_the_final_state_depends_only_on_the_objects(setup: Setup, steps: list[tuple[Any, ...]]) -> None:
    fake_time(check(setup, steps))


@pytest.mark.parametrize(
    "setup", [Setup(1, shards=False, tags=True), Setup(2, shards=True, tags=True)], ids=["tags", "shards"]
)
async def test_the_final_state_on_an_api_server(real_config: ClusterConfig | None, setup: Setup) -> None:
    if real_config is None:
        pytest.skip("KUBEBUILDER_ASSETS is not set")
    async with start_test_server("real", real_config) as server:
        client = server.client()
        await client.with_field_manager("test").apply(Namespace(metadata=ObjectMeta(name="default")))
        world = World(client, setup, period=5.0)
        await world.start()
        try:
            for step in [*REPEATED_RESTARTS, *SHARED_METRICS]:
                await world.edit(*(("wait", 1.0) if step[0] == "wait" else step))
            async with asyncio.timeout(180):
                while await world.state() != world.expected():
                    await asyncio.sleep(0.2)
            # Without a controller manager there is no garbage collection.
            for name in [*world.declared]:
                await world.write(name, 0, "")
            await world.edit("change the external system", "a")
            async with asyncio.timeout(180):
                while await world.state() != world.expected():
                    await asyncio.sleep(0.2)
            for name in [*world.declared]:
                await client.delete(Pallet, name, namespace="default")
            async with asyncio.timeout(180):
                while world.external:
                    await asyncio.sleep(0.2)
        finally:
            for process in world.processes:
                await process.stop(kill=False)
            await client.delete_all(ConfigMap, namespace="default")
