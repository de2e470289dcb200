"""Recordings: cases with the responses of the reference server, one compressed file per category.

`recordings/<category>.json.xz` holds a JSON list of `{"name", "case", "responses"}`, sorted by name. A file
is written only if its content changes, with fixed compression settings, so its bytes are deterministic.
`recordings/index.json` lists the server version and the number of cases and steps per category.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.conformance.cases import HERE, Case, load_yaml
from tests.conformance.compare import Record

RECORDINGS = HERE / "recordings"
_INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Recording:
    """A case and the responses of the reference server to its steps."""

    case: Case
    responses: list[Record]


@dataclass(frozen=True, slots=True)
class CategoryIndex:
    """Size of one category."""

    cases: int
    steps: int


def read_index(root: Path = RECORDINGS) -> dict[str, CategoryIndex]:
    """Sizes of the categories, without reading the recordings."""
    path = root / _INDEX
    if not path.exists():
        return {}
    categories = json.loads(path.read_text())["categories"]
    return {name: CategoryIndex(**counts) for name, counts in categories.items()}


def read_category(category: str, root: Path = RECORDINGS) -> list[Recording]:
    """Read the recordings of one category."""
    path = _file(root, category)
    if not path.exists():
        return []
    entries = json.loads(lzma.decompress(path.read_bytes()))
    return [Recording(Case(entry["name"], entry["case"]), entry["responses"]) for entry in entries]


def read_all(categories: Iterable[str] = (), root: Path = RECORDINGS) -> list[Recording]:
    """Read the recordings of these categories, or of all."""
    names = sorted(categories) or sorted(path.name.partition(".")[0] for path in root.glob("*.json.xz"))
    return [recording for name in names for recording in read_category(name, root)]


def write(recordings: Iterable[Recording], server: str, root: Path = RECORDINGS) -> None:
    """Replace or add recordings, and update the index."""
    changed: dict[str, list[Recording]] = {}
    for recording in recordings:
        changed.setdefault(recording.case.category, []).append(recording)
    for category, added in changed.items():
        merged = {each.case.name: each for each in read_category(category, root)}
        merged |= {each.case.name: each for each in added}
        _write_category(category, merged.values(), root)
    _write_index(server, root)


def remove(names: Iterable[str], root: Path = RECORDINGS) -> None:
    """Delete recordings of cases that no longer exist."""
    removed = set(names)
    for category in {name.partition("/")[0] for name in removed}:
        kept = [each for each in read_category(category, root) if each.case.name not in removed]
        _write_category(category, kept, root)


def _write_category(category: str, recordings: Iterable[Recording], root: Path) -> None:
    entries = [
        {"name": each.case.name, "case": each.case.document, "responses": each.responses}
        for each in sorted(recordings, key=lambda each: each.case.name)
    ]
    # The order of keys in a case is kept: it is the order in which fields are sent.
    content = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    path = _file(root, category)
    if not entries:
        path.unlink(missing_ok=True)
        return
    if path.exists() and lzma.decompress(path.read_bytes()) == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(content, check=lzma.CHECK_CRC32, preset=9))


def _write_index(server: str, root: Path) -> None:
    categories = {}
    for path in sorted(root.glob("*.json.xz")):
        recordings = read_category(path.name.partition(".")[0], root)
        steps = sum(len(each.responses) for each in recordings)
        categories[recordings[0].case.category] = {"cases": len(recordings), "steps": steps}
    total = {key: sum(each[key] for each in categories.values()) for key in ("cases", "steps")}
    document = {"server": server, "total": total, "categories": categories}
    (root / _INDEX).write_text(json.dumps(document, indent=1) + "\n")


def _file(root: Path, category: str) -> Path:
    return root / f"{category}.json.xz"


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
