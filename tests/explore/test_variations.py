"""Variations of a scenario that need files: another Python process imports operator and scenario."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.encoding.codec import decode
from kubewright.explore import ModuleFactory, load_scenarios
from kubewright.explore.oracles.probe import Probe
from kubewright.explore.oracles.repetition import ApplyAgain
from kubewright.explore.runs.other_process import final_state_elsewhere
from kubewright.explore.runs.run import run_once
from kubewright.explore.testing import replay

OPERATOR = '''
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.core.v1 import ConfigMap


class {name}Spec(Spec):
    hosts: list[str] = []


@resource(group="hash.example.com", version="v1")
class {name}(CustomResource[{name}Spec, None]):
    """A web site."""


operator = Operator("hash")


@operator.reconcile({name}, owns=(ConfigMap,))
async def reconcile(obj: {name}, ctx: Context[{name}]) -> None:
    metadata = ObjectMeta(name=obj.name, namespace=obj.metadata.namespace)
    await ctx.ensure([ConfigMap(metadata=metadata, data={{"hosts": ",".join({hosts})}})])
'''
SCENARIO = """
steps:
  - apply:
      apiVersion: hash.example.com/v1
      kind: {name}
      metadata: {{name: a, namespace: default}}
      spec: {{hosts: [red, green, blue, black, white]}}
  - wait: {{kind: ConfigMap, name: a, absent: false}}
"""


@pytest.mark.parametrize(
    ("name", "hosts", "is_found"),
    [("Unsorted", "set(obj.spec.hosts)", True), ("Sorted", "sorted(set(obj.spec.hosts))", False)],
)
def test_another_process_gives_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hosts: str, is_found: bool
) -> None:
    module = f"hash_order_{name.lower()}"
    (tmp_path / f"{module}.py").write_text(OPERATOR.format(name=name, hosts=hosts))
    file = tmp_path / f"{name.lower()}.yaml"
    file.write_text(SCENARIO.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    factory = ModuleFactory(f"{module}:operator")
    run, _ = replay(factory, load_scenarios(file), f"{name.lower()}?variation=process")
    assert [each.name for each in run.findings] == (["process"] if is_found else [])
    if is_found:
        assert "PYTHONHASHSEED" in run.findings[0].message


def test_a_state_without_a_json_form_is_not_compared_with_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes in an external system, after texts that were already encoded."""
    text = OPERATOR.format(name="Binary", hosts="obj.spec.hosts")
    text += '    await ExternalFake("disk").put(obj.name, b"x")\n'
    text = text.replace(
        "\nfrom kubewright", "\nfrom kubewright.explore import ExternalFake\nfrom kubewright", 1
    )
    (tmp_path / "binary_state.py").write_text(text)
    file = tmp_path / "binary.yaml"
    file.write_text(SCENARIO.format(name="Binary"))
    monkeypatch.syspath_prepend(tmp_path)
    (scenario,) = load_scenarios(file)
    run = run_once(ModuleFactory("binary_state:operator"), scenario, seed=0)
    assert run.final_state["external disk a"] == [b"x"]
    assert final_state_elsewhere("binary_state:operator", scenario, seed=0, hash_seed=1) is None


STAGES = '''
from __future__ import annotations

from enum import StrEnum

from kubewright import Context, CustomResource, Operator, Spec, Status, resource


class Stage(StrEnum):
    WAITING = "Waiting"


class TimerStatus(Status):
    stage: Stage | None = None


@resource(group="stages.example.com", version="v1")
class Timer(CustomResource[Spec, TimerStatus]):
    """Has stages."""


operator = Operator("stages")


@operator.reconcile(Timer)
async def reconcile(timer: Timer, ctx: Context[Timer]) -> None: ...
'''


def test_values_of_objects_belong_to_the_modules_of_their_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stages_operator.py").write_text(STAGES)
    monkeypatch.syspath_prepend(tmp_path)
    factory = ModuleFactory("stages_operator:operator")
    kind: Any = factory().kinds[0]
    stage = sys.modules["stages_operator"].Stage
    factory()  # imports all modules again
    found = decode(b'{"metadata": {}, "spec": {}, "status": {"stage": "Waiting"}}', kind)
    assert found.status.stage is stage.WAITING


def test_a_variation_that_fails_is_a_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: ApplyAgain, probe: Probe) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(ApplyAgain, "finish", fail)
    (tmp_path / "variation_fails.py").write_text(OPERATOR.format(name="Failing", hosts="obj.spec.hosts"))
    file = tmp_path / "failing.yaml"
    file.write_text(SCENARIO.format(name="Failing"))
    monkeypatch.syspath_prepend(tmp_path)
    factory = ModuleFactory("variation_fails:operator")
    run, _ = replay(factory, load_scenarios(file), "failing?variation=apply-again")
    assert [each.name for each in run.findings] == ["apply-again"]
    assert run.findings[0].message == "the variation could not be checked: ValueError: planted"
