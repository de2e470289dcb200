"""Trials: sequences of specs that are applied one after the other, in a run of their own.

Each trial is forked from one prepared cluster. After each spec it waits until the operator is idle, and
returns whether the spec was rejected, what the state was, which errors the operator logged, and what was
deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.explore.final_state import NormalisedState, normalise
from kubewright.explore.oracles.status_checks import READY_CONDITIONS
from kubewright.explore.reports.run_report import describe_run
from kubewright.explore.runs.forks import run_forked
from kubewright.explore.runs.session import Session
from kubewright.explore.scenarios.scenarios import Scenario

if TYPE_CHECKING:
    from kubewright.explore.reports.model import ViolationReport
    from kubewright.explore.runs.run import SimulatedRun
    from kubewright.explore.scenarios.steps import Steps
    from kubewright.explore.state import ClusterState

QUIET_SECONDS = 60.0
TIMEOUT = 900.0
FAILED_PHASES = frozenset(("Failed", "Error", "Degraded", "Invalid", "Rejected"))
_LOCKING_ERRORS = ("Conflict",)
"""Errors of optimistic locking, after which a reconcile is retried."""


@dataclass(slots=True)
class Outcome:
    """What happened after one spec of a trial."""

    rejection: str = ""
    """Message of the API server; empty if the spec was accepted."""
    state: NormalisedState = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """Errors of reconciles."""
    deleted: list[str] = field(default_factory=list)
    """Objects that existed before, and were deleted or created again."""
    is_converged: bool = True
    failure: str = ""
    """What the status of the object reports as a failure."""

    @property
    def is_healthy(self) -> bool:
        """Whether the spec was accepted and the operator handled it."""
        return not self.rejection and self.is_converged and not self.errors and not self.failure


@dataclass(slots=True)
class Trial:
    """The outcomes of a sequence of specs."""

    outcomes: list[Outcome] = field(default_factory=list)
    findings: list[tuple[str, str]] = field(default_factory=list)
    """Invariants and checks that were violated, with their messages."""
    reports: list[ViolationReport] = field(default_factory=list)


class TrialSession:
    """A prepared cluster in which sequences of specs can be tried."""

    def __init__(self, session: Session, scenario: Scenario) -> None:
        self._session = session
        self._scenario = scenario

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """The CRDs of the cluster."""
        baseline = self._session.run.cluster.recorder.state.baseline
        return [each.data for each in baseline.values() if each.key.kind == "CustomResourceDefinition"]

    def execute(self, specs: Sequence[Mapping[str, Any]], problem: str = "") -> Trial:
        """Apply objects one after the other; with `problem`, the trial has a report about it."""

        def execute() -> Trial:
            return _execute(self._session.run, self._scenario, specs, problem)

        trial: Trial = run_forked(execute)
        return trial


def _execute(
    run: SimulatedRun, scenario: Scenario, specs: Sequence[Mapping[str, Any]], problem: str
) -> Trial:
    trial = Trial()

    async def steps(target: Steps) -> None:
        for obj in specs:
            outcome = await _apply(run, target, obj)
            trial.outcomes.append(outcome)
            if not outcome.is_converged:
                return

    run.scenario = replace(
        scenario,
        steps=steps,
        invariants=tuple(each for each in scenario.invariants if each.when == "always"),
        quiet_seconds=1.0,
        timeout=TIMEOUT,
    )
    result = run.execute(())
    trial.findings = [(each.name, each.message) for each in result.findings]
    if problem:
        run.find("specs", problem)
        trial.reports.append(describe_run(run.result(), run.scenario, name="specs", message=problem))
    return trial


async def _apply(run: SimulatedRun, steps: Steps, obj: Mapping[str, Any]) -> Outcome:
    cluster, loop = run.cluster, run.loop
    before = cluster.recorder.snapshot(time=loop.now)
    first = len(cluster.trace.events)
    outcome = Outcome()
    try:
        await steps.apply(dict(obj))
    except APIError as error:
        outcome.rejection = str(error)
        return outcome
    deadline = loop.now + TIMEOUT
    started = loop.now
    while loop.now - max(cluster.changed_at, started) < QUIET_SECONDS:
        if loop.now >= deadline:
            outcome.is_converged = False
            break
        await asyncio.sleep(QUIET_SECONDS / 4)
    after = cluster.recorder.snapshot(time=loop.now)
    outcome.state = normalise(after, cluster.external.data)
    outcome.errors = list(
        dict.fromkeys(
            each.text
            for each in cluster.trace.events[first:]
            if each.kind == "log" and not any(f": {name}:" in each.text for name in _LOCKING_ERRORS)
        )
    )
    outcome.failure = _failure(after, obj)
    for key, known in before.objects.items():
        found = after.objects.get(key)
        if found is None or found.uid != known.uid:
            outcome.deleted.append(str(known))
    return outcome


def _failure(state: ClusterState, applied: Mapping[str, Any]) -> str:
    """Return what the status of an object reports as a failure; empty if nothing."""
    metadata = applied.get("metadata") or {}
    for each in state:
        if each.key.kind != applied.get("kind") or each.name != metadata.get("name"):
            continue
        phase = each.get("status", "phase")
        if phase in FAILED_PHASES:
            return f"status.phase is {phase}"
        for condition in each.get("status", "conditions", default=()) or ():
            if condition.get("type") in READY_CONDITIONS and condition.get("status") == "False":
                return f"the condition {condition['type']} is False"
    return ""
