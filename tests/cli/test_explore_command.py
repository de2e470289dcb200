"""`kubewright explore`: violations, replay files, reports and wrong usage."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright.cli.operators.explore import explore_command

OPERATOR = '''
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap


class PairSpec(Spec):
    value: str = ""


@resource(group="cli.example.com", version="v1")
class Pair(CustomResource[PairSpec, Status]):
    """Two config maps."""


operator = Operator("pairs")


@operator.reconcile(Pair, owns=(ConfigMap,))
async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
    client = ctx.client
    if await client.uncached.get_or_none(ConfigMap, f"{pair.name}-left", namespace=pair.namespace) is None:
        for suffix in ("left", "right"):
            meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
            await client.create(ctx.own(ConfigMap(metadata=meta)))
'''

SCENARIO = """
name: pair
quietSeconds: 10
steps:
  - apply: {apiVersion: cli.example.com/v1, kind: Pair, metadata: {name: a}, spec: {value: x}}
  - advance: 1m
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pair_operator.py").write_text(OPERATOR)
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("pair_operator", None)


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(explore_command, list(arguments))
    return result.exit_code, result.output


def test_violations_are_reported_saved_and_replayed(project: Path) -> None:
    code, output = invoke(
        "pair_operator:operator",
        *("--scenario", "pair.yaml", "--family", "crash", "--coverage"),
        *("--save", "replays", "--json", "report.json", "--html", "report.html"),
    )
    assert code == 1, output
    assert "ConfigMap default/a-right does not exist" in output
    assert "--replay 'pair?faults=crash-after@w1&seed=0" in output
    assert "pair_operator.py: " in output
    report = json.loads((project / "report.json").read_text())
    assert report["violations"][0]["faults"] == ["crash-after@w1"]
    assert "a-right" in (project / "report.html").read_text()
    (saved,) = (project / "replays").iterdir()
    assert json.loads(saved.read_text())["operator"] == "pair_operator:operator"
    code, output = invoke("--replay", str(saved))
    assert code == 1, output
    assert "a-right does not exist" in output
    assert "the trace differs" not in output


def test_wrong_usage_is_explained(project: Path) -> None:
    assert "no scenarios" in invoke("pair_operator:operator")[1]
    assert "the operator is missing" in invoke("--scenario", "pair.yaml")[1]
    code, output = invoke("pair_operator:missing", "--scenario", "pair.yaml")
    assert code == 1
    assert "has no operator named 'missing'" in output
    code, output = invoke("pair_operator:operator", "--scenario", "pair.yaml", "--family", "earthquake")
    assert code == 1
    assert "unknown fault families earthquake" in output
    code, output = invoke("pair_operator:operator", "--scenario", "pair.yaml", "--replay", "other?seed=0")
    assert code == 1
    assert "scenario 'other' not found; the files have pair" in output
