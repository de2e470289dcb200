"""A second scheduler, `cheapest`: it prefers nodes with a low price and respects a price limit of the pod.

Nodes have the label `example.com/price` (whole cents per hour), pods may have the annotation
`example.com/max-price`. Pods select the scheduler with `schedulerName: cheapest`.

    python scheduler_plugin.py --kubeconfig kubeconfig
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kubewright.api.core.v1 import Node
from kubewright.client import Client
from kubewright.manager import Cluster, Manager
from kubewright.workloads.scheduler import (
    MAX_NODE_SCORE,
    Action,
    ClusterEvent,
    CycleState,
    Handle,
    Hint,
    NodeInfo,
    Plugin,
    PodInfo,
    Profile,
    SchedulingStatus,
    add_scheduler,
)

PRICE = "example.com/price"
MAX_PRICE = "example.com/max-price"


class NodePrice(Plugin):
    """Rejects nodes that are too expensive, and prefers cheap ones.

    Argument: `default_price`, the price of nodes without the label.
    """

    def __init__(self, handle: Handle, default_price: int = 100) -> None:
        super().__init__(handle)
        self._default_price = default_price

    def events(self) -> Iterable[ClusterEvent]:
        """A rejected pod is retried when a node is added or its labels change, if the price is acceptable."""
        return (ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change),)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        if new is None:
            return Hint.SKIP
        return Hint.QUEUE if self._price(new.metadata.labels or {}) <= _limit(pod) else Hint.SKIP

    def _price(self, labels: Mapping[str, str]) -> int:
        return int(labels.get(PRICE, self._default_price))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Reject nodes above the limit of the pod."""
        if self._price(node.labels) <= _limit(pod):
            return None
        return SchedulingStatus.unresolvable("node(s) were too expensive")

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return the price; `normalize_scores` makes the cheapest node the best."""
        return self._price(node.labels)

    def normalize_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> list[int]:
        """The cheapest node gets 100, the others in proportion to their price less."""
        cheapest = min(scores)
        return [MAX_NODE_SCORE * cheapest // score if score else MAX_NODE_SCORE for score in scores]


def _limit(pod: PodInfo) -> float:
    value = (pod.pod.metadata.annotations or {}).get(MAX_PRICE)
    return float(value) if value is not None else float("inf")


CHEAPEST = Profile(
    scheduler_name="cheapest",
    plugins=[NodePrice],
    weights={"NodePrice": 20},
    plugin_args={"NodeResourcesFit": {"strategy": "MostAllocated"}},
)
"""Fill the cheapest nodes first."""


async def main(kubeconfig: str | None) -> None:
    """Run the scheduler until SIGINT or SIGTERM."""
    async with Client.connect(kubeconfig) as client:
        manager = Manager(Cluster(client))
        add_scheduler(manager, [CHEAPEST])
        await manager.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig")
    asyncio.run(main(parser.parse_args().kubeconfig))
