"""Which pods a rolling update of a DaemonSet deletes, and on which nodes it creates a second one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from kubewright.api.apps.v1 import DaemonSet
from kubewright.workloads.pods import PodSummary

from .placement import Fit, is_updated, limits, spec_of


class Changes(NamedTuple):
    """Pods to delete, and nodes that need a pod."""

    delete: list[PodSummary]
    create: list[str]


class _Pair(NamedTuple):
    """The pods of a node that are not being deleted; `is_clear` is false if there are more than two."""

    new: PodSummary | None
    old: PodSummary | None
    is_clear: bool


def plan_update(
    daemon_set: DaemonSet,
    pods: Mapping[str, list[PodSummary]],
    fits: Mapping[str, Fit],
    digest: str,
    now: datetime,
) -> Changes:
    """Return the changes of the next step of a rolling update. `pods` and `fits` are by node."""
    desired = [node for node, fit in fits.items() if fit.should_run]
    max_surge, max_unavailable = limits(daemon_set, len(desired))
    nodes = dict.fromkeys([*pods, *desired])
    pairs = {node: _pair(daemon_set, pods.get(node, []), digest) for node in nodes}
    min_ready = spec_of(daemon_set).min_ready_seconds or 0
    if max_surge == 0:
        return Changes(_plan_without_surge(pairs, max_unavailable, min_ready, now), [])
    return _plan_surge(pairs, fits, max_surge, len(desired), min_ready, now)


def _pair(daemon_set: DaemonSet, pods: list[PodSummary], digest: str) -> _Pair:
    alive = [pod for pod in pods if not pod.is_terminating]
    new = [pod for pod in alive if is_updated(pod, daemon_set, digest)]
    old = [pod for pod in alive if not is_updated(pod, daemon_set, digest)]
    if len(new) > 1 or len(old) > 1:
        return _Pair(None, None, False)
    return _Pair(new[0] if new else None, old[0] if old else None, True)


def _plan_without_surge(
    pairs: Mapping[str, _Pair], max_unavailable: int, min_ready: int, now: datetime
) -> list[PodSummary]:
    """Replace unavailable old pods, and available ones as far as the limit allows."""
    unavailable = 0
    broken: list[PodSummary] = []
    candidates: list[PodSummary] = []
    for new, old, is_clear in pairs.values():
        if not is_clear or (new is None) == (old is None):
            unavailable += 1
        elif new is not None:
            unavailable += not new.is_available(min_ready, now)
        elif old is not None and not old.is_available(min_ready, now):
            broken.append(old)
            unavailable += 1
        elif old is not None:
            candidates.append(old)
    return broken + candidates[: max(0, max_unavailable - unavailable)]


def _plan_surge(
    pairs: Mapping[str, _Pair],
    fits: Mapping[str, Fit],
    max_surge: int,
    desired: int,
    min_ready: int,
    now: datetime,
) -> Changes:
    """Create a second pod on nodes, and delete the old one when the new one is available."""
    delete: list[PodSummary] = []
    misplaced: list[PodSummary] = []
    broken: list[str] = []
    candidates: list[str] = []
    surge = available = 0
    for node, (new, old, is_clear) in pairs.items():
        if not is_clear:
            surge += 1
            continue
        serving = old or new
        available += serving is not None and serving.is_available(min_ready, now)
        if old is None:
            continue
        if new is not None:
            if new.is_available(min_ready, now):
                delete.append(old)
            else:
                surge += 1
            continue
        fit = fits.get(node)
        should_run = fit is not None and fit.should_run
        if not old.is_available(min_ready, now):
            if should_run:
                broken.append(node)
            else:
                delete.append(old)
        elif should_run:
            candidates.append(node)
        else:
            misplaced.append(old)
    delete += misplaced[: max(0, available - desired)]
    return Changes(delete, broken + candidates[: max(0, max_surge - surge)])
