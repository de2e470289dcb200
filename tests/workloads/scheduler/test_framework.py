"""Plug-ins of users: all extension points, profiles, errors, permits."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from kubewright.workloads.scheduler import (
    SKIP,
    Action,
    ClusterEvent,
    CycleState,
    Handle,
    NodeInfo,
    Plugin,
    PodInfo,
    PostFilterResult,
    Profile,
    ProfileError,
    QueuedPod,
    SchedulerCore,
    SchedulingStatus,
)
from kubewright.workloads.scheduler.framework.framework import Framework

from .scheduling_objects import (
    Simulation,
    eventually,
    node,
    node_data,
    pod,
    pod_data,
    start_scheduled_cluster,
)


class Recorder(Plugin):
    """Implements all hooks that a second plug-in can have, and records the calls."""

    def __init__(self, handle: Handle, calls: list[str]) -> None:
        super().__init__(handle)
        self.calls = calls

    def pre_enqueue(self, pod: PodInfo) -> SchedulingStatus | None:
        self.calls.append("pre_enqueue")
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> SchedulingStatus | None:
        self.calls.append("pre_filter")
        state.write("nodes", [node.name for node in nodes])
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        self.calls.append(f"filter {node.name}")
        return None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Any) -> SchedulingStatus | None:
        self.calls.append("pre_score")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        self.calls.append(f"score {node.name}")
        return 1000 if node.name == "b" else 0

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Any, scores: list[int]) -> list[int]:
        self.calls.append("normalize_scores")
        return [min(100, score) for score in scores]

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        self.calls.append(f"reserve {node_name}")
        return None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        self.calls.append(f"permit {node_name}")
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        self.calls.append(f"pre_bind {node_name}")
        return None

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        self.calls.append(f"bind {node_name}")
        return SKIP

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append(f"post_bind {node_name}")


async def test_hooks_are_called_in_order() -> None:
    calls: list[str] = []
    # DefaultBinder would bind before the plug-in is asked.
    profile = Profile(
        plugins=[Recorder],
        plugin_args={"Recorder": {"calls": calls}},
        weights={"Recorder": 10},
        disabled=["DefaultBinder"],
    )

    class Binder(Plugin):
        async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
            calls.append("bound")
            return None

    profile = Profile(
        plugins=[Recorder, Binder],
        plugin_args=profile.plugin_args,
        weights=profile.weights,
        disabled=profile.disabled,
    )
    simulation = Simulation(node("a"), node("b"), pod("p"), profiles=[profile])
    assert await simulation.run() == {"p": "b"}
    assert calls == [
        "pre_enqueue", "pre_filter", "filter a", "filter b", "pre_score", "score a", "score b",
        "normalize_scores", "reserve b", "permit b", "pre_bind b", "bind b", "bound", "post_bind b",
    ]  # fmt: skip


class RejectAll(Plugin):
    """Rejects nodes, and registers a kind of its own."""

    allowed = False

    def events(self) -> Iterable[ClusterEvent]:
        return (ClusterEvent("Quota", Action.ALL),)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        return None if RejectAll.allowed else SchedulingStatus.unschedulable("node(s) had no quota")


async def test_registered_event_requeues_the_pod() -> None:
    RejectAll.allowed = False
    simulation = Simulation(node("a"), pod("p"), profiles=[Profile(plugins=[RejectAll])])
    assert await simulation.run() == {}
    assert simulation.message("p").startswith("0/1 nodes are available: 1 node(s) had no quota.")
    RejectAll.allowed = True
    simulation.add(node("b"))
    assert await simulation.run() == {}
    simulation.core.notify(ClusterEvent("Quota", Action.UPDATE), None, None)
    assert list(await simulation.run()) == ["p"]


async def test_failing_plugin_is_an_error_of_the_scheduler() -> None:
    class Broken(Plugin):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
            raise ValueError("no connection")

    simulation = Simulation(node("a"), pod("p"), profiles=[Profile(plugins=[Broken])])
    assert await simulation.run() == {}
    condition = simulation.reporter.conditions["p"]
    assert (condition.reason, condition.message) == (
        "SchedulerError",
        "plugin 'Broken' failed: no connection",
    )
    (queued,) = simulation.core.queue.pods()
    assert queued.place == "error-backoff"


async def test_rejected_reservation_is_undone() -> None:
    calls: list[str] = []

    class Ledger(Plugin):
        def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
            return SchedulingStatus.unschedulable("budget exceeded")

        def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            calls.append(node_name)

    simulation = Simulation(node("a"), pod("p", cpu="1"), profiles=[Profile(plugins=[Ledger])])
    assert await simulation.run() == {}
    assert calls == ["a"]
    assert simulation.message("p") == "0/1 nodes are available: 1 budget exceeded."
    assert simulation.core.cache.pod(pod("p").metadata.uid or "") is None
    assert simulation.core.snapshot.by_name["a"].requested.milli_cpu == 0


async def test_scores_out_of_range_are_an_error() -> None:
    class TooHigh(Plugin):
        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
            return 101

    simulation = Simulation(node("a"), node("b"), pod("p"), profiles=[Profile(plugins=[TooHigh])])
    await simulation.run()
    assert "invalid score 101" in simulation.message("p")


async def test_post_filter_message_and_nomination() -> None:
    class Helper(Plugin):
        async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Any) -> PostFilterResult:
            return PostFilterResult(SchedulingStatus.unschedulable("asked for a node"), "a")

    profile = Profile(plugins=[Helper], disabled=["DefaultPreemption", "DynamicResources"])
    simulation = Simulation(node("a", cpu="1"), pod("p", cpu="2"), profiles=[profile])
    await simulation.run()
    assert simulation.message("p") == "0/1 nodes are available: 1 Insufficient cpu. asked for a node"
    assert simulation.reporter.nominations["p"] == "a"


async def test_queue_sort_plugin_orders_pods() -> None:
    class ByName(Plugin):
        def sort_key(self, pod: QueuedPod) -> Any:
            return pod.info.name

    profile = Profile(plugins=[ByName], disabled=["PrioritySort"])
    simulation = Simulation(node("a", pods=2), pod("c"), pod("a"), pod("b"), profiles=[profile])
    assert sorted(await simulation.run()) == ["a", "b"]


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (Profile(disabled=["Missing"]), "disables unknown plug-in 'Missing'"),
        (Profile(disabled=["PrioritySort"]), "exactly one QueueSort plug-in"),
        (Profile(disabled=["DefaultBinder"]), "needs a Bind plug-in"),
        (Profile(weights={"Missing": 1}), "unknown or disabled plug-in 'Missing'"),
        (Profile(plugin_args={"NodeResourcesFit": {"strateg": "x"}}), "NodeResourcesFit"),
        (Profile(plugin_args={"NodeResourcesFit": {"strategy": "x"}}), "unknown strategy 'x'"),
    ],
)
def test_invalid_profiles(profile: Profile, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        Framework(profile, Handle())


def test_profiles_need_different_names() -> None:
    with pytest.raises(ProfileError, match="different scheduler names"):
        SchedulerCore([Profile(), Profile()])


def test_plugin_with_the_name_of_a_default_one_replaces_it() -> None:
    class NodeName(Plugin):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
            return None

    framework = Framework(Profile(plugins=[NodeName]), Handle())
    assert type(framework.plugins["NodeName"]) is NodeName
    assert len(framework.plugins) == 18


async def test_same_seed_gives_the_same_placements() -> None:
    async def placements(seed: int) -> dict[str, str]:
        simulation = Simulation(*(node(f"n{index}") for index in range(10)), seed=seed)
        simulation.add(*(pod(f"p{index}") for index in range(20)))
        return await simulation.run()

    assert await placements(7) == await placements(7)
    results = [await placements(random.randrange(1000)) for _ in range(3)]
    assert all(len(result) == 20 for result in results)


class Gang(Plugin):
    """Delays pods until three of them have a node."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        waiting = list(self.handle.waiting_pods)
        if len(waiting) < 2:
            return SchedulingStatus.wait(60)
        for other in waiting:
            other.allow(self.name)
        return None


async def test_permit_delays_binding() -> None:
    async with start_scheduled_cluster([Profile(plugins=[Gang])]) as cluster:
        await cluster.create(node_data("a"), pod_data("p0"), pod_data("p1"))
        await eventually(lambda: len(cluster.scheduler.core.waiting_pods) == 2)
        assert not (await cluster.pod("p0")).spec.node_name
        await cluster.create(pod_data("p2"))
        for index in range(3):
            assert await cluster.node_of(f"p{index}") == "a"
        assert len(cluster.scheduler.core.waiting_pods) == 0


async def test_permit_times_out() -> None:
    class Never(Plugin):
        def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
            return SchedulingStatus.wait(0.01)

    async with start_scheduled_cluster([Profile(plugins=[Never])]) as cluster:
        await cluster.create(node_data("a"), pod_data("p", cpu="1"))
        condition = await cluster.condition("p")
        assert condition.reason == "Unschedulable"
        assert "rejected due to timeout after waiting 0.01s at plugin Never" in (condition.message or "")


async def test_deleted_waiting_pod_frees_its_node() -> None:
    async with start_scheduled_cluster([Profile(plugins=[Gang])]) as cluster:
        await cluster.create(node_data("a"), pod_data("p0", cpu="1"))
        await eventually(lambda: len(cluster.scheduler.core.waiting_pods) == 1)
        uid = (await cluster.pod("p0")).metadata.uid or ""
        await cluster.client.delete("pods", "p0", namespace="default", grace_period=0)
        await eventually(lambda: len(cluster.scheduler.core.waiting_pods) == 0)
        core = cluster.scheduler.core
        await eventually(lambda: core.cache.pod(uid) is None and not len(core.queue))
