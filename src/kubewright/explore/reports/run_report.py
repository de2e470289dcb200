"""The report of one run that violated something: timeline, owner graphs, and sentences about its faults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.explore.runs.run_result import Finding, Run

from .model import ViolationReport
from .owner_graph import owner_graph
from .timeline import timeline_of

if TYPE_CHECKING:
    from kubewright.explore.scenarios.scenarios import Scenario
    from kubewright.explore.state import ClusterState


def describe_run(
    run: Run,
    scenario: Scenario,
    *,
    name: str,
    message: str,
    expected: ClusterState | None = None,
    count: int = 1,
    replay: str = "",
    test: str = "",
) -> ViolationReport:
    """Return the report of a run in this Python process, which violated something.

    `expected` is the final state of the reference run, if that is what the run is compared with.
    """
    finding = next((each for each in run.findings if (each.name, each.message) == (name, message)), None)
    if finding is None:
        finding = next((each for each in run.findings if each.name == name), Finding(name, message))
    until = finding.event + 1 if finding.event else None
    before, after = _states(run, finding)
    title = "before"
    if expected is not None:
        before, title = expected, "in the reference run"
    skipped = frozenset(run.skipped_steps)
    return ViolationReport(
        scenario=run.scenario,
        source=relative_path(scenario.source),
        rule=name,
        problems=[finding.message],
        faults=[str(each) for each in run.faults],
        explanation=[each.explain(run.trace) for each in run.faults],
        steps=[each for number, each in enumerate(run.steps) if number not in skipped],
        timeline=timeline_of(run.trace, until=until),
        before=owner_graph(before, compared_with=after, is_after=False) if before is not None else [],
        before_title=title,
        after=owner_graph(after, compared_with=before, is_same_run=expected is None)
        if after is not None
        else [],
        replay=replay,
        test=test,
        count=count,
    )


def _states(run: Run, finding: Finding) -> tuple[ClusterState | None, ClusterState | None]:
    """Return the states before the first fault, or before the last change, and when the finding was made."""
    if run.state is None:
        return None, None
    events = run.trace.events
    # The finding itself is the next event of the trace.
    revision = events[min(finding.event + 1, len(events) - 1)].store_revision if events else 0
    after = _at_revision(run.state, revision or run.state.revision)
    fault = next((each for each in events if each.kind == "fault"), None)
    if fault is None:
        return after.previous, after
    before = _at_revision(run.state, fault.store_revision)
    return (before if before is not after else after.previous), after


def _at_revision(state: ClusterState, revision: int) -> ClusterState:
    """Return the last state that is not newer than a revision."""
    for each in (state, *state.earlier()):
        if each.revision <= revision:
            return each
        state = each
    return state


def relative_path(path: str) -> str:
    """Return a path, which can end with a line number, relative to the current directory."""
    if not path.startswith("/"):
        return path
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else f"{Path(path).parent.name}/{Path(path).name}"
