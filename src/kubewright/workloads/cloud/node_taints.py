"""Taints of nodes that the cloud controllers add and remove."""

from __future__ import annotations

from typing import Final

from kubewright.api.core.v1 import Node, Taint
from kubewright.api.encoding.codec import to_plain
from kubewright.client import Client, patches

UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
"""Taint that kubelets with `--cloud-provider=external` register with."""
SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"


def taints_of(node: Node) -> list[Taint]:
    """Return the taints of a node."""
    return list((node.spec.taints if node.spec is not None else None) or ())


def has_taint(node: Node, key: str) -> bool:
    """Whether a node has a taint with this key."""
    return any(taint.key == key for taint in taints_of(node))


def taints_change(node: Node, taints: list[Taint]) -> dict[str, dict[str, object]]:
    """Return a merge patch that replaces the taints and fails after other changes of the node."""
    return {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": [to_plain(taint) for taint in taints] or None},
    }


async def add_taint(client: Client, node: Node, key: str, effect: str = "NoSchedule") -> None:
    """Add a taint that the node does not have; raises `Conflict` after other changes of the node."""
    if not has_taint(node, key):
        change = taints_change(node, [*taints_of(node), Taint(key=key, effect=effect)])
        await client.patch(Node, node.name, patches.merge_patch(change))


async def remove_taint(client: Client, node: Node, key: str) -> None:
    """Remove a taint, if the node has it; raises `Conflict` after other changes of the node."""
    if has_taint(node, key):
        change = taints_change(node, [taint for taint in taints_of(node) if taint.key != key])
        await client.patch(Node, node.name, patches.merge_patch(change))
