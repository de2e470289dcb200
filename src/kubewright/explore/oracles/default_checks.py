"""Default checks: evaluated at the end of runs, and switched off by their names.

Those of states and requests are evaluated in the reference run and in variations; `deletions`, `regression`
and `regenerated` compare a run with the reference run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .history import RunHistory
from .ownership_checks import (
    adopted_objects,
    created_while_deleting,
    creates_in_terminating_namespaces,
    invalid_owners,
    remaining_finalizers,
)
from .status_checks import early_claims, status_problems
from .write_checks import (
    fields_with_two_writers,
    regenerated_values,
    regressions,
    replaced_claims,
    unexpected_deletions,
)

if TYPE_CHECKING:
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.simulation.cluster import SimulatedCluster
    from kubewright.explore.state import ClusterState


def check_reference(cluster: SimulatedCluster, *, is_idle: bool = True) -> Iterator[tuple[str, str]]:
    """Return the name and message of each problem of a run without faults."""
    state = cluster.recorder.snapshot(time=cluster.loop.now)
    history = RunHistory(state, cluster.trace)
    kinds = custom_kinds(state)
    checks = {
        "early-claim": early_claims(history, kinds),
        "owners": invalid_owners(history),
        "deleting-owner": created_while_deleting(history),
        "terminating": creates_in_terminating_namespaces(cluster.requests, state),
        "adoption": adopted_objects(history),
        "two-writers": fields_with_two_writers(history),
        "claims": replaced_claims(history),
    }
    if is_idle:
        checks["status"] = status_problems(state, kinds)
        checks["finalizers"] = remaining_finalizers(state, kinds)
    for name, problems in checks.items():
        for each in problems:
            yield name, each


def check_fault(cluster: SimulatedCluster, reference: Run, *, is_paused: bool) -> Iterator[tuple[str, str]]:
    """Return what a run with a fault did that the reference run does not.

    What a paused leader writes when it continues is not compared, see `late_writes`.
    """
    state = cluster.recorder.snapshot(time=cluster.loop.now)
    history = RunHistory(state, cluster.trace)
    for each in regenerated_values(history, reference.random_values):
        yield "regenerated", each
    if is_paused or reference.state is None:
        return
    for each in unexpected_deletions(cluster.trace.events, reference):
        yield "deletions", each
    for each in regressions(history, RunHistory(reference.state, reference.trace)):
        yield "regression", each


def custom_kinds(state: ClusterState) -> set[tuple[str, str]]:
    """Return group and kind of all kinds with a CustomResourceDefinition."""
    return {
        (each.get("spec", "group"), each.get("spec", "names", "kind"))
        for objects in (state.baseline, state.objects)
        for each in objects.values()
        if each.key.kind == "CustomResourceDefinition"
    }
