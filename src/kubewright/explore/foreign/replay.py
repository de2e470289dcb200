"""Replay of a run of a program: tokens, files, and `check_command` for tests.

    create?faults=crash-after@w1&seed=0#create configmaps default/a

The part after `#` is what happens at the point of the fault, because points of programs have no fixed
numbers. Without it, the point is that of a new reference run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from kubewright.explore.faults import Fault
from kubewright.explore.replay import Replay, ReplayError, RunToken, find_scenario

from .foreign_run import ForeignOptions, run_command
from .points import PointKey

if TYPE_CHECKING:
    from kubewright.explore.scenarios import Scenario

    from .result import ProgramRun


@dataclass(frozen=True, slots=True)
class CommandToken:
    """What decides a run of a program."""

    run: RunToken
    keys: tuple[PointKey, ...] = ()
    """The points of the faults."""

    @classmethod
    def of(cls, run: ProgramRun) -> CommandToken:
        """Return the token of a run."""
        return cls(RunToken(run.scenario, run.faults, skip=run.skipped_steps), run.keys)

    @classmethod
    def parse(cls, text: str) -> CommandToken:
        """Return the token of a text; raise `ReplayError`."""
        token, hash_, points = text.strip().partition("#")
        run = RunToken.parse(token)
        keys = [unquote(each) for each in points.split(";")] if hash_ else []
        if keys and len(keys) != len(run.faults):
            raise ReplayError(f"{text!r} is not a replay token: it has not one point for each fault after #")
        return cls(
            run,
            tuple(
                PointKey.parse(fault.point[0], key) for fault, key in zip(run.faults, keys, strict=bool(keys))
            ),
        )

    def __str__(self) -> str:
        points = ";".join(quote(str(each), safe=" /*().:") for each in self.keys)
        return f"{self.run}#{points}" if points else str(self.run)


def changed_options(options: ForeignOptions) -> dict[str, Any]:
    """Return the options that decide a run and do not have their default values."""
    default = ForeignOptions(command=options.command)
    names = ("quiet_seconds", "settle_seconds", "tolerances")
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value != getattr(default, name)}


def read_token(text: str) -> CommandToken:
    """Return the token of a text, or of a file that `write_replay` has written; raise `ReplayError`."""
    is_file = Path(text).is_file()
    return CommandToken.parse(Replay.read(text).token if is_file else text)


def write_replay(path: Path, run: ProgramRun, *, command: str, scenario_file: str, finding: str) -> None:
    """Write a replay file, and the output of the program beside it."""
    data = {
        "version": 1,
        "token": str(CommandToken.of(run)),
        "command": command,
        "scenario_file": scenario_file,
        "finding": finding,
    }
    path.write_text(json.dumps(data, indent=2) + "\n")
    path.with_suffix(".log").write_text(run.output)


def generated_test(run: ProgramRun, options: ForeignOptions, *, scenario_file: str, finding: str) -> str:
    """Return the source of a pytest test that replays a run."""
    values = "".join(f", {name}={value!r}" for name, value in changed_options(options).items())
    faults = "_".join(each.action for each in run.faults) or "no_fault"
    name = f"{run.scenario}_{finding}_after_{faults}".lower()
    name = "".join(character if character.isalnum() else "_" for character in name)
    lines = [
        "from kubewright.explore import ForeignOptions, check_command, load_scenarios",
        "",
        "",
        f"def test_{name}() -> None:",
        f"    options = ForeignOptions(command={json.dumps(options.command)}{values})",
        f"    scenarios = load_scenarios({json.dumps(scenario_file)})",
        f"    check_command(options, scenarios, {json.dumps(str(CommandToken.of(run)))})",
    ]
    return "\n".join(lines) + "\n"


async def replay_run(
    options: ForeignOptions, scenarios: Sequence[Scenario], token: CommandToken
) -> tuple[ProgramRun, ProgramRun, Scenario]:
    """Repeat the run of a token; return it, its reference run and the scenario."""
    wanted = token.run
    scenario = find_scenario(scenarios, wanted.scenario)
    reference = await run_command(options, scenario, skip=wanted.skip)
    if not wanted.faults or reference.findings:
        return reference, reference, scenario
    if not token.keys:
        _check_points(wanted.faults, reference)
    run = await run_command(
        options, scenario, faults=wanted.faults, keys=token.keys, reference=reference, skip=wanted.skip
    )
    return run, reference, scenario


def _check_points(faults: Sequence[Fault], reference: ProgramRun) -> None:
    unknown = [each for each in faults if each.point not in reference.names.values()]
    if unknown:
        raise ReplayError(f"the reference run has no point {unknown[0].point}")


def check_command(options: ForeignOptions, scenarios: Sequence[Scenario], token: str) -> None:
    """Repeat the run of a token, and raise `AssertionError` with what it violates."""
    run, _, _ = asyncio.run(replay_run(options, scenarios, CommandToken.parse(token)))
    if not run.ok:
        raise AssertionError("; ".join(map(str, run.findings)))


__all__ = [
    "CommandToken",
    "changed_options",
    "check_command",
    "generated_test",
    "read_token",
    "replay_run",
    "write_replay",
]
