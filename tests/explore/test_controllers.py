"""The controllers of workloads and of the control plane, explored.

By default a few faults of each family are explored for some scenarios; with `KUBEWRIGHT_EXPLORE_ALL=1`, all
faults of all scenarios. `python -m tests.explore.controllers` prints the figures of the documentation.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.explore.controllers import all_explored, control_plane
from tests.explore.controllers.table import Explored

from kubewright.api.errors import APIError
from kubewright.controlplane.controllers.garbage_collector import GarbageCollector
from kubewright.explore import ControlPlaneControllers, ExplorationBudget, Fault, Run, explore, run_once

IS_COMPLETE = os.environ.get("KUBEWRIGHT_EXPLORE_ALL") == "1"
EXPLORED = {each.name: each for each in all_explored()}
SOME = (
    "garbage collector, foreground",
    "namespaces and garbage collector",
    "resource quotas",
    "Deployment, roll out",
)
"""Scenarios that are explored by default."""
RUNS = 11


@pytest.mark.parametrize("name", EXPLORED if IS_COMPLETE else SOME)
def test_nothing_is_violated(name: str) -> None:
    each = EXPLORED[name]
    budget = None if IS_COMPLETE else ExplorationBudget(runs=RUNS)
    run_once(each.factory, each.scenario)  # forked runs inherit what it imports
    result = explore(each.factory, [each.scenario], families=each.families, budget=budget)
    assert [f"{found.token} {found.message}" for found in result.violations] == []
    assert not result.nondeterministic
    assert result.runs >= RUNS


def run_with(each: Explored, action: str, text: str, *, value: str = "", seconds: float = 0.0) -> Run:
    """Run a scenario with a fault at the first event with a text."""
    reference = run_once(each.factory, each.scenario)
    assert reference.ok, reference.findings
    point = next(event.point for event in reference.trace if event.point and event.text == text)
    fault = Fault.create(action, point, value, seconds)
    return run_once(each.factory, each.scenario, faults=[fault], reference=reference)


def test_account_and_authority_are_restored_after_an_interrupted_watch() -> None:
    each = EXPLORED["service accounts"]
    run = run_with(each, "reset", "ADDED serviceaccounts shop/default")
    assert not run.findings


def test_denied_account_is_created_later() -> None:
    each = EXPLORED["service accounts"]
    run = run_with(each, "error", "create serviceaccounts shop/default", value="denied")
    assert not run.findings


def test_volume_is_not_deleted_before_its_claim_is_observed() -> None:
    each = EXPLORED["PersistentVolume, reserved"]
    run = run_with(each, "hold", "ADDED persistentvolumeclaims default/data", seconds=30)
    assert not run.findings


def test_pod_is_deleted_if_its_node_was_never_observed() -> None:
    each = EXPLORED["pod garbage collector"]
    run = run_with(each, "gap", "ADDED nodes dead", seconds=120.02)
    assert not run.findings


def test_planted_bug_of_the_garbage_collector_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = GarbageCollector._remove_finalizer

    async def remove_once(self: GarbageCollector, *arguments: Any) -> None:
        try:
            await remove(self, *arguments)
        except APIError:
            return

    monkeypatch.setattr(GarbageCollector, "_remove_finalizer", remove_once)
    result = explore(
        lambda: ControlPlaneControllers(control_plane.GARBAGE_COLLECTOR),
        [control_plane.orphaning_deletion],
        families=["conflict"],
    )
    assert {each.name for each in result.violations} >= {"finalizers_removed", "final-state"}


def test_unknown_controllers_are_rejected() -> None:
    with pytest.raises(ValueError, match="unknown controllers toaster"):
        ControlPlaneControllers("toaster")
