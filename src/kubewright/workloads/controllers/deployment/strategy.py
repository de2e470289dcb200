"""How many replicas each ReplicaSet of a Deployment has: rolling update, scaling, re-creation.

The functions compute numbers only; `controller` writes them. A *plan* is a list of ReplicaSets with their new
number of replicas.
"""

from __future__ import annotations

import math

from kubewright.api.apps.v1 import Deployment, DeploymentStatus, ReplicaSet

from .replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    active,
    annotation_number,
    available_of,
    by_age,
    desired_replicas,
    is_rolling_update,
    max_surge,
    max_unavailable,
    replicas_of,
    total_available,
    total_replicas,
)

Plan = list[tuple[ReplicaSet, int]]


def new_replicas(deployment: Deployment, replica_sets: list[ReplicaSet], new: ReplicaSet) -> int:
    """Return the number of replicas of the new ReplicaSet that the surge allows; `replica_sets` has all."""
    desired, current = desired_replicas(deployment), replicas_of(new)
    if not is_rolling_update(deployment):
        return desired
    room = desired + max_surge(deployment) - total_replicas(replica_sets)
    return current + min(room, desired - current) if room > 0 else current


def plan_scale_down(deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> Plan:
    """Return how far old ReplicaSets can be scaled down in a rolling update: unhealthy replicas first."""
    old = sorted(active(old), key=by_age)
    min_available = desired_replicas(deployment) - max_unavailable(deployment)
    new_unavailable = replicas_of(new) - available_of(new)
    limit = total_replicas([*old, new]) - min_available - new_unavailable
    if not old or limit <= 0:
        return []
    sizes = {each.name: replicas_of(each) for each in old}
    for each in old:
        unhealthy = min(limit, sizes[each.name] - available_of(each))
        if limit > 0 and unhealthy > 0:
            sizes[each.name] -= unhealthy
            limit -= unhealthy
    surplus = total_available([*old, new]) - min_available
    for each in old:
        count = min(sizes[each.name], surplus)
        if count > 0:
            sizes[each.name] -= count
            surplus -= count
    return [(each, sizes[each.name]) for each in old if sizes[each.name] != replicas_of(each)]


def is_scaling(deployment: Deployment, replica_sets: list[ReplicaSet]) -> bool:
    """Whether the number of replicas was changed since the ReplicaSets were last scaled."""
    desired = desired_replicas(deployment)
    return any(
        recorded is not None and recorded != desired
        for recorded in (annotation_number(each, DESIRED_REPLICAS) for each in active(replica_sets))
    )


def plan_scaling(deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> tuple[Plan, bool]:
    """Return the sizes after a change of `spec.replicas`, and whether to write annotations of all of them.

    In the middle of a rollout the difference is distributed in proportion to the sizes, so that the scaling
    does not hasten the rollout.
    """
    desired = desired_replicas(deployment)
    replica_sets = [*old, new] if new is not None else old
    running = active(replica_sets)
    if len(running) < 2:
        newest = running[0] if running else new or max(old, key=by_age, default=None)
        return ([(newest, desired)] if newest is not None else []), False
    if new is not None and _is_saturated(deployment, new):
        return [(each, 0) for each in active(old)], False
    if not is_rolling_update(deployment):
        return [], False
    return _plan_proportional(deployment, running), True


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = desired_replicas(deployment)
    recorded = annotation_number(new, DESIRED_REPLICAS)
    return replicas_of(new) == recorded == available_of(new) == desired


def _plan_proportional(deployment: Deployment, running: list[ReplicaSet]) -> Plan:
    desired = desired_replicas(deployment)
    allowed = desired + max_surge(deployment) if desired > 0 else 0
    difference = allowed - total_replicas(running)
    # The largest first; of the same size, newer ones are scaled up and older ones scaled down first.
    ordered = sorted(running, key=by_age, reverse=difference > 0)
    ordered.sort(key=replicas_of, reverse=True)
    sizes: dict[str, int] = {}
    added = 0
    for each in ordered:
        proportion = _proportion(each, deployment, difference, added)
        sizes[each.name] = replicas_of(each) + proportion
        added += proportion
    if difference:
        first = ordered[0].name
        sizes[first] = max(0, sizes[first] + difference - added)
    return [(each, sizes[each.name]) for each in ordered]


def _proportion(replica_set: ReplicaSet, deployment: Deployment, difference: int, added: int) -> int:
    size = replicas_of(replica_set)
    if size == 0 or difference in (0, added):
        return 0
    fraction = _fraction(replica_set, deployment)
    left = difference - added
    return min(fraction, left) if difference > 0 else max(fraction, left)


def _fraction(replica_set: ReplicaSet, deployment: Deployment) -> int:
    size, desired = replicas_of(replica_set), desired_replicas(deployment)
    if desired == 0:
        return -size
    before = annotation_number(replica_set, MAX_REPLICAS)
    if not before:
        before = (deployment.status or DeploymentStatus()).replicas or 0
        if before == 0:
            return 0
    exact = size * (desired + max_surge(deployment)) / before
    # Rounds half away from zero.
    return math.floor(exact + 0.5) - size
