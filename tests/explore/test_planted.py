"""Operators with one planted bug each: exploration finds every bug, and nothing in the corrected twins.

A bug that a variation finds is replayed with that variation; others are explored with the fault families that
are named in the module. `python -m tests.explore.planted` explores all of them, and their twins, with default
settings; `KUBEWRIGHT_EXPLORE_ALL=1` explores the twins with all families here.
"""

from __future__ import annotations

import os

import pytest
from tests.explore.planted.catalogue import NAMES, load

from kubewright.explore import explore, explore_specs, run_once
from kubewright.explore.families import all_families
from kubewright.explore.testing import replay

IS_COMPLETE = os.environ.get("KUBEWRIGHT_EXPLORE_ALL") == "1"


@pytest.fixture(scope="module", autouse=True)
def warm_up() -> None:
    """Fill the caches of schemas and types, which the processes of the runs inherit."""
    planted = load("non_atomic_children")
    assert run_once(lambda: planted.build(True), planted.scenario).ok


def test_there_are_enough_patterns() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_bug_is_found(name: str) -> None:
    planted = load(name)

    def build():
        return planted.build(False)

    if planted.variation:
        run, _ = replay(build, [planted.scenario], f"{name}?variation={planted.variation}")
        assert any(planted.finding in each.message for each in run.findings), run.findings
    elif "specs" in planted.families:
        report = explore_specs(build, [planted.scenario])
        problems = [f"{each.rule}: {text}" for each in report.violations for text in each.problems]
        assert any(planted.finding in each for each in problems), problems
    elif not planted.families:
        findings = run_once(build, planted.scenario).findings
        assert any(planted.finding in each.message for each in findings), findings
    else:
        result = explore(build, [planted.scenario], families=planted.families)
        found = [*result.violations, *result.warnings]
        assert any(planted.finding in each.message for each in found), found
        assert all(each.faults for each in found)


@pytest.mark.parametrize("name", NAMES)
def test_twin_is_clean(name: str) -> None:
    planted = load(name)

    def build():
        return planted.build(True)

    if "specs" in planted.families:
        report = explore_specs(build, [planted.scenario])
        assert [each.problems for each in report.violations] == []
        return
    if planted.variation and not IS_COMPLETE:
        run, _ = replay(build, [planted.scenario], f"{name}?variation={planted.variation}")
        assert run.findings == []
        return
    families = all_families() if IS_COMPLETE else planted.families
    result = explore(build, [planted.scenario], families=families)
    assert [f"{each.token} {each.message}" for each in result.violations] == []
    assert result.nondeterministic == []
