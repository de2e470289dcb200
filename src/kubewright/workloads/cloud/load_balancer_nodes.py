"""The nodes behind load balancers.

Nodes that are not ready stay: load balancers have health checks of their own, and a short failure of a
kubelet must not close connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubewright.api.core.v1 import Node

EXCLUDE_LABEL: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def is_included(node: Node) -> bool:
    """Whether the label does not exclude the node; any value but false excludes it."""
    value = (node.metadata.labels or {}).get(EXCLUDE_LABEL)
    return value is None or value in _FALSE


def select_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that receive traffic: not excluded, not being deleted by the API or an autoscaler."""
    return [node for node in nodes if _is_stable(node) and is_included(node)]


def _is_stable(node: Node) -> bool:
    taints = (node.spec.taints if node.spec is not None else None) or ()
    return node.metadata.deletion_timestamp is None and not any(
        taint.key == TO_BE_DELETED_TAINT for taint in taints
    )


def affects_load_balancers(old: Node | None, new: Node | None) -> bool:
    """Whether a change of a node can change the nodes of load balancers."""
    if old is None or new is None:
        return True
    return is_included(old) != is_included(new) or provider_id(old) != provider_id(new)


def provider_id(node: Node) -> str:
    """Return the provider ID of a node; empty before it was initialized."""
    return (node.spec.provider_id if node.spec is not None else None) or ""


def provider_ids(nodes: Iterable[Node]) -> Mapping[str, str]:
    """Return the provider IDs by node; load balancers are updated when this map changes."""
    return {node.name: provider_id(node) for node in nodes}
