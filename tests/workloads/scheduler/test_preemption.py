"""Victims of preemption: priorities, disruption budgets, and the choice of the node."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.policy.v1 import PodDisruptionBudget
from kubewright.workloads.scheduler import NodeInfo, PodInfo, Profile
from kubewright.workloads.scheduler.plugins import DefaultPreemption

from .scheduling_objects import HOSTNAME, Simulation, make, node, pod, required_affinity

STARTED = {"startTime": "2030-01-01T00:00:00Z"}
EARLIER = {"startTime": "2029-01-01T00:00:00Z"}


class Recorded(DefaultPreemption):
    """Stores the victims instead of deleting them."""

    name = "DefaultPreemption"
    victims: list[str] = []

    def _start_preemption(self, pod: PodInfo, candidate: Any) -> None:
        Recorded.victims = [each.metadata.name for each in candidate.victims]


def budget(allowed: int, **labels: str) -> Any:
    return make(
        PodDisruptionBudget,
        {
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed},
        },
    )


def running(name: str, host: str, cpu: str = "1", **options: Any) -> Any:
    return pod(name, nodeName=host, cpu=cpu, status=options.pop("status", STARTED), **options)


async def preempt(*objects: Any, **wanted: Any) -> tuple[str, list[str]]:
    Recorded.victims = []
    simulation = Simulation(*objects, profiles=[Profile(plugins=[Recorded])])
    simulation.add(pod("new", priority=1000, **wanted))
    await simulation.run()
    return simulation.reporter.nominations.get("new", ""), sorted(Recorded.victims)


@pytest.mark.parametrize(
    ("objects", "wanted", "expected"),
    [
        pytest.param(
            [node("a", cpu="2"), running("x", "a"), running("y", "a", priority=5)],
            {"cpu": "1"}, ("a", ["x"]), id="the least important pod",
        ),
        pytest.param(
            [node("a", cpu="2"), running("x", "a"), running("y", "a", priority=5)],
            {"cpu": "2"}, ("a", ["x", "y"]), id="as many as necessary",
        ),
        pytest.param(
            [node("a", cpu="2"), running("x", "a", priority=1000), running("y", "a", priority=2000)],
            {"cpu": "1"}, ("", []), id="never pods of the same or a higher priority",
        ),
        pytest.param(
            [node("a", cpu="1"), node("b", cpu="1"), running("x", "a", priority=9),
             running("y", "b", priority=8)],
            {"cpu": "1"}, ("b", ["y"]), id="lowest highest priority",
        ),
        pytest.param(
            [node("a", cpu="2"), node("b", cpu="2"), running("x", "a"), running("y", "a"),
             running("z", "b", "2")],
            {"cpu": "2"}, ("b", ["z"]), id="fewest victims",
        ),
        pytest.param(
            [node("a", cpu="1"), node("b", cpu="1"), running("x", "a", status=EARLIER), running("y", "b")],
            {"cpu": "1"}, ("b", ["y"]), id="most recently started",
        ),
        pytest.param(
            [node("a", cpu="1"), node("b", cpu="1"), running("x", "a", labels={"app": "db"}),
             running("y", "b", priority=900), budget(0, app="db")],
            {"cpu": "1"}, ("b", ["y"]), id="no violated budget if possible",
        ),
        pytest.param(
            [node("a", cpu="2"), running("x", "a", labels={"app": "db"}), running("y", "a", priority=900),
             budget(0, app="db")],
            {"cpu": "1"}, ("a", ["y"]), id="pods without budget first on a node",
        ),
        pytest.param(
            [node("a", cpu="2"), running("x", "a", labels={"app": "db"}),
             running("y", "a", labels={"app": "db"}), budget(1, app="db")],
            {"cpu": "2"}, ("a", ["x", "y"]), id="budgets are violated if necessary",
        ),
        pytest.param(
            [node("a", cpu="1", taints=[{"key": "x", "effect": "NoSchedule"}]), running("x", "a")],
            {"cpu": "1"}, ("", []), id="not on nodes that do not match",
        ),
        pytest.param(
            [node("a"), running("x", "a", labels={"app": "web"})],
            {"affinity": required_affinity(HOSTNAME, anti=True, app="web")}, ("a", ["x"]),
            id="because of anti-affinity",
        ),
        pytest.param(
            [node("a"), running("x", "a", affinity=required_affinity(HOSTNAME, anti=True, app="web"))],
            {"labels": {"app": "web"}}, ("a", ["x"]), id="because of the anti-affinity of the victim",
        ),
    ],
)  # fmt: skip
async def test_victims(objects: list[Any], wanted: dict[str, Any], expected: tuple[str, list[str]]) -> None:
    assert await preempt(*objects, **wanted) == expected


async def test_nominated_pod_keeps_its_resources() -> None:
    simulation = Simulation(
        node("a", cpu="2"), running("x", "a", "2"), profiles=[Profile(plugins=[Recorded])]
    )
    simulation.add(pod("high", cpu="2", priority=1000))
    await simulation.run()
    (victim,) = [info for info in simulation.core.snapshot.by_name["a"].pods.values() if info.name == "x"]
    simulation.core.cache.remove_pod(victim.uid)
    simulation.add(pod("low", cpu="1"))
    await simulation.run()
    assert "Insufficient cpu" in simulation.message("low")
    simulation.core.queue.activate(queued.info for queued in simulation.core.queue.pods())
    placed = await simulation.run()
    assert placed == {"high": "a"}


async def test_protected_pods() -> None:
    class Protecting(Recorded):
        name = "DefaultPreemption"

        def is_eligible_victim(self, node: NodeInfo, victim: PodInfo, pod: PodInfo) -> bool:
            return "protected" not in victim.labels

    Recorded.victims = []
    simulation = Simulation(
        node("a", cpu="2"),
        running("x", "a", labels={"protected": "yes"}),
        running("y", "a", priority=9),
        profiles=[Profile(plugins=[Protecting])],
    )
    simulation.add(pod("new", cpu="1", priority=1000))
    await simulation.run()
    assert Recorded.victims == ["y"]
