"""The scheduling queue: order, backoff, requeueing by events, gates."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.workloads.scheduler import Action, ClusterEvent
from kubewright.workloads.scheduler.framework.cluster_events import node_changes, pod_changes

from .scheduling_objects import Simulation, node, pod, required_affinity


def places(simulation: Simulation) -> dict[str, str]:
    return {queued.info.name: queued.place for queued in simulation.core.queue.pods()}


async def test_higher_priority_first_then_older() -> None:
    simulation = Simulation(node("a", pods=2))
    simulation.add(pod("old"))
    simulation.now = 1
    simulation.add(pod("new"), pod("high", priority=10))
    order = [simulation.core.queue.pop_now() for _ in range(3)]
    assert [queued.info.name for queued in order if queued] == ["high", "old", "new"]


async def test_backoff_doubles_up_to_the_maximum() -> None:
    simulation = Simulation(node("a", cpu="1"), pod("big", cpu="2"))
    simulation.core.queue._pop_from_backoff = False
    delays = []
    for _ in range(6):
        await simulation.run()
        assert places(simulation) == {"big": "unschedulable"}
        simulation.core.queue.move_all(ClusterEvent("Node", Action.ADD), None, node("b", cpu="2"))
        (queued,) = simulation.core.queue.pods()
        assert queued.place == "backoff"
        delays.append(queued.expires - simulation.now)
        simulation.now = queued.expires
    assert delays == [1, 2, 4, 8, 10, 10]


async def test_backoff_is_skipped_if_nothing_else_is_ready() -> None:
    simulation = Simulation(node("a", cpu="1"), pod("big", cpu="2"))
    await simulation.run()
    simulation.add(node("b", cpu="2"))
    assert places(simulation) == {"big": "backoff"}
    assert await simulation.run() == {"big": "b"}


async def test_unschedulable_pods_are_retried_after_five_minutes() -> None:
    simulation = Simulation(node("a", cpu="1"), pod("big", cpu="2"))
    await simulation.run()
    (queued,) = simulation.core.queue.pods()
    simulation.now = 299
    await simulation.run()
    assert queued.attempts == 1
    simulation.now = 300
    await simulation.run()
    assert queued.attempts == 2


@pytest.mark.parametrize(
    ("waiting", "change", "requeued"),
    [
        ({"cpu": "8"}, node("new", cpu="4"), False),
        ({"cpu": "8"}, node("new", cpu="8"), True),
        ({"cpu": "8"}, node("old", cpu="4", labels={"x": "y"}), False),
        ({"cpu": "8"}, node("old", cpu="8"), True),
        ({"nodeSelector": {"x": "y"}}, node("old", labels={"x": "y"}), True),
        ({"nodeSelector": {"x": "y"}}, node("old", cpu="16"), False),
        ({"nodeSelector": {"x": "y"}}, node("new"), False),
        ({"affinity": required_affinity("kubernetes.io/hostname", app="web")},
         pod("web", labels={"app": "web"}, nodeName="old"), True),
        ({"affinity": required_affinity("kubernetes.io/hostname", app="web")},
         pod("db", labels={"app": "db"}, nodeName="old"), False),
        ({"cpu": "8"}, pod("web", labels={"app": "web"}, nodeName="old"), False),
    ],
)  # fmt: skip
async def test_hints(waiting: dict[str, Any], change: Any, requeued: bool) -> None:
    simulation = Simulation(node("old"), pod("waiting", **waiting))
    await simulation.run()
    assert places(simulation) == {"waiting": "unschedulable"}
    simulation.add(change)
    assert places(simulation) == {"waiting": "backoff" if requeued else "unschedulable"}


@pytest.mark.parametrize(("unschedulable", "requeued"), [(True, False), (False, True)])
async def test_uncordon(unschedulable: bool, requeued: bool) -> None:
    simulation = Simulation(node("a", unschedulable=True), pod("waiting"))
    await simulation.run()
    simulation.add(node("a", unschedulable=unschedulable, labels={"changed": "yes"}))
    assert (places(simulation) == {"waiting": "backoff"}) is requeued


async def test_deleted_pod_requeues_those_that_wait_for_resources() -> None:
    first = pod("first", cpu="4")
    simulation = Simulation(node("a"), first, pod("second", cpu="4"), pod("other", nodeSelector={"x": "y"}))
    assert await simulation.run() == {"first": "a"}
    simulation.core.remove_pod(first)
    assert places(simulation) == {"second": "backoff", "other": "unschedulable"}


async def test_event_during_a_scheduling_cycle_is_not_missed() -> None:
    simulation = Simulation(node("a", cpu="1"), pod("big", cpu="2"))
    core = simulation.core
    queued = core.queue.pop_now()
    assert queued is not None
    queued.unschedulable_plugins = {"NodeResourcesFit"}
    simulation.add(node("b", cpu="4"))
    core.queue.add_unschedulable(queued)
    assert queued.place == "backoff"


async def test_gates_and_their_removal() -> None:
    gated = pod("p", schedulingGates=[{"name": "example.com/a"}])
    simulation = Simulation(node("a"), gated)
    assert await simulation.run() == {}
    assert places(simulation) == {"p": "gated"}
    assert simulation.reporter.conditions == {}
    open_pod = gated.copy()
    assert open_pod.spec is not None
    open_pod.spec.scheduling_gates = None
    simulation.add(open_pod)
    assert await simulation.run() == {"p": "a"}


def test_changes_of_nodes_and_pods() -> None:
    assert node_changes(node("a"), node("a")) == Action(0)
    assert node_changes(node("a"), node("a", cpu="8")) == Action.UPDATE_NODE_ALLOCATABLE
    assert node_changes(node("a", unschedulable=True), node("a")) == Action.UPDATE_NODE_TAINT
    assert node_changes(node("a"), node("a", unschedulable=True)) == Action(0)
    assert pod_changes(pod("a"), pod("a")) == Action.UPDATE_OTHER
    assert pod_changes(pod("a", cpu="2"), pod("a", cpu="1")) == Action.UPDATE_POD_SCALE_DOWN
    assert pod_changes(pod("a", cpu="1"), pod("a", cpu="2")) == Action.UPDATE_OTHER
    assert pod_changes(pod("a"), pod("a", labels={"x": "y"})) == Action.UPDATE_POD_LABEL
