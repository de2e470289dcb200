"""Replay tokens: one line that identifies a run, and files with it.

    resize?faults=crash-after@w3&seed=0
    resize?faults=pause@w2%2B20s&seed=0&replicas=2&skip=1,3

A token has the name of the scenario, the faults and what else decides a run. Together with the same
operator, scenario and version of Kubewright it gives the same trace. A replay file is JSON with the token,
the reference of the operator, the file of the scenario, what was violated, and a checksum of the trace.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote

from .faults import Fault, FaultError, parse_faults

if TYPE_CHECKING:
    from .scenarios import Scenario


class ReplayError(ValueError):
    """A token or replay file is not valid; the message says what is expected."""


@dataclass(frozen=True, slots=True)
class RunToken:
    """What decides a run of a scenario."""

    scenario: str
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    replicas: int = 1
    skip: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> RunToken:
        """Return the token of a text; raise `ReplayError`."""
        name, _, query = text.strip().partition("?")
        values = dict(parse_qsl(query, keep_blank_values=True))
        unknown = set(values) - {"faults", "seed", "replicas", "skip"}
        if not name or unknown:
            what = f"unknown fields {', '.join(sorted(unknown))}" if unknown else "the scenario is missing"
            raise ReplayError(f"{text!r} is not a replay token ({what}); expected SCENARIO?faults=...&seed=0")
        try:
            return cls(
                unquote(name),
                parse_faults(values.get("faults", "")),
                int(values.get("seed", 0)),
                int(values.get("replicas", 1)),
                tuple(int(each) for each in values.get("skip", "").split(",") if each),
            )
        except (FaultError, ValueError) as error:
            raise ReplayError(f"{text!r} is not a replay token: {error}") from None

    def __str__(self) -> str:
        parts = []
        if self.faults:
            parts.append(f"faults={quote(','.join(map(str, self.faults)), safe='@=,.')}")
        parts.append(f"seed={self.seed}")
        if self.replicas != 1:
            parts.append(f"replicas={self.replicas}")
        if self.skip:
            parts.append(f"skip={','.join(map(str, self.skip))}")
        return f"{quote(self.scenario, safe=' /')}?{'&'.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The content of a replay file."""

    token: str
    operator: str = ""
    """`module:operator`."""
    old_operator: str = ""
    """`module:operator` of the version before an upgrade."""
    scenario_file: str = ""
    finding: str = ""
    """What was violated."""
    trace_digest: str = ""
    version: int = 1

    def write(self, path: str | Path) -> None:
        """Write the file."""
        Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> Replay:
        """Read a file; raise `ReplayError`."""
        try:
            data: Any = json.loads(Path(path).read_text())
        except OSError as error:
            raise ReplayError(f"cannot read {path}: {error.strerror}") from None
        except ValueError as error:
            raise ReplayError(f"{path} is not a replay file: {error}") from None
        if not isinstance(data, dict) or not isinstance(data.get("token"), str) or data.get("version") != 1:
            raise ReplayError(f"{path} is not a replay file of version 1")
        known = {
            name: str(data[name]) for name in cls.__dataclass_fields__ if name in data and name != "version"
        }
        return cls(**known)  # type: ignore[arg-type] # `version` is the only field that is not a text


def find_scenario(scenarios: Sequence[Scenario], name: str) -> Scenario:
    """Return the scenario of a token; raises `ReplayError`."""
    for each in scenarios:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in scenarios)
    raise ReplayError(f"scenario {name!r} not found; the files have {names}")


def generated_test(token: RunToken, *, operator: str, scenario_file: str, finding: str) -> str:
    """Return the source of a pytest test that replays a run."""
    name = "".join(character if character.isalnum() else "_" for character in f"{token.scenario}_{finding}")
    faults = "_".join(each.action.replace("-", "_") for each in token.faults)
    module, _, attribute = operator.partition(":")
    lines = [
        "from kubewright.explore import ModuleFactory, check_replay, load_scenarios",
        "",
        "",
        f"def test_{name.lower()}_after_{faults or 'no_fault'}() -> None:",
        f'    scenarios = load_scenarios("{scenario_file}")',
        f'    check_replay(ModuleFactory("{module}:{attribute or "operator"}"), scenarios, "{token}")',
    ]
    return "\n".join(lines) + "\n"


__all__ = ["Replay", "ReplayError", "RunToken", "generated_test"]
