"""Exploration of an operator written with kopf, over TLS."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kubewright.explore import Scenario, Steps, no_duplicate_children, scenario
from kubewright.explore.foreign.exploration import explore_command
from kubewright.explore.foreign.foreign_run import ForeignOptions, run_command
from kubewright.explore.foreign.process import CommandError

if find_spec("kopf") is None:
    pytest.skip("kopf is not installed", allow_module_level=True)
OPERATOR = Path(__file__).parent / "kopf_operator.py"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.shops.example.com"},
    "spec": {
        "group": "shops.example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
SHOP = {
    "apiVersion": "shops.example.com/v1",
    "kind": "Shop",
    "metadata": {"name": "a", "namespace": "default"},
}


def is_handled(obj: Any) -> bool:
    return obj is not None and "kopf.zalando.org/last-handled-configuration" in (
        obj.metadata.annotations or {}
    )


@scenario(
    setup=[CRD], invariants=[no_duplicate_children("ConfigMap")], tolerate=["Shop:metadata.annotations"]
)
async def create_shop(steps: Steps) -> None:
    await steps.apply(dict(SHOP))
    await steps.wait("Shop", "a", condition=is_handled)


def options(*, fixed: bool) -> ForeignOptions:
    command = f"env SHOP_FIXED={int(fixed)} {sys.executable} {OPERATOR}"
    return ForeignOptions(command=command, quiet_seconds=1.0)


async def explore_shop(found: Scenario, *, fixed: bool, runs: int) -> list[str]:
    report = await explore_command(options(fixed=fixed), [found], families=["crash"], runs=runs)
    assert report.families[0].points >= 4, report.violations
    return [f"{each.rule} {','.join(each.faults)}: {each.problems[0]}" for each in report.violations]


async def test_kopf_operator() -> None:
    (violation, *_) = await explore_shop(create_shop, fixed=False, runs=3)
    assert violation.startswith("no_duplicate_children crash-after@w1: ConfigMap default/a-")
    assert await explore_shop(create_shop, fixed=True, runs=2) == []


async def test_a_command_that_does_not_run() -> None:
    with pytest.raises(CommandError, match="cannot run /no/such/program: No such file or directory"):
        await run_command(ForeignOptions(command="/no/such/program --flag"), create_shop)
    with pytest.raises(CommandError, match=r"does not watch anything after .*\n.*no configuration"):
        await run_command(ForeignOptions(command="echo no configuration"), create_shop)


def test_the_command_line_rejects_what_it_cannot_do(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from kubewright.cli.explore import explore_command as command

    file = tmp_path / "create.yaml"
    file.write_text("steps:\n  - advance: 1s\n")
    runner = CliRunner()
    arguments = ["--command", "/no/such/program", "--scenario", str(file)]
    result = runner.invoke(command, [*arguments, "--family", "clock"])
    assert result.exit_code == 2
    assert "needs control of the operator's event loop" in result.output
    result = runner.invoke(command, arguments)
    assert result.exit_code == 1
    assert "Error: cannot run /no/such/program: No such file or directory\n" in result.output
