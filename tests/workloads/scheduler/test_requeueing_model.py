"""State machine: after any sequence of changes, a pod that waits could not be scheduled by a new scheduler.

It fails if a queueing hint misses a change that makes a pod schedulable, or if the sums of a node differ from
those over its pods.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubewright.api.core.v1 import Node, Pod
from kubewright.workloads.scheduler import NodeInfo, Profile

from .scheduling_objects import HOSTNAME, ZONE, Simulation, node, pod, required_affinity

PROFILE = Profile(disabled=["DefaultPreemption"])
NAMES = st.sampled_from(("n0", "n1", "n2"))
APPS = st.sampled_from(("a", "b"))
KEYS = st.sampled_from((HOSTNAME, ZONE))
TAINT = {"key": "dedicated", "effect": "NoSchedule"}


def spread(app: str, key: str) -> dict[str, Any]:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


NODES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("1", "2")),
        "pods": st.integers(1, 4),
        "zone": st.sampled_from(("x", "y")),
        "labels": st.sampled_from(({}, {"disk": "ssd"})),
        "taints": st.sampled_from(((), (), (), (TAINT,))),
        "unschedulable": st.sampled_from((False, False, False, True)),
    }
)
CONSTRAINTS = st.one_of(
    st.just({}),
    st.builds(
        lambda app, key: {"affinity": required_affinity(key, app=app)},
        APPS,
        st.sampled_from((HOSTNAME, ZONE)),
    ),
    st.builds(
        lambda app, key: {"affinity": required_affinity(key, anti=True, app=app)},
        APPS,
        st.sampled_from((HOSTNAME, ZONE)),
    ),
    st.builds(spread, APPS, st.sampled_from((HOSTNAME, ZONE))),
    st.just({"nodeSelector": {"disk": "ssd"}}),
    st.just({"tolerations": [{"operator": "Exists"}]}),
    st.just({"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}]}),
)


class Requeueing(RuleBasedStateMachine):
    """Random changes of nodes and pods."""

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation(profiles=[PROFILE])
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.count = 0

    @initialize(first=NODES, second=NODES)
    def create_nodes(self, first: dict[str, Any], second: dict[str, Any]) -> None:
        self.set_node("n0", first)
        self.set_node("n1", second)

    @rule(name=NAMES, options=NODES)
    def set_node(self, name: str, options: dict[str, Any]) -> None:
        self.nodes[name] = node(name, **options)
        self.simulation.add(self.nodes[name])

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        # The pod garbage collector deletes the pods of a node that does not exist.
        for uid, found in list(self.pods.items()):
            info = self.simulation.core.cache.pod(uid)
            if info is not None and info.node_name == name:
                self.simulation.core.remove_pod(found)
                del self.pods[uid]
        del self.nodes[name]
        self.simulation.core.remove_node(name)

    @rule(cpu=st.sampled_from(("", "500m", "1")), app=APPS, constraint=CONSTRAINTS)
    def add_pod(self, cpu: str, app: str, constraint: dict[str, Any]) -> None:
        self.count += 1
        created = pod(f"p{self.count}", cpu=cpu, labels={"app": app}, **constraint)
        self.pods[created.metadata.uid or ""] = created
        self.simulation.add(created)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.simulation.core.remove_pod(self.pods.pop(uid))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), app=APPS)
    def relabel_pod(self, data: st.DataObject, app: str) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        changed = self.pods[uid].copy()
        changed.metadata.labels = {"app": app}
        info = self.simulation.core.cache.pod(uid)
        if info is not None:
            assert changed.spec is not None
            changed.spec.node_name = info.node_name
        self.pods[uid] = changed
        self.simulation.add(changed)

    @invariant()
    def waiting_pods_fit_nowhere(self) -> None:
        asyncio.run(self.simulation.run())
        core = self.simulation.core
        placed = [uid for uid in self.pods if core.cache.pod(uid) is not None]
        waiting = [queued for queued in core.queue.pods() if queued.place == "unschedulable"]
        assert len(placed) + len(waiting) == len(self.pods)
        for queued in waiting:
            fresh = Simulation(*self.nodes.values(), profiles=[PROFILE])
            for uid in placed:
                bound = self.pods[uid].copy()
                assert bound.spec is not None
                info = core.cache.pod(uid)
                assert info is not None
                bound.spec.node_name = info.node_name
                fresh.add(bound)
            fresh.add(queued.info.pod)
            result = asyncio.run(fresh.run())
            assert queued.info.name not in result, (
                queued.unschedulable_plugins,
                self.simulation.message(queued.info.name),
            )

    @invariant()
    def sums_are_those_of_the_pods(self) -> None:
        snapshot = self.simulation.core.snapshot
        for info in snapshot.nodes:
            expected = NodeInfo(info.node)
            for each in info.pods.values():
                expected.add_pod(each)
            for name in ("requested", "used_ports", "group_counts", "affinity_terms", "anti_affinity_terms"):
                assert getattr(info, name) == getattr(expected, name)


TestRequeueing = Requeueing.TestCase
TestRequeueing.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)


@settings(max_examples=300, deadline=None)
@given(
    before=st.lists(NODES, min_size=1, max_size=2),
    others=st.lists(st.tuples(APPS, CONSTRAINTS), max_size=2),
    app=APPS,
    constraint=CONSTRAINTS,
    name=NAMES,
    changed=NODES,
)
def test_change_of_a_node_is_not_missed(
    before: list[dict[str, Any]],
    others: list[tuple[str, dict[str, Any]]],
    app: str,
    constraint: dict[str, Any],
    name: str,
    changed: dict[str, Any],
) -> None:
    machine = Requeueing()
    for number, options in enumerate(before):
        machine.set_node(f"n{number}", options)
    for other_app, other_constraint in others:
        machine.add_pod("", other_app, other_constraint)
    machine.add_pod("500m", app, constraint)
    machine.waiting_pods_fit_nowhere()
    machine.set_node(name, changed)
    machine.waiting_pods_fit_nowhere()
    machine.sums_are_those_of_the_pods()
