"""The database and the queue: their operators with fake applications, and bugs that the faults find."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubewright.explore import (
    ExplorationBudget,
    ModuleFactory,
    Scenario,
    check_replay,
    explore,
    load_scenarios,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


def copied(
    directory: Path, name: str, monkeypatch: pytest.MonkeyPatch, *edits: tuple[str, str]
) -> tuple[ModuleFactory, Sequence[Scenario]]:
    """Return the operator and the scenarios of a copy of an example, with texts of its operator replaced."""
    if name == "database":
        pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    module, fakes = {"database": ("databases", "servers.py"), "queue": ("queues", "broker.py")}[name]
    target = directory / name
    shutil.copytree(EXAMPLES / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    source = target / f"{module}.py"
    text = source.read_text()
    for before, after in edits:
        assert text.count(before) == 1
        text = text.replace(before, after)
    source.write_text(text)
    monkeypatch.syspath_prepend(str(target))
    monkeypatch.delitem(sys.modules, module, raising=False)
    return ModuleFactory(f"{module}:operator"), load_scenarios([str(target / fakes)])


@pytest.mark.parametrize("name", ["database", "queue"])
def test_the_operator_survives_failures_of_its_application(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, scenarios = copied(tmp_path, name, monkeypatch)
    found = explore(factory, scenarios, families=("application",), jobs=1, budget=ExplorationBudget(20, 0.0))
    assert found.violations == []
    assert found.runs_by_family == {"application": 20}


@pytest.mark.parametrize(
    ("name", "token", "before", "after", "message"),
    [
        pytest.param(
            "queue",
            "orders?faults=application=lose-data@x7",
            "    return Result(requeue_after=CHECK_SECONDS)\n\n\n@operator.finalize",
            "    return Result()\n\n\n@operator.finalize",
            "external broker",
            id="a queue that the broker has lost is not created again",
        ),
        pytest.param(
            "database",
            "settings?faults=application=lose-data@x1",
            "key=lambda each: (each.position, each.is_primary)",
            "key=lambda each: (each.is_primary, each.position)",
            "external orders orders",
            id="an empty primary replaces the data of its replicas",
        ),
    ],
)
def test_bugs_are_found_by_the_faults_of_an_application(
    name: str,
    token: str,
    before: str,
    after: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_replay(*copied(tmp_path / "right", name, monkeypatch), token)
    wrong = copied(tmp_path / "wrong", name, monkeypatch, (before, after))
    with pytest.raises(AssertionError, match=message):
        check_replay(*wrong, token)
