"""Replay tokens: one line that identifies a run, and files with it.

    resize?faults=crash-after@w3&seed=0#create configmaps default/a
    resize?faults=pause@w2%2B20s&seed=0&replicas=2&skip=1,3#update configmaps default/a (2)

A token has the name of the scenario, the faults and what else decides a run; the part after `#` are the names
of their points. A run finds a point by its name, which most changes of operator and scenario leave as it is,
and without names by its number. Together with the same operator, scenario and version of Kubewright a token
gives the same trace. A replay file is JSON with the token,
the reference of the operator, the file of the scenario, what was violated, and a checksum of the trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, unquote

from .faults import Fault, FaultError, parse_faults

if TYPE_CHECKING:
    from .runs.run_result import Run
    from .scenarios.scenarios import Scenario


_ORDINAL = re.compile(r" \(\d+\)$")
_STORING: Final = ("create", "update", "patch")


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
    variation: str = ""

    @classmethod
    def parse(cls, text: str) -> RunToken:
        """Return the token of a text; raise `ReplayError`."""
        token, hash_, points = text.strip().partition("#")
        name, _, query = token.partition("?")
        values = dict(parse_qsl(query, keep_blank_values=True))
        unknown = set(values) - {"faults", "seed", "replicas", "skip", "variation"}
        if not name or unknown:
            what = f"unknown fields {', '.join(sorted(unknown))}" if unknown else "the scenario is missing"
            raise ReplayError(f"{text!r} is not a replay token ({what}); expected SCENARIO?faults=...&seed=0")
        names = [unquote(each) for each in points.split(";")] if hash_ else []
        try:
            faults = parse_faults(values.get("faults", ""))
            if names and len(names) != len(faults):
                raise ReplayError("it has not one point for each fault after #")
            return cls(
                unquote(name),
                tuple(map(_named, faults, names)) if names else faults,
                int(values.get("seed", 0)),
                int(values.get("replicas", 1)),
                tuple(int(each) for each in values.get("skip", "").split(",") if each),
                values.get("variation", ""),
            )
        except (FaultError, ValueError) as error:
            raise ReplayError(f"{text!r} is not a replay token: {error}") from None

    def __str__(self) -> str:
        parts = []
        if self.faults:
            parts.append(f"faults={quote(','.join(map(str, self.faults)), safe='@=,.')}")
        if self.variation:
            parts.append(f"variation={quote(self.variation, safe='./:')}")
        parts.append(f"seed={self.seed}")
        if self.replicas != 1:
            parts.append(f"replicas={self.replicas}")
        if self.skip:
            parts.append(f"skip={','.join(map(str, self.skip))}")
        names = ";".join(quote(each.name, safe=" /*().:") for each in self.faults)
        points = f"#{names}" if all(each.name for each in self.faults) and names else ""
        return f"{quote(self.scenario, safe=' /')}?{'&'.join(parts)}{points}"


def _named(fault: Fault, name: str) -> Fault:
    return replace(fault, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The content of a replay file."""

    token: str
    operator: str = ""
    """`module:operator`."""
    command: str = ""
    """Command of a program that is not an operator of Kubewright."""
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


def located(faults: Sequence[Fault], reference: Run) -> tuple[Fault, ...]:
    """Return the faults of a token at the points of a reference run.

    An operator that was fixed may apply an object that it created before. A single fault is then at the first
    write of the same object; the point of one of several faults depends on the others.
    """
    if len(faults) != 1 or not faults[0].name or faults[0].event_in(reference.trace) is not None:
        return tuple(faults)
    verb, _, written = _ORDINAL.sub("", faults[0].name).partition(" ")
    if verb in _STORING:
        for event in reference.trace.points("write"):
            other, _, subject = _ORDINAL.sub("", event.name).partition(" ")
            if other in _STORING and subject == written:
                return (replace(faults[0], name=event.name),)
    return tuple(faults)


def check_reached(run: Run, reference: Run) -> None:
    """Raise `ReplayError` if a run has not reached the points of all its faults; say what changed."""
    if not run.missed:
        return
    fault = run.missed[0]
    other = next((each for each in reference.trace if each.point == fault.point), None)
    count = reference.trace.counts.get(fault.point[0], 0)
    if other is not None and fault.name:
        now = f"{fault.point} is {other.name!r} now"
    elif count:
        now = f"the reference run has {fault.point[0]}1 to {fault.point[0]}{count}"
    else:
        now = "the reference run has no points of that kind"
    what = f"{fault.name!r}, the point of {fault}," if fault.name else f"the point of {fault}"
    raise ReplayError(
        f"{what} was not reached: {now}; operator, scenario or Kubewright have changed since then, so "
        "explore again"
    )
