"""Writes of pod status: conditions and nominated nodes. Nothing is written if nothing changes."""

from __future__ import annotations

from typing import Any

from kubewright.api.core.v1 import Pod, PodCondition
from kubewright.api.encoding.codec import to_plain
from kubewright.api.values.times import now
from kubewright.client import Client, strategic_merge_patch

_COMPARED = ("status", "reason", "message", "observed_generation")


def condition_change(pod: Pod, condition: PodCondition) -> dict[str, Any] | None:
    """Return the condition to patch; `None` if the pod already has it.

    The transition time changes with the status of the condition only.
    """
    conditions = (pod.status.conditions if pod.status else None) or ()
    current = next((each for each in conditions if each.type == condition.type), None)
    if current is not None and all(getattr(current, name) == getattr(condition, name) for name in _COMPARED):
        return None
    changed = condition.copy()
    same_status = current is not None and current.status == condition.status
    changed.last_transition_time = (
        current.last_transition_time if same_status and current is not None else now()
    )
    data: dict[str, Any] = to_plain(changed)
    return data


async def patch_status(
    client: Client, pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
) -> bool:
    """Set a condition and the nominated node; return whether a request was necessary.

    `nominated_node`: empty to clear it, `None` to keep it.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        change = condition_change(pod, condition)
        if change is not None:
            status["conditions"] = [change]
    current = (pod.status.nominated_node_name if pod.status else None) or ""
    if nominated_node is not None and nominated_node != current:
        status["nominatedNodeName"] = nominated_node or None
    if not status:
        return False
    meta = pod.metadata
    await client.patch(
        Pod,
        meta.name or "",
        strategic_merge_patch({"metadata": {"uid": meta.uid}, "status": status}),
        namespace=meta.namespace,
        subresource="status",
    )
    return True


async def patch_condition(client: Client, pod: Pod, condition: PodCondition) -> bool:
    """Set a condition; return whether a request was necessary."""
    return await patch_status(client, pod, condition=condition)


async def clear_nomination(client: Client, pod: Pod) -> bool:
    """Remove the nominated node; return whether a request was necessary."""
    return await patch_status(client, pod, nominated_node="")
