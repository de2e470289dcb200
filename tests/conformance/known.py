"""Known differences between this project and kube-apiserver: `known_differences.yaml`.

    - reason: why the step differs, and what will remove the entry
      steps:
        category/case: [0, 3]

`known_differences-<version>.yaml` lists steps that differ in one version of Kubernetes only.

Steps are numbered from 0, as in recordings. An entry whose step does not differ any more is reported as
stale; `check --prune-known` removes it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import yaml
from tests.conformance.cases import HERE
from tests.conformance.recordings import recorded_servers

KNOWN = HERE / "known_differences.yaml"
_HEADER = """\
# Steps whose response differs from kube-apiserver's at L2, each with the reason.
# `python -m tests.conformance check --prune-known` removes the steps that do not differ any more.
"""

StepID = tuple[str, int]
"""Name of the case and number of the step."""


def known_file(version: str) -> Path:
    """The file of a version."""
    return KNOWN.with_name(f"{KNOWN.stem}-{version}.yaml")


def known_differences(version: str = "") -> dict[StepID, str]:
    """Reasons by step for a version, by default the newest."""
    return read_known() | read_known(known_file(version or next(iter(recorded_servers()))))


def read_known(path: Path = KNOWN) -> dict[StepID, str]:
    """Reasons by step."""
    entries = (yaml.safe_load(path.read_text()) if path.exists() else None) or []
    known: dict[StepID, str] = {}
    for entry in entries:
        if not str(entry.get("reason") or "").strip():
            raise ValueError(f"{path.name}: an entry has no reason: {entry}")
        for case, steps in entry["steps"].items():
            known |= {(case, step): entry["reason"] for step in steps}
    return known


def write_known(known: dict[StepID, str], path: Path = KNOWN) -> None:
    """Write the list, grouped by reason."""
    groups: dict[str, dict[str, list[int]]] = {}
    for (case, step), reason in sorted(known.items(), key=lambda item: (item[1], item[0])):
        groups.setdefault(reason, {}).setdefault(case, []).append(step)
    lines = [_HEADER]
    for reason, cases in groups.items():
        lines.append(yaml.safe_dump([{"reason": reason}], width=10_000, allow_unicode=True))
        lines.append("  steps:\n")
        lines += [f"    {case}: {steps}\n" for case, steps in cases.items()]
    path.write_text("".join(lines) if groups else _HEADER + "[]\n")


def prune(known: dict[StepID, str], stale: Collection[StepID]) -> dict[StepID, str]:
    """The list without these steps."""
    return {step: reason for step, reason in known.items() if step not in stale}
