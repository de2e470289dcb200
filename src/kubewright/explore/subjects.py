"""What was explored, as commands and generated tests name it: an operator of Kubewright, or a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .replay import Replay

if TYPE_CHECKING:
    from .exploration import Violation
    from .foreign.foreign_run import ForeignOptions
    from .replay import RunToken


class Subject(Protocol):
    """What was explored."""

    @property
    def name(self) -> str:
        """The operator or command."""

    def arguments(self, tolerances: Sequence[str]) -> list[str]:
        """Return the arguments of `kubewright explore`, without scenarios."""

    def test_lines(self, token: RunToken, tolerances: Sequence[str]) -> tuple[str, list[str]]:
        """Return the names that a test imports besides `load_scenarios`, and the lines that replay a run."""

    def replay(self, violation: Violation, scenario_file: str) -> Replay:
        """Return the content of a replay file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSubject:
    """An operator of Kubewright: `module:operator`."""

    name: str
    old_operator: str = ""
    """The version before an upgrade."""

    def arguments(self, tolerances: Sequence[str]) -> list[str]:
        """Return the arguments of `kubewright explore`."""
        old = ["--upgrade-from", self.old_operator] if self.old_operator else []
        return [self.name, *old, *_tolerance_flags(tolerances)]

    def test_lines(self, token: RunToken, tolerances: Sequence[str]) -> tuple[str, list[str]]:
        """Return the imports and the lines of a test."""
        module, _, attribute = self.name.partition(":")
        values = f", tolerances={tuple(tolerances)!r}" if tolerances else ""
        if any(each.action == "upgrade" for each in token.faults):
            values += f", old_factory=ModuleFactory({json.dumps(self.old_operator)})"
        factory = f'ModuleFactory("{module}:{attribute or "operator"}")'
        line = f"check_replay({factory}, scenarios, {json.dumps(str(token))}{values})"
        return "ModuleFactory, check_replay", [line]

    def replay(self, violation: Violation, scenario_file: str) -> Replay:
        """Return the content of a replay file."""
        return Replay(
            token=str(violation.token),
            operator=self.name,
            old_operator=self.old_operator,
            scenario_file=scenario_file,
            finding=f"{violation.name}: {violation.message}",
            trace_digest=violation.run.trace.digest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSubject:
    """A program that is run as a process."""

    options: ForeignOptions

    @property
    def name(self) -> str:
        """The command."""
        return self.options.command

    def _changed(self) -> dict[str, Any]:
        """Return the options that decide a run and do not have their default values."""
        from .foreign.foreign_run import ForeignOptions

        default = ForeignOptions(command=self.name)
        found = {name: getattr(self.options, name) for name in ("quiet_seconds", "settle_seconds")}
        return {name: value for name, value in found.items() if value != getattr(default, name)}

    def arguments(self, tolerances: Sequence[str]) -> list[str]:
        """Return the arguments of `kubewright explore`."""
        flags = _tolerance_flags(tolerances)
        for name, value in self._changed().items():
            flags += [f"--{name.replace('_', '-')}", f"{value:g}"]
        return ["--command", self.name, *flags]

    def test_lines(self, token: RunToken, tolerances: Sequence[str]) -> tuple[str, list[str]]:
        """Return the imports and the lines of a test."""
        changed = {**({"tolerances": tuple(tolerances)} if tolerances else {}), **self._changed()}
        values = "".join(f", {name}={value!r}" for name, value in changed.items())
        return "ForeignOptions, check_command", [
            f"options = ForeignOptions(command={json.dumps(self.name)}{values})",
            f"check_command(options, scenarios, {json.dumps(str(token))})",
        ]

    def replay(self, violation: Violation, scenario_file: str) -> Replay:
        """Return the content of a replay file; the trace of a program is not the same each time."""
        return Replay(
            token=str(violation.token),
            command=self.name,
            scenario_file=scenario_file,
            finding=f"{violation.name}: {violation.message}",
        )


def replay_command(
    subject: Subject, token: RunToken, *, scenario_file: str, tolerances: Sequence[str]
) -> str:
    """Return the command that replays a run."""
    arguments = [*subject.arguments(tolerances), "--scenario", scenario_file]
    return f"kubewright explore {shlex.join(arguments)} --replay '{token}'"


def generated_test(
    subject: Subject, token: RunToken, *, scenario_file: str, finding: str, tolerances: Sequence[str] = ()
) -> str:
    """Return the source of a pytest test that replays a run."""
    faults = "_".join(each.action for each in token.faults) or "no_fault"
    name = f"{token.scenario}_{finding}_after_{faults}".lower()
    name = "".join(character if character.isalnum() else "_" for character in name)
    imports, body = subject.test_lines(token, tolerances)
    lines = [
        f"from kubewright.explore import {imports}, load_scenarios",
        "",
        "",
        f"def test_{name}() -> None:",
        f"    scenarios = load_scenarios({json.dumps(scenario_file)})",
        *(f"    {each}" for each in body),
    ]
    return "\n".join(lines) + "\n"


def _tolerance_flags(tolerances: Sequence[str]) -> list[str]:
    return [part for each in tolerances for part in ("--tolerate", each)]
