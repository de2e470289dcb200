"""Scenarios from functions and files, and their steps on a control plane."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.explore import (
    ClientSteps,
    ScenarioError,
    Steps,
    at_most_writes,
    load_scenarios,
    no_orphans,
    scenario,
)
from kubewright.explore.scenarios.scenario_files import parse_scenario
from kubewright.testing import fake_time, start_test_server

YAML = """
name: settings
invariants:
  - no_orphans
  - at_most_writes: 3
  - no_duplicate_children: {kind: ConfigMap, key: app}
steps:
  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {time: 2030-01-01T00:00:00Z}}
  - wait: {kind: ConfigMap, name: a, condition: "{.data.time}=2030-01-01T00:00:00Z", timeout: 1m}
  - patch: {kind: configmaps, name: a, namespace: default, patch: {data: {size: "2"}}}
  - advance: 1h
  - delete: {kind: ConfigMap, name: a}
  - wait: {kind: ConfigMap, name: a, absent: true}
---
quietSeconds: 2m
steps:
  - advance: 90
"""


def test_yaml_steps_run_on_a_control_plane(tmp_path: Path) -> None:
    file = tmp_path / "scenarios.yaml"
    file.write_text(YAML)
    first, second = load_scenarios(str(tmp_path / "*.yaml"))
    assert [each.name for each in first.invariants] == [
        "no_orphans",
        "at_most_writes",
        "no_duplicate_children",
    ]
    assert (second.name, second.quiet_seconds) == ("scenarios-2", 120.0)
    seen: list[str] = []

    async def run() -> float:
        async with start_test_server("in-process") as server:
            started = asyncio.get_running_loop().time()
            steps = ClientSteps(
                server.client(), on_step=lambda number, text, timeout: seen.append(f"{number} {text}")
            )
            await first(steps)
            assert await server.client().get_or_none(ConfigMap, "a") is None
            return asyncio.get_running_loop().time() - started

    assert 3600 <= fake_time(run()) < 3700
    assert seen == [
        "0 apply ConfigMap a",
        "1 wait ConfigMap a until {.data.time}=2030-01-01T00:00:00Z",
        "2 patch configmaps a",
        "3 advance 1h",
        "4 delete ConfigMap a",
        "5 wait ConfigMap a until is deleted",
    ]


def test_skipped_steps_do_nothing() -> None:
    @scenario(invariants=[no_orphans(), at_most_writes(1)])
    async def create_two(steps: Steps) -> None:
        for name in ("a", "b"):
            await steps.apply(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))

    async def run() -> None:
        async with start_test_server("in-process") as server:
            await create_two(ClientSteps(server.client(), skip={0}))
            await server.client().get(ConfigMap, "b")
            with pytest.raises(NotFound):
                await server.client().get(ConfigMap, "a")

    fake_time(run())
    assert create_two.name == "create_two"
    assert Path(create_two.source.rpartition(":")[0]).name == "test_scenario.py"


def test_python_files(tmp_path: Path) -> None:
    file = tmp_path / "resize.py"
    file.write_text(
        "from kubewright.explore import no_orphans, scenario\n"
        "@scenario(invariants=[no_orphans()], nodes=1)\n"
        "async def resize(steps):\n    await steps.advance('1m')\n"
        "@scenario\n"
        "async def other(steps):\n    await steps.advance(1)\n"
    )
    assert [(each.name, each.nodes) for each in load_scenarios(tmp_path)] == [("resize", 1), ("other", 0)]
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    with pytest.raises(ScenarioError, match=r"cannot import .*broken\.py: ModuleNotFoundError"):
        load_scenarios(tmp_path / "broken.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ScenarioError, match="mark async functions with @scenario"):
        load_scenarios(tmp_path / "empty.py")
    with pytest.raises(ScenarioError, match="does not exist"):
        load_scenarios(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "s.yaml: expected a mapping, not list"),
        ({"steps": []}, "s.yaml: steps must be a list with at least one step"),
        ({"step": []}, "s.yaml: unknown field 'step'; fields are: name, invariants"),
        (
            {"steps": [{"advance": "1h"}, {"applied": {}}]},
            "s.yaml: step 2: unknown step 'applied'; steps are: apply,",
        ),
        ({"steps": [{"apply": {"kind": "Pod"}}]}, "s.yaml: step 1: apply: apiVersion is missing"),
        ({"steps": [{"patch": {"kind": "Pod", "name": "a"}}]}, "step 1: patch: patch must be a mapping"),
        ({"steps": [{"delete": {"kind": "Pod"}}]}, "step 1: delete: name is missing"),
        ({"steps": [{"delete": {"kind": "Pod", "name": "a", "force": 1}}]}, "unknown field 'force'"),
        ({"steps": [{"wait": {"kind": "Pod", "name": "a"}}]}, "needs either a condition or absent"),
        (
            {"steps": [{"wait": {"kind": "Pod", "name": "a", "absent": "yes"}}]},
            "absent must be true or false",
        ),
        ({"steps": [{"advance": "soon"}]}, "step 1: advance: "),
        ({"steps": [{"advance": -1}]}, "step 1: advance: the duration -1 is not greater than 0"),
        ({"steps": [{"advance": 1}], "invariants": ["no_bugs"]}, "invariant 1: unknown invariant 'no_bugs'"),
        (
            {"steps": [{"advance": 1}], "invariants": ["at_most_writes"]},
            "invariant 1: at_most_writes: missing",
        ),
    ],
)
def test_errors_name_the_step(document: object, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(document, source="s.yaml", name="s")
    assert message in str(caught.value)


def test_a_function_that_is_not_a_scenario_is_rejected() -> None:
    with pytest.raises(TypeError, match="must be an async function"):
        scenario(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="call ready-made ones"):

        @scenario(invariants=[no_orphans])  # type: ignore[list-item]
        async def wrong(steps: Steps) -> None: ...
