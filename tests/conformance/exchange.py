"""Recordings as readable files, to exchange them: `cases/*.yaml` and `golden/*.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from tests.conformance.cases import Case, load_yaml
from tests.conformance.recordings import Recording


def export_files(recordings: Iterable[Recording], folder: Path) -> int:
    """Write `cases/<category>/<case>.yaml` and `golden/<category>/<case>.json`; return how many cases."""
    count = 0
    for recording in recordings:
        case = folder / "cases" / f"{recording.case.name}.yaml"
        golden = folder / "golden" / f"{recording.case.name}.json"
        for path in (case, golden):
            path.parent.mkdir(parents=True, exist_ok=True)
        case.write_text(case_text(recording.case))
        golden.write_text(
            json.dumps(recording.responses, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        )
        count += 1
    return count


def import_files(folder: Path) -> list[Recording]:
    """Read cases and goldens that `export_files` or a compatible tool wrote."""
    recordings = []
    for path in sorted((folder / "cases").glob("*/*.yaml")):
        golden = folder / "golden" / path.parent.name / f"{path.stem}.json"
        if golden.exists():
            case = Case(f"{path.parent.name}/{path.stem}", load_yaml(path.read_text()))
            recordings.append(Recording(case, json.loads(golden.read_text())))
    return recordings


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def case_text(case: Case) -> str:
    """A case as YAML."""
    text: str = yaml.dump(
        case.document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
    )
    return text
