"""Properties that hold for all placements: resources, anti-affinity, spread, repeatability."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from .scheduling_objects import HOSTNAME, ZONE, Simulation, node, pod, required_affinity

NODES = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.integers(1, 4).map(str),
            "memory": st.integers(1, 4).map(lambda size: f"{size}Gi"),
            "pods": st.integers(1, 6),
            "zone": st.sampled_from("xy"),
        }
    ),
    min_size=1,
    max_size=6,
)
PODS = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(("", "100m", "500m", "1", "2")),
            "memory": st.sampled_from(("", "256Mi", "1Gi")),
            "priority": st.integers(0, 2),
            "labels": st.sampled_from(({"app": "a"}, {"app": "b"})),
        }
    ),
    max_size=20,
)


def simulate(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], seed: int) -> Simulation:
    """Schedule all pods, without preemption."""
    simulation = Simulation(*(node(f"n{index}", **each) for index, each in enumerate(nodes)), seed=seed)
    simulation.add(*(pod(f"p{index}", preemptionPolicy="Never", **each) for index, each in enumerate(pods)))
    asyncio.run(simulation.run())
    return simulation


@settings(max_examples=60, deadline=None)
@given(NODES, PODS, st.integers(0, 3))
def test_nodes_are_never_overcommitted(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], seed: int
) -> None:
    simulation = simulate(nodes, pods, seed)
    for info in simulation.core.snapshot.nodes:
        assert len(info.pods) <= info.allocatable.pods
        assert info.requested.milli_cpu <= info.allocatable.milli_cpu
        assert info.requested.memory <= info.allocatable.memory
        assert info.requested.milli_cpu == sum(each.requests.milli_cpu for each in info.pods.values())
        assert sum(info.group_counts.values()) == len(info.pods)
    placed = sum(len(info.pods) for info in simulation.core.snapshot.nodes)
    waiting = simulation.core.queue.pods()
    assert placed + len(waiting) == len(pods)
    # A pod that waits fits nowhere.
    for queued in waiting:
        request = queued.info.requests
        for info in simulation.core.snapshot.nodes:
            assert (
                len(info.pods) >= info.allocatable.pods
                or request.milli_cpu > info.allocatable.milli_cpu - info.requested.milli_cpu
                or request.memory > info.allocatable.memory - info.requested.memory
            )


@settings(max_examples=40, deadline=None)
@given(NODES, PODS, st.sampled_from((HOSTNAME, ZONE)), st.integers(0, 3))
def test_anti_affinity_is_never_violated(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], key: str, seed: int
) -> None:
    repelling = required_affinity(key, anti=True, app="a")
    for index, each in enumerate(pods):
        if index % 2:
            each["affinity"] = repelling
    simulation = simulate(nodes, pods, seed)
    domains: dict[str, list[Any]] = {}
    for info in simulation.core.snapshot.nodes:
        domains.setdefault(info.labels[key], []).extend(info.pods.values())
    for members in domains.values():
        for one in members:
            if one.anti_affinity_terms:
                others = [other for other in members if other is not one]
                assert all(other.labels["app"] != "a" for other in others)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 15), st.integers(1, 3))
def test_spread_is_within_the_skew(nodes: int, pods: int, skew: int) -> None:
    constraint = {
        "topologyKey": HOSTNAME,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    spec = {"labels": {"app": "a"}, "topologySpreadConstraints": [constraint]}
    simulation = simulate([{"pods": 20, "cpu": "4"}] * nodes, [dict(spec)] * pods, 1)
    counts = [len(info.pods) for info in simulation.core.snapshot.nodes]
    assert sum(counts) == pods
    assert max(counts) - min(counts) <= skew


@settings(max_examples=20, deadline=None)
@given(NODES, PODS, st.integers(0, 1000))
def test_placements_are_repeatable(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], seed: int
) -> None:
    def placements() -> dict[str, str]:
        snapshot = simulate(nodes, pods, seed).core.snapshot
        return {each.name: info.name for info in snapshot.nodes for each in info.pods.values()}

    assert placements() == placements()
