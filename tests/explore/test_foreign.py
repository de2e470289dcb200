"""Exploration of programs: operators in other frameworks, over TLS.

`programs/plain.py` starts fast and stands for all of them; kopf is explored with one family. The planted bugs
of `programs/kopf_shop.py` and `programs/asyncio_shop.py`, for each family, and their corrected twins take
minutes and are explored if KUBEWRIGHT_EXPLORE_PROGRAMS is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubewright.cli.operators.explore import explore_command as command
from kubewright.explore import (
    Exploration,
    ExplorationBudget,
    RunToken,
    Scenario,
    Steps,
    no_duplicate_children,
    scenario,
)
from kubewright.explore.families import enumerate_faults, program_families
from kubewright.explore.faults import REAL, Fault
from kubewright.explore.foreign.activity import usage_of
from kubewright.explore.foreign.exploration import explore_command
from kubewright.explore.foreign.foreign_run import ForeignOptions, run_command
from kubewright.explore.foreign.process import CommandError
from kubewright.explore.foreign.replay import check_command
from kubewright.explore.replay import ReplayError
from kubewright.explore.runs.trace import Trace, TraceEvent

PROGRAMS = Path(__file__).parent / "programs"
ALL_PROGRAMS = bool(os.environ.get("KUBEWRIGHT_EXPLORE_PROGRAMS"))
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


def shop(size: int) -> dict[str, Any]:
    return {
        "apiVersion": "shops.example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"size": size},
    }


def is_handled(obj: Any) -> bool:
    annotations = obj.metadata.annotations if obj is not None else None
    return "kopf.zalando.org/last-handled-configuration" in (annotations or {})


@scenario(
    setup=[CRD], invariants=[no_duplicate_children("ConfigMap")], tolerate=["Shop:metadata.annotations"]
)
async def create_shop(steps: Steps) -> None:
    await steps.apply(shop(1))
    await steps.wait("Shop", "a", condition=is_handled)


@scenario(setup=[CRD], invariants=[no_duplicate_children("ConfigMap")])
async def resize(steps: Steps) -> None:
    await steps.apply(shop(1))
    await steps.wait("Shop", "a", condition="{.status.size}=1")
    await steps.apply(shop(2))
    await steps.wait("Shop", "a", condition="{.status.size}=2")


@scenario(setup=[CRD], invariants=[no_duplicate_children("ConfigMap")])
async def open_shop(steps: Steps) -> None:
    await steps.apply(shop(1))
    await steps.wait("Shop", "a", condition="{.status.size}=1")


@scenario(setup=[CRD])
async def resize_twice(steps: Steps) -> None:
    await open_shop(steps)
    await steps.apply(shop(2))
    await steps.advance("500ms")
    await steps.apply(shop(3))
    await steps.wait("Shop", "a", condition="{.status.size}=3")


@scenario(setup=[CRD])
async def resize_and_delete(steps: Steps) -> None:
    await resize(steps)
    await steps.delete("Shop", "a")
    await steps.wait("ConfigMap", "a", absent=True)


def command_of(program: str, bug: str = "") -> str:
    return f"env BUG={bug} {sys.executable} {PROGRAMS / program}"


SETTLE_SECONDS = (5.0, 90.0)
"""How long a bug is waited for: on a busy machine, a run that ends too early shows something else."""


def plain(bug: str = "", settle: float = SETTLE_SECONDS[-1]) -> ForeignOptions:
    """Return options with which slow runs are not reported."""
    return ForeignOptions(
        command=command_of("plain.py", bug),
        quiet_seconds=0.5,
        start_timeout=SETTLE_SECONDS[-1],
        settle_seconds=settle,
    )


def found_in(result: Exploration) -> list[str]:
    return [f"{','.join(map(str, each.faults))} {each.name}: {each.message}" for each in result.violations]


async def test_program_without_bugs() -> None:
    """The first fault of each family finds nothing."""
    missing = list(program_families())
    for _ in range(3):
        # A fault whose point was not reached is tried again, which takes the place of another one.
        budget = ExplorationBudget(runs=2 + len(missing))
        report = await explore_command(plain(), [resize], families=missing, budget=budget, jobs=3)
        assert found_in(report) == []
        missing = [each for each in report.points if not report.runs_by_family.get(each)]
        if not missing:
            return
    raise AssertionError(f"not explored: {missing}, {report.notes}")


async def test_runs_without_faults_must_end_equally() -> None:
    options = plain("random-name")
    report = await explore_command(options, [open_shop], families=["crash"], jobs=2)
    (found,) = found_in(report)
    assert found.startswith(" final-state: two runs without faults end differently: ConfigMap default/a-")
    assert report.runs == 2


async def test_bugs_of_a_program_are_found() -> None:
    """A fault of a family shows each bug."""
    planted = {
        "stale-list": (open_shop, "stale@w1+5s", "no_duplicate_children: ConfigMap default/a-"),
        "conflict-ignored": (
            resize,
            "error=conflict@w3",
            "final-state: ConfigMap default/a: data.size is '1'",
        ),
        "gives-up": (
            open_shop,
            "lost-response@w1",
            "scenario: wait Shop a until {.status.size}=1: TimeoutError",
        ),
        "watch-ends": (
            open_shop,
            "reset@d2",
            "convergence: the program does not watch shops.shops.example.com",
        ),
    }

    async def check(bug: str, found: Scenario, fault: str, expected: str) -> None:
        reference = await run_command(plain(bug), found)
        assert not reference.findings
        for settle in SETTLE_SECONDS:
            options = plain(bug, settle)
            run = await run_command(options, found, faults=[Fault.parse(fault)], reference=reference)
            findings = [str(each) for each in run.findings]
            if not run.missed and [each[: len(expected)] for each in findings] == [expected]:
                return
        raise AssertionError(f"{bug}: {findings}, not {expected}")

    await asyncio.gather(*(check(bug, *values) for bug, values in planted.items()))


@pytest.mark.skipif(find_spec("kopf") is None, reason="kopf is not installed")
async def test_kopf_operator() -> None:
    options = ForeignOptions(command=command_of("kopf_shop.py", "generated"), quiet_seconds=0.5)
    reference = await run_command(options, create_shop)
    assert not reference.findings
    faults = enumerate_faults(reference, ["crash", "stale", "watch"], REAL)
    assert list(map(str, faults["crash"])) == ["crash-before@w1", "crash-after@w1", "crash-after@w2"]
    assert sorted(map(str, faults["watch"])) == ["expired@d1", "expired@d2", "reset@d1", "reset@d2"]
    fault = Fault.parse("crash-after@w1")
    run = await run_command(options, create_shop, faults=[fault], reference=reference)
    assert not run.missed
    assert [each.name for each in run.faults] == ["create configmaps default/a-*"]
    (finding,) = run.findings
    assert finding.name == "no_duplicate_children"


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug of a program, and the family that finds it."""

    program: str
    bug: str
    family: str
    actions: tuple[str, ...]
    scenario: Scenario = resize

    def __str__(self) -> str:
        return f"{self.program.partition('.')[0]}-{self.bug}-{self.family}"


PLANTED = [
    Planted("kopf_shop.py", "generated", "crash", ("crash-after",), create_shop),
    Planted("kopf_shop.py", "generated", "timeout", ("lost-response",), create_shop),
    Planted("kopf_shop.py", "assumed", "timeout", ("lost-request",), create_shop),
    Planted("kopf_shop.py", "permanent", "errors", ("error=internal", "error=unavailable"), create_shop),
    Planted("kopf_shop.py", "permanent", "admission", ("error=webhook-down", "error=denied"), create_shop),
    Planted("asyncio_shop.py", "conflict-ignored", "conflict", ("error=conflict",)),
    Planted("asyncio_shop.py", "stale-list", "stale", ("stale",)),
    Planted("asyncio_shop.py", "cached-children", "stale", ("hold",)),
    Planted("asyncio_shop.py", "missed-delete", "unobserved", ("gap",), resize_and_delete),
    Planted("asyncio_shop.py", "no-relist", "watch", ("expired", "reset")),
    Planted("asyncio_shop.py", "watch-ends", "watch", ("reset",)),
    Planted("asyncio_shop.py", "unordered", "reorder", ("slow-request", "slow-response"), resize_twice),
]


@pytest.mark.skipif(not ALL_PROGRAMS, reason="takes minutes; set KUBEWRIGHT_EXPLORE_PROGRAMS")
@pytest.mark.parametrize("planted", PLANTED, ids=str)
async def test_planted_bugs_of_frameworks(planted: Planted) -> None:
    """The family finds the bug, and nothing in the twin without it."""
    options = ForeignOptions(
        command=command_of(planted.program, planted.bug), quiet_seconds=1.0, settle_seconds=10.0
    )
    families = [planted.family]
    report = await explore_command(options, [planted.scenario], families=families, jobs=3)
    faults = [str(fault).partition("@")[0] for each in report.violations for fault in each.faults]
    print(
        planted, f"{report.runs} runs, {report.seconds:.0f} s", *found_in(report), *report.notes, sep="\n  "
    )
    assert set(faults) & set(planted.actions), found_in(report)
    twin = replace(options, command=command_of(planted.program), settle_seconds=30.0)
    report = await explore_command(twin, [planted.scenario], families=families, jobs=3)
    print(f"  twin: {report.runs} runs, {report.seconds:.0f} s", *report.notes, sep="\n  ")
    assert found_in(report) == []


def test_points_are_found_again_in_another_order() -> None:
    def names_of(generated: str, texts: list[str]) -> dict[str, str]:
        trace = Trace()
        trace.add_generated(generated, "a-")
        for number, text in enumerate(texts):
            trace.append(TraceEvent(number, 0.0, 0, 0, "", "write", text))
        return {each.name: each.point for each in trace}

    texts = [
        "create configmaps default/a-*",
        "update configmaps default/a-x7k2p",
        "update configmaps default/b",
    ]
    assert names_of("a-x7k2p", texts) == {
        "create configmaps default/a-*": "w1",
        "update configmaps default/a-*": "w2",
        "update configmaps default/b": "w3",
    }
    texts = [
        "update configmaps default/b",
        "update configmaps default/a-9qd4z",
        "update configmaps default/b",
    ]
    assert names_of("a-9qd4z", texts) == {
        "update configmaps default/b": "w1",
        "update configmaps default/a-*": "w2",
        "update configmaps default/b (2)": "w3",
    }


def test_replay_tokens_have_the_point() -> None:
    text = "resize?faults=crash-after@w3&seed=0&skip=1#update configmaps default/a (2)"
    token = RunToken.parse(text)
    assert [each.name for each in token.faults] == ["update configmaps default/a (2)"]
    assert token.faults == (Fault.parse("crash-after@w3"),)
    assert str(token) == text
    assert RunToken.parse("resize?faults=crash-after@w3").faults[0].name == ""
    with pytest.raises(ReplayError, match="it has not one point for each fault"):
        RunToken.parse("resize?faults=crash-after@w3#a;b")


def test_replay_finds_the_point_by_its_request() -> None:
    token = "resize?faults=crash-after@w99&seed=0&skip=2,3#patch shops.shops.example.com default/a"
    for settle in SETTLE_SECONDS:
        with pytest.raises(AssertionError) as caught:
            check_command(plain("status-first", settle), [resize], token)
        if "final-state: ConfigMap default/a does not exist" in str(caught.value):
            return
    raise caught.value


async def test_commands_that_do_not_run() -> None:
    async def error_of(command: str, **settings: Any) -> str:
        with pytest.raises(CommandError) as caught:
            await run_command(ForeignOptions(command=command, **settings), resize)
        return str(caught.value)

    assert (
        await error_of("/no/such/program --flag") == "cannot run /no/such/program: No such file or directory"
    )
    assert await error_of("/etc/passwd") == "cannot run /etc/passwd: Permission denied"
    assert await error_of("kopf 'run") == 'cannot parse the command "kopf \'run": No closing quotation'
    assert await error_of("sh -c 'echo no configuration; exit 3'") == (
        "sh -c 'echo no configuration; exit 3' ended with exit code 3 before the first step; its output is:\n"
        "no configuration"
    )
    assert "sleep 60 sent no request to the API server within 0.5 s; it must use the kubeconfig" in (
        await error_of("sleep 60", start_timeout=0.5)
    )


def process_ids(text: str) -> list[int]:
    """Return the processes with a text in their command line."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text in each.joinpath("cmdline").read_text():
                found.append(int(each.name))
    return found


def wait_for_process(text: str, *, exists: bool) -> None:
    deadline = time.monotonic() + 120
    while bool(process_ids(text)) != exists:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_interrupt_ends_the_program(tmp_path: Path) -> None:
    """SIGINT ends the exploration with what was found so far, and leaves no process."""
    file = tmp_path / "create.yaml"
    file.write_text("steps:\n  - advance: 1s\n")
    marker = f"86400.{os.getpid()}"

    def interrupt() -> None:
        wait_for_process(f"sleep\0{marker}", exists=True)
        os.kill(os.getpid(), signal.SIGINT)

    arguments = ["--command", f"sh -c 'sleep {marker}; true'", "--scenario", str(file), "--jobs", "2"]
    thread = threading.Thread(target=interrupt)
    thread.start()
    result = CliRunner().invoke(command, arguments)
    thread.join()
    assert result.exit_code == 3, result.output
    assert "the exploration was interrupted" in result.output
    assert "no violations in 2 runs" in result.output
    wait_for_process(f"sleep\0{marker}", exists=False)


def test_runnable_processes_are_not_idle() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        try:
            deadline = time.monotonic() + 120
            while not (usage_of(busy.pid).is_runnable and usage_of(busy.pid).cpu_seconds):
                assert time.monotonic() < deadline
        finally:
            busy.kill()
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            deadline = time.monotonic() + 120
            while usage_of(idle.pid).is_runnable:
                assert time.monotonic() < deadline
        finally:
            idle.kill()


def test_command_line(tmp_path: Path) -> None:
    file = tmp_path / "create.yaml"
    steps = [
        {"apply": shop(1)},
        {"wait": {"kind": "Shop", "name": "a", "condition": "{.status.size}=1"}},
        {"advance": "1h"},  # ends when the program is idle
    ]
    file.write_text(json.dumps({"setup": [CRD], "steps": steps}))
    runner = CliRunner()
    arguments = ["--command", "/no/such/program", "--scenario", str(file)]
    result = runner.invoke(command, [*arguments, "--family", "clock"])
    assert result.exit_code == 2
    assert "needs control of the operator's event loop" in result.output
    result = runner.invoke(command, [*arguments, "--specs"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        "Error: --specs cannot be used with --command",
    )
    result = runner.invoke(command, arguments)
    assert result.exit_code == 1
    assert "Error: cannot run /no/such/program: No such file or directory\n" in result.output
    arguments[1] = command_of("plain.py", "status-first")
    arguments += ["--quiet-seconds", "0.5", "--tolerate", "Shop:metadata.labels"]
    arguments += ["--family", "crash", "--budget-runs", "5"]
    for settle in SETTLE_SECONDS:
        folder = tmp_path / f"{settle:g}"
        saved, page, data = folder / "saved", folder / "report.html", folder / "report.json"
        folder.mkdir()
        files = ["--save", str(saved), "--html", str(page), "--json", str(data)]
        result = runner.invoke(command, [*arguments, *files, "--settle-seconds", f"{settle:g}"])
        assert result.exit_code == 1, result.output
        if "problem:  ConfigMap default/a does not exist" in result.output:
            break
    assert "problem:  ConfigMap default/a does not exist" in result.output
    assert "WROTE operator-1#1 is killed" in result.output
    flags = f"--tolerate Shop:metadata.labels --quiet-seconds 0.5 --settle-seconds {settle:g}"
    assert f"{flags} --scenario {file} --replay 'create?faults=crash-after@w1&seed=0" in result.output
    assert "#patch shops.shops.example.com default/a'" in result.output
    assert "tolerances=('Shop:metadata.labels',), " in result.output
    (violation, *_) = json.loads(data.read_text())["violations"]
    assert violation["faults"] == ["crash-after@w1"]
    assert "ConfigMap default/a does not exist" in page.read_text()
    assert (saved / "01-final-state.log").exists()
    assert json.loads((saved / "01-final-state.json").read_text())["finding"].startswith(
        "final-state: ConfigMap"
    )
