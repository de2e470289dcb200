"""Recordings: cases with the responses of reference servers, one compressed file per category and version.

`recordings/<category>.json.xz` holds the cases and the responses of the newest recorded Kubernetes version: a
JSON list of `{"name", "case", "responses"}`, sorted by name. `recordings/<version>/<category>.json.xz` holds
what another version returns instead: `{"name", "responses"}` with positions in the list of responses as keys.
A case that cannot run on a version has `"missing"`, the reason, in place of its responses.

A file is written only if its content changes, with fixed compression settings, so its bytes are
deterministic. `index.json` lists the version of the server and the number of cases and steps per category.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.cases import HERE, Case
from tests.conformance.compare import Record

RECORDINGS = HERE / "recordings"
NOT_RECORDED = "not recorded"
_INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Recording:
    """A case and the responses of the reference server to its steps."""

    case: Case
    responses: list[Record]
    missing: str = ""
    """Why there are no responses."""


@dataclass(frozen=True, slots=True)
class CategoryIndex:
    """Size of one category."""

    cases: int
    steps: int


def minor_version(server: str) -> str:
    """Return `1.36` of `v1.36.4`."""
    match = re.match(r"v?(\d+\.\d+)", server)
    if match is None:
        raise ValueError(f"{server!r} is not a version of Kubernetes")
    return match[1]


def recorded_servers(root: Path = RECORDINGS) -> dict[str, str]:
    """Version of the recorded server by minor version, newest first."""
    indexes = [*root.glob(_INDEX), *root.glob(f"*/{_INDEX}")]
    servers = [json.loads(path.read_text())["server"] for path in indexes]
    return {minor_version(each): each for each in sorted(servers, key=_numbers, reverse=True)}


def read_index(root: Path = RECORDINGS, version: str = "") -> dict[str, CategoryIndex]:
    """Sizes of the categories, without reading the recordings."""
    path = _folder(root, version) / _INDEX
    if not path.exists():
        return {}
    categories = json.loads(path.read_text())["categories"]
    return {name: CategoryIndex(**counts) for name, counts in categories.items()}


def read_category(category: str, root: Path = RECORDINGS, version: str = "") -> list[Recording]:
    """Read the recordings of one category, by default of the newest version."""
    return [each for each in _read_every(category, root, _folder(root, version)) if not each.missing]


def read_all(categories: Iterable[str] = (), root: Path = RECORDINGS, version: str = "") -> list[Recording]:
    """Read the recordings of these categories, or of all."""
    names = sorted(categories) or _categories(root)
    return [recording for name in names for recording in read_category(name, root, version)]


def read_missing(root: Path = RECORDINGS, version: str = "") -> dict[str, str]:
    """Return the cases without responses of a version, with the reason."""
    folder = _folder(root, version)
    every = (each for name in _categories(root) for each in _read_every(name, root, folder))
    return {each.case.name: each.missing for each in every if each.missing}


def write(recordings: Iterable[Recording], server: str, root: Path = RECORDINGS) -> None:
    """Replace or add recordings of the version of `server`, and update the indexes.

    A case that was added or changed is not recorded in the other versions until they are recorded again.
    """
    added = list(recordings)
    version, servers = minor_version(server), recorded_servers(root)
    previous = next(iter(servers), version)
    newest = max(version, previous, key=_numbers)
    categories = {each.case.category for each in added}
    if newest != previous:
        categories |= set(_categories(root))
    for category in sorted(categories):
        known = {name: _by_name(_read_every(category, root, _folder(root, name))) for name in servers}
        added_here = [each for each in added if each.case.category == category]
        known[version] = known.get(version, {}) | _by_name(added_here)
        _write_category(category, known, newest, root)
    for name, each in (servers | {version: server}).items():
        _write_index(each, root, root if name == newest else root / name)


def remove(names: Iterable[str], root: Path = RECORDINGS) -> None:
    """Delete recordings of cases that no longer exist."""
    removed = set(names)
    servers = recorded_servers(root)
    for category in {name.partition("/")[0] for name in removed}:
        known = {
            version: {
                name: each
                for name, each in _by_name(_read_every(category, root, _folder(root, version))).items()
                if name not in removed
            }
            for version in servers
        }
        _write_category(category, known, next(iter(servers)), root)


def _read_every(category: str, root: Path, folder: Path) -> list[Recording]:
    """Read all cases of a category, also those without responses; `folder` is that of a version."""
    newest = [
        Recording(Case(entry["name"], entry["case"]), entry.get("responses", []), entry.get("missing", ""))
        for entry in _read_file(root / f"{category}.json.xz")
    ]
    if folder == root:
        return newest
    changes = {each["name"]: each for each in _read_file(folder / f"{category}.json.xz")}
    return [_changed(each, changes[each.case.name]) if each.case.name in changes else each for each in newest]


def _changed(newest: Recording, change: dict[str, Any]) -> Recording:
    if "missing" in change:
        return Recording(newest.case, [], change["missing"])
    responses = dict(enumerate(newest.responses)) | {
        int(key): each for key, each in change["responses"].items()
    }
    return Recording(newest.case, [responses[position] for position in sorted(responses)])


def _change(newest: Recording, other: Recording | None) -> dict[str, Any] | None:
    """What another version returns instead; `None` if it returns the same."""
    name = newest.case.name
    if other is None or other.case != newest.case:
        return {"name": name, "missing": NOT_RECORDED}
    if other.missing:
        return {"name": name, "missing": other.missing}
    same = dict(enumerate(newest.responses))
    responses = {
        str(position): response
        for position, response in enumerate(other.responses)
        if same.get(position) != response
    }
    return {"name": name, "responses": responses} if responses or newest.missing else None


def _write_category(category: str, known: dict[str, dict[str, Recording]], newest: str, root: Path) -> None:
    """Write one category of all versions."""
    every = {
        each.case.name: Recording(each.case, [], NOT_RECORDED)
        for recordings in known.values()
        for each in recordings.values()
    }
    cases = sorted((every | known[newest]).values(), key=lambda each: each.case.name)
    # The order of keys in a case is kept: it is the order in which fields are sent.
    entries: list[dict[str, Any]] = [
        {"name": each.case.name, "case": each.case.document}
        | ({"missing": each.missing} if each.missing else {"responses": each.responses})
        for each in cases
    ]
    _write_file(root / f"{category}.json.xz", entries)
    for version, recordings in known.items():
        if version != newest:
            changes = [_change(each, recordings.get(each.case.name)) for each in cases]
            _write_file(root / version / f"{category}.json.xz", [each for each in changes if each])


def _read_file(path: Path) -> list[dict[str, Any]]:
    return json.loads(lzma.decompress(path.read_bytes())) if path.exists() else []


def _write_file(path: Path, entries: list[dict[str, Any]]) -> None:
    content = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    if not entries:
        path.unlink(missing_ok=True)
    elif not path.exists() or lzma.decompress(path.read_bytes()) != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(content, check=lzma.CHECK_CRC32, preset=9))


def _write_index(server: str, root: Path, folder: Path) -> None:
    categories = {}
    for name in _categories(root):
        recordings = [each for each in _read_every(name, root, folder) if not each.missing]
        steps = sum(len(each.responses) for each in recordings)
        categories[name] = {"cases": len(recordings), "steps": steps}
    total = {key: sum(each[key] for each in categories.values()) for key in ("cases", "steps")}
    document = {"server": server, "total": total, "categories": categories}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _INDEX).write_text(json.dumps(document, indent=1) + "\n")


def _categories(root: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in root.glob("*.json.xz"))


def _folder(root: Path, version: str) -> Path:
    """Return the folder of a recorded version; that of the newest is `root`."""
    servers = recorded_servers(root)
    if version and version not in servers:
        raise ValueError(f"Kubernetes {version} is not recorded; recorded are {', '.join(servers)}")
    return root if version in ("", next(iter(servers), "")) else root / version


def _by_name(recordings: Iterable[Recording]) -> dict[str, Recording]:
    return {each.case.name: each for each in recordings}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
