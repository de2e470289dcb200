"""Operators with one planted bug each: exploration finds every bug, and nothing in the corrected twins.

By default, bug and twin are explored with the fault families that are named in the module; with
`KUBEWRIGHT_EXPLORE_ALL=1` twins are explored with all families.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.explore.planted.kinds import Planted

from kubewright.explore import explore, run_once
from kubewright.explore.families import all_families

NAMES = sorted(each.stem for each in (Path(__file__).parent / "planted").glob("*.py") if each.stem != "kinds")
IS_COMPLETE = os.environ.get("KUBEWRIGHT_EXPLORE_ALL") == "1"


def load(name: str) -> Planted:
    planted: Planted = importlib.import_module(f"tests.explore.planted.{name}").PLANTED
    return replace(planted, scenario=replace(planted.scenario, name=name, timeout=300.0))


@pytest.fixture(scope="module", autouse=True)
def warm_up() -> None:
    """Fill the caches of schemas and types, which the processes of the runs inherit."""
    planted = load("non_atomic_children")
    assert run_once(lambda: planted.build(True), planted.scenario).ok


def test_there_are_enough_patterns() -> None:
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_bug_is_found(name: str) -> None:
    planted = load(name)
    if not planted.families:
        findings = run_once(lambda: planted.build(False), planted.scenario).findings
        assert any(planted.finding in each.message for each in findings), findings
        return
    result = explore(lambda: planted.build(False), [planted.scenario], families=planted.families)
    assert any(planted.finding in each.message for each in result.violations), result.violations
    assert all(each.faults for each in result.violations)


@pytest.mark.parametrize("name", NAMES)
def test_twin_is_clean(name: str) -> None:
    planted = load(name)
    families = [each for each in all_families() if each not in planted.except_families]
    if not IS_COMPLETE:
        families = list(planted.families)
    result = explore(lambda: planted.build(True), [planted.scenario], families=families)
    assert [f"{each.token} {each.message}" for each in result.violations] == []
    assert result.nondeterministic == []
